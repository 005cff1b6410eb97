//! The tail of a service beside batch work, and a core that follows its load through a day (R11, R12; Figs 7 to 9 and Table 5 of the Horizontal
//! OS' paper).
//!
//! ```text
//!   clients --questions, due at random moments--> service | batch work
//!        `--p99 of a window--> the law of `gyre zone control` --> a core: lent between zones, or bound anew on Linux
//! ```
//! 1. The rate of one core: what the service answers if it is asked without a pause, beside batch work.
//! 2. The tail: half of that rate, beside a program that only computes and beside the batch work, in turn. So the host is as busy in both.
//! 3. The day: the rate rises to [`PEAK`] of a core's and falls again. The law moves a core at the end of a window; each window counts as good
//!    if its p99 is no later than the upper threshold. On Linux once more with the cores that the peak needs, which stay: cpusets.
//!
//! Three machines take some nine minutes.
//!
//! Thresholds are multiples of the tail in calm on the same machine: a host that is slower has a slower service.

mod clients;
mod ground;

use std::{fmt::Write as _, time::Duration};

use clients::Clients;
use ground::{Batch, Ground};
use gyre_broker_program::cores::{Band, Law, Move, Seen, Terms};

use super::{
    company::median,
    experiment::Experiment,
    plot::{self, Line},
    report::{Figure, Report},
    rig::Rig,
};
use crate::{cli::Kernel, failure::Result, ui::Step};

/// Windows of a day, unless the user chose another number (`--count`).
const WINDOWS: u32 = 40;
/// Seconds of a window, unless the user chose others.
const WINDOW_S: u32 = 3;
/// Pairs of windows in calm and beside batch work.
const PAIRS: u32 = 5;
/// Load by day and by night, in parts of what one core serves.
const PEAK: f64 = 1.3;
const NIGHT: f64 = 0.25;
/// Load while the tail is compared.
const STEADY: f64 = 0.5;
/// Thresholds, in tails of a calm machine.
const LOWER: f64 = 1.3;
const UPPER: f64 = 4.0;
/// Fewer answers in a window move nothing.
const ANSWERS: u64 = 10;
const TAIL_GOAL: f64 = 1.08;
const INSIDE_GOAL: f64 = 90.0;

/// The experiment on the list.
pub const EXPERIMENT: Experiment = Experiment {
    name: "zone-tail",
    title: "A service's tail beside batch work, and cores that follow its load",
    paper: "",
    shows: "Batch work in another zone neither makes the service late nor keeps the cores that it needs by day.",
    run,
};

/// The rule for cores.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cores {
    /// By the law.
    Follow,
    /// The service keeps those that its peak needs.
    Stay,
}

/// A window of the day.
#[derive(Clone, Copy)]
struct Hour {
    load: f64,
    p99_ms: f64,
    service_cores: usize,
}

/// A day on one machine.
#[derive(Clone, Default)]
struct Day {
    hours: Vec<Hour>,
    upper_ms: f64,
    missed: u64,
    moves: u64,
    refused: u64,
    /// Operations of batch work, in parts of what both cores do in the same time.
    batch: f64,
}

/// One machine's figures.
#[derive(Clone, Default)]
struct Outcome {
    /// p99 beside batch work, divided by that beside a program that computes.
    tail: f64,
    day: Day,
}

/// The rates of a machine, measured on itself.
struct Scale {
    /// Answers of one core, a second.
    rate: f64,
    /// p99 at half of it, ms.
    calm_ms: f64,
    /// Operations of batch work on both cores, a second.
    batch_rate: f64,
}

/// Measures both kernels.
///
/// # Errors
/// When a machine does not run.
pub fn run(rig: &Rig) -> Result<Report> {
    let fixed = measure(rig, Kernel::Linux, Cores::Stay)?;
    let linux = measure(rig, Kernel::Linux, Cores::Follow)?;
    let ours = measure(rig, Kernel::Gyre, Cores::Follow)?;
    Ok(report(&ours, &linux, &fixed))
}

fn window(rig: &Rig) -> Duration {
    Duration::from_secs(rig.seconds.unwrap_or(WINDOW_S).into())
}

