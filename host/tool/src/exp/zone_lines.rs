//! A line of 64 bytes to another kernel and back, beside a bare interrupt (R3), and channels between programs (R5 of the Horizontal OS' paper).
//!
//! * Casts: the line goes to one, two and three zones of a core each; a trip ends when all have answered.
//! * Lines: two cores, a supervisor on one and a zone on the other, no programs ([`bare`]). By the host's clock the best of 1800 counts, as the
//!   host takes its turns in the others; in instructions of both cores the median.
//! * Channels: CPU time of all virtual processors for a message there and back, and for each MiB in messages of 64 KiB: a busy host stretches the
//!   clock, not this. Linux beside has messages of UNIX sockets between two processes.

mod bare;

use std::time::Duration;

use bare::{Bench, Lines};

use super::{
    company::{Company, as_it_is, median},
    experiment::Experiment,
    plot::{self, Group},
    report::{Figure, Report},
    rig::Rig,
};
use crate::{build, cli::Kernel, failure::Result, qemu::Clock, ui::Step};

const CLIENT: &str = "client";
const ROUNDS: u32 = 5;
const WINDOW: Duration = Duration::from_secs(2);
/// Messages there and back in an operation of `talk`; an operation of `bulk` is a MiB.
const TRIPS: f64 = 20.0;
const TRIP_GOAL: f64 = 1.2;
/// Zones that get a line, and its name.
const CASTS: [(u16, &str); 3] = [(1, "uni-cast"), (2, "multi-cast to two"), (3, "broadcast to three")];

/// The experiment on the list.
pub const EXPERIMENT: Experiment = Experiment {
    name: "zone-lines",
    title: "Lines and channels between kernels",
    paper: "",
    shows: "A message to another kernel costs hardly more than the interrupt that carries it.",
    run,
};

/// CPU time of all virtual processors, us: a message there and back, and a MiB.
#[derive(Clone, Copy)]
struct Channel {
    trip_us: f64,
    mib_us: f64,
}

/// Measures lines by both clocks, and channels on both kernels.
///
/// # Errors
/// When a machine does not run.
pub fn run(rig: &Rig) -> Result<Report> {
    let kernel = build::boot_test(&rig.project)?;
    let counted = Lines::measure(rig, &kernel, Bench::Lines, Clock::Instructions)?;
    let timed = Lines::measure(rig, &kernel, Bench::Lines, Clock::Host)?;
    let casts = Lines::measure(rig, &kernel, Bench::Casts, Clock::Instructions)?;
    let casts_timed = Lines::measure(rig, &kernel, Bench::Casts, Clock::Host)?;
    let [linux] = channels(rig, "zone-lines-linux.toml", Kernel::Linux, ["near"])?;
    let [near, far] = channels(rig, "zone-lines.toml", Kernel::Gyre, ["near", "far"])?;
    let mut report = report(&timed, &counted, [near, far, linux]);
    add_casts(&mut report, &casts_timed, &casts);
    Ok(report)
}

fn channels<const N: usize>(rig: &Rig, file: &str, on: Kernel, kinds: [&str; N]) -> Result<[Channel; N]> {
    let mut company = Company::start(rig, file, on, &as_it_is)?;
    let step = Step::start(format!("channels on {on:?}"));
    let mut rounds: [[Vec<f64>; 2]; N] = std::array::from_fn(|_| Default::default());
    for number in 0..rig.count.unwrap_or(ROUNDS) {
        step.detail(&format!("round {number}"));
        for (rounds, kind) in rounds.iter_mut().zip(kinds) {
            for (rounds, work) in rounds.iter_mut().zip(["talk", "bulk"]) {
                let works = company.work(rig, &[(CLIENT, &format!("{work}-{kind}"))], WINDOW)?;
                rounds.push(works.first().map_or(f64::NAN, |work| work.machine_us));
            }
        }
    }
    step.done();
    Ok(rounds.map(|[talk, bulk]| Channel { trip_us: median(talk) / TRIPS, mib_us: median(bulk) }))
}