fn measure(rig: &Rig, on: Kernel, cores: Cores) -> Result<Outcome> {
    let mut ground = Ground::start(rig, on)?;
    let mut clients = Clients::start(ground.service(), ground.namespace(), rig.seed.unwrap_or(1));
    let step = Step::start(format!("a service beside batch work on {on:?}"));
    let (tail, scale) = calm(rig, &mut ground, &mut clients, &step)?;
    if cores == Cores::Stay {
        ground.give(Move::ToService)?;
    }
    let day = day(rig, &mut ground, &mut clients, &scale, cores, &step)?;
    step.done();
    Ok(Outcome { tail, day })
}

/// Measures the machine's rates, and the tail at half of them.
fn calm(rig: &Rig, ground: &mut Ground, clients: &mut Clients, step: &Step) -> Result<(f64, Scale)> {
    let length = window(rig);
    ground.order(Batch::Mix)?;
    clients.window(20.0, length / 2);
    step.detail("what one core serves");
    ground.take()?;
    // far more than it can serve: the clients' threads are always waiting for an answer
    let served = clients.window(3000.0, length).times_ms.len();
    let batch_rate = ground.take()? / length.as_secs_f64();
    clients.forget();
    let rate = served as f64 / length.as_secs_f64();
    let (mut tails, mut calms) = (vec![], vec![]);
    for round in 0..PAIRS {
        step.detail(&format!("the tail, round {round}; one core serves {rate:.0}/s"));
        let mut turn = |batch| -> Result<f64> {
            ground.check(rig)?;
            ground.order(batch)?;
            clients.window(rate * STEADY, length / 4);
            Ok(clients.window(rate * STEADY, length).p99_ms())
        };
        let [calm, beside] = [turn(Batch::Spin)?, turn(Batch::Mix)?];
        tails.push(beside / calm);
        calms.push(calm);
    }
    Ok((median(tails), Scale { rate, calm_ms: median(calms), batch_rate }))
}

/// Load of a window, in parts of what one core serves: low by night, high by day, without a jump.
fn load_of(window: u32, windows: u32) -> f64 {
    let part = f64::from(window) / f64::from(windows.max(1));
    let rise = (1.0 - (part * std::f64::consts::TAU).cos()) / 2.0;
    NIGHT + (PEAK - NIGHT) * rise
}

fn day(rig: &Rig, ground: &mut Ground, clients: &mut Clients, scale: &Scale, cores: Cores, step: &Step) -> Result<Day> {
    let (length, windows) = (window(rig), rig.count.unwrap_or(WINDOWS));
    let band = Band { lower_ms: scale.calm_ms * LOWER, upper_ms: scale.calm_ms * UPPER };
    let mut law = Law::new(&Terms { band, pause: length, answers: ANSWERS, cores_least: 1 });
    let mut day = Day { upper_ms: band.upper_ms, ..Day::default() };
    ground.order(Batch::Mix)?;
    ground.take()?;
    for number in 0..windows {
        ground.check(rig)?;
        let load = load_of(number, windows);
        let seen = clients.window(load * scale.rate, length);
        let service_cores = ground.cores()[0];
        step.detail(&format!("window {number} of {windows}: {load:.2} of a core, p99 {:.0} ms", seen.p99_ms()));
        day.hours.push(Hour { load, p99_ms: seen.p99_ms(), service_cores });
        day.missed += seen.missed;
        let seen = Seen { answers: seen.times_ms.len() as u64, p99_ms: Some(seen.p99_ms()) };
        let now_ns = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX).saturating_mul(u64::from(number) + 1);
        let decided = (cores == Cores::Follow).then(|| law.decide(now_ns, &seen, ground.cores()).moves).flatten();
        if let Some(to) = decided {
            let refused = ground.give(to)?;
            day.moves += u64::from(refused.is_none());
            day.refused += u64::from(refused.is_some());
        }
    }
    day.batch = ground.take()? / (scale.batch_rate * length.as_secs_f64() * f64::from(windows));
    Ok(day)
}

impl Day {
    /// Windows whose tail was no later than the upper threshold, percent.
    fn inside(&self) -> f64 {
        let good = self.hours.iter().filter(|hour| hour.p99_ms <= self.upper_ms).count();
        good as f64 * 100.0 / self.hours.len().max(1) as f64
    }
}