fn report(timed: &Lines, counted: &Lines, [near, far, linux]: [Channel; 3]) -> Report {
    let mut report = EXPERIMENT.report();
    let of = |lines: &Lines, name: &str, which: &str| lines.count(&format!("{name}-{which}"));
    // the bare interrupts were timed before the lines and after them
    let interrupt = |lines: &Lines, which: &str| of(lines, "interrupt", which).min(of(lines, "interrupt-again", which));
    let trip = of(counted, "halted", "median") / interrupt(counted, "median");
    let best = of(timed, "halted", "best") / interrupt(timed, "best");
    let instructions = |name: &str, value| Figure::new(name, value, 0, "instructions");
    let us = |name: &str, value| Figure::new(name, value, 2, "us");
    let cpu = |name: &str, value| Figure::new(name, value, 1, "us of CPU time");
    report.figures.extend([
        instructions("a bare interrupt there and one back", interrupt(counted, "median")),
        instructions("a line there and back, both cores halted", of(counted, "halted", "median")),
        Figure::new("the second, times the first, in instructions", trip, 2, "x"),
        instructions("a line of a stream, both cores", counted.of_stream()),
        us("a bare interrupt there and one back: best", timed.us("interrupt-best")),
        us("a line there and back: best, halted", timed.us("halted-best")),
        us("a line there and back: best, the sender polls", timed.us("polled-best")),
        Figure::new("the halted one, times the interrupt", best, 2, "x")
            .goal(format!("<= {TRIP_GOAL}"), best <= TRIP_GOAL),
        us("a line of a stream", timed.of_stream() * 1e3 / timed.count("cycles-per-ms")),
        cpu("64 bytes by a channel and back, in one zone", near.trip_us).linux(linux.trip_us),
        cpu("64 bytes by a channel and back, between zones", far.trip_us),
        cpu("a MiB by a channel, in one zone", near.mib_us).linux(linux.mib_us),
        cpu("a MiB by a channel, between zones", far.mib_us),
    ]);
    let group = |name: &str, value| Group { name: name.into(), values: vec![value] };
    let bars = [
        group("interrupt", interrupt(counted, "median")),
        group("line, halted", of(counted, "halted", "median")),
        group("line, polled", of(counted, "polled", "median")),
        group("line of a stream", counted.of_stream()),
    ];
    report.plot("zone-lines.svg", plot::bars("There and back, both cores", "", &["instructions"], &bars));
    report.notes.push(
        "Lines without programs: two cores of the platform's test kernel, a supervisor and a zone; counted in instructions (-icount shift=0), and timed \
         by the host's clock, of which the best of 1800 is shown. An interrupt takes time beyond its instructions, so that the goal is by the clock. Channels: the median of the rounds; Linux has SOCK_SEQPACKET between two processes."
            .into(),
    );
    report
}

/// Adds the lines to several zones: each beside as many to a single one.
fn add_casts(report: &mut Report, timed: &Lines, counted: &Lines) {
    for wait in ["halted", "polled"] {
        let alone = counted.count(&format!("{wait}-1-median"));
        for (number, name) in CASTS {
            let cost = counted.count(&format!("{wait}-{number}-median"));
            let best = timed.us(&format!("{wait}-{number}-best"));
            let name = format!("{name}, all back, {wait}");
            report.figures.push(Figure::new(format!("{name}: all cores"), cost, 0, "instructions"));
            report.figures.push(Figure::new(format!("{name}: best"), best, 2, "us"));
            if number > 1 {
                let part = cost / (alone * f64::from(number));
                let figure = Figure::new(format!("{name}, times as many uni-casts"), part, 2, "x");
                report.figures.push(figure.goal("<= 1", part <= 1.0));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cast_is_compared_with_as_many_lines() {
        let lines = |three: u64| {
            let counts: String = ["halted", "polled"]
                .map(|wait| {
                    format!("lines: {wait}-1-median 100\nlines: {wait}-2-median 180\nlines: {wait}-3-median {three}\n")
                })
                .concat();
            Lines::of(&counts)
        };
        let of = |three| {
            let mut report = EXPERIMENT.report();
            add_casts(&mut report, &lines(three), &lines(three));
            report
        };
        assert_eq!(of(240).figures.iter().filter_map(|figure| figure.is_met).collect::<Vec<_>>(), [true; 4]);
        assert!(!of(310).is_met());
    }

    #[test]
    fn a_line_is_compared_with_the_cheaper_interrupt() {
        let lines = |halted: u64| {
            Lines::of(&format!(
                "lines: cycles-per-ms 1000\nlines: interrupt-best 90\nlines: interrupt-median 100\nlines: interrupt-again-best 95\n\
                 lines: interrupt-again-median 110\nlines: halted-best {halted}\nlines: halted-median {halted}\nlines: polled-best 50\n\
                 lines: polled-median 60\nlines: stream-lines 10\nlines: stream-cycles 300\n"
            ))
        };
        let channel = Channel { trip_us: 10.0, mib_us: 100.0 };
        let of = |halted| report(&lines(halted), &lines(halted), [channel; 3]);
        let good = of(105);
        assert_eq!((good.figures[2].value, good.figures[3].value), (Some(1.05), Some(30.0)));
        assert!(good.is_met() && !of(130).is_met());
    }
}