fn report(ours: &Outcome, linux: &Outcome, fixed: &Outcome) -> Report {
    let mut report = EXPERIMENT.report();
    let (day, rival, still) = (&ours.day, &linux.day, &fixed.day);
    report.figures.extend([
        Figure::new("p99 beside batch work, times that beside a program that computes", ours.tail, 2, "x")
            .linux(linux.tail)
            .paper("< 1.08 x")
            .goal(format!("<= {TAIL_GOAL}"), ours.tail <= TAIL_GOAL),
        Figure::new("windows of a day whose p99 is within the threshold", day.inside(), 0, "%")
            .linux(rival.inside())
            .goal(format!(">= {INSIDE_GOAL} %"), day.inside() >= INSIDE_GOAL),
        Figure::new("the same with cpusets for the peak", f64::NAN, 0, "%").linux(still.inside()),
        Figure::new("batch work done, of what its two cores do", day.batch, 2, "x")
            .linux(still.batch)
            .goal(">= Linux with cpusets", day.batch >= still.batch),
        Figure::new("the same by the same rule", day.batch, 2, "x").linux(rival.batch),
        Figure::count("moves of a core", day.moves).linux(rival.moves as f64),
        Figure::count("moves that were refused", day.refused).goal("0", day.refused == 0),
        Figure::count("questions without an answer", day.missed).linux(rival.missed as f64).goal("0", day.missed == 0),
    ]);
    let points = |day: &Day, value: fn(&Hour) -> f64| {
        day.hours.iter().enumerate().map(|(at, hour)| (at as f64, value(hour))).collect()
    };
    let line = |name: &str, day: &Day| Line {
        name: name.into(),
        points: points(day, |hour| hour.p99_ms),
        level: Some(day.upper_ms),
    };
    let lines = [line("zones", day), line("Linux, same rule", rival), line("Linux, cpusets", still)];
    report.plot(
        "zone-tail.svg",
        plot::lines("p99 of a window through a day (dashed: its threshold)", [" h", " ms"], &lines),
    );
    report.lines = Some(csv(&[("zones", day), ("linux", rival), ("cpusets", still)]));
    report.notes.push(format!(
        "Four virtual processors on two cores of a shared host, so that times are compared on one machine only: the upper threshold is {UPPER} times \
         the p99 at half of what one core serves, the load of the day between {NIGHT} and {PEAK} of a core. One plug-in decides for zones \
         and for Linux, where the programs are bound anew; with cpusets the service has two cores all day. Batch work: faults, names of files, \
         computing. The paper's thresholds are 160 and 200 ms."
    ));
    report
}

fn csv(days: &[(&str, &Day)]) -> String {
    let mut text = String::from("machine,window,load,p99_ms,upper_ms,service_cores\n");
    for (name, day) in days {
        for (number, hour) in day.hours.iter().enumerate() {
            let Hour { load, p99_ms, service_cores } = hour;
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name},{number},{load:.2},{p99_ms:.1},{:.1},{service_cores}", day.upper_ms);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_begins_and_ends_by_night_and_needs_two_cores_at_noon() {
        assert!((load_of(0, 48) - NIGHT).abs() < 1e-9 && (load_of(24, 48) - PEAK).abs() < 1e-9);
        assert!((0..48).all(|window| (load_of(window, 48) - load_of(window + 1, 48)).abs() < 0.1));
    }

    #[test]
    fn late_windows_and_lost_batch_work_miss_the_goals() {
        let hour = |p99_ms| Hour { load: 1.0, p99_ms, service_cores: 1 };
        let day = |late: usize, batch| {
            let hours = (0..10).map(|number| hour(if number < late { 99.0 } else { 10.0 })).collect();
            Day { hours, upper_ms: 40.0, batch, ..Day::default() }
        };
        let of = |late, batch| Outcome { tail: 1.0, day: day(late, batch) };
        let met = |ours: Outcome| report(&ours, &of(5, 0.7), &of(0, 0.5)).is_met();
        assert!(met(of(1, 0.6)));
        assert!(!met(of(2, 0.6)), "80 % of the windows");
        assert!(!met(of(0, 0.4)), "less than with cpusets");
        assert!(!met(Outcome { tail: 1.2, ..of(0, 0.6) }));
    }
}
