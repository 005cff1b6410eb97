//! A conference led by PACORA: streams keep their time although one after the other becomes large, and what they need is found in microseconds.
//!
//! * The machine's streams say for each second how many frames came later than the next one was due. A stream-second is late if more than a tenth
//!   of its frames were.
//! * The solver and the fit are timed on the host, by `broker/examples/bench.rs`.

use gyre_contract::goals::BrokerPolicy;

use super::{
    experiment::Experiment,
    film::{self, Second},
    report::{Figure, Report},
    rig::Rig,
};
use crate::{build, cli::Kernel, command, failure::Result, ui::Step};

const FILE: &str = "conference.toml";
/// Seconds at which a stream changes its size, as the machine file has them.
const CHANGES_S: &[usize] = &[0, 25, 40, 55, 65];
/// Seconds after a change in which a stream may be late.
const SETTLES_S: usize = 3;
/// The part of its frames that makes a second late.
const LATE_PART: f64 = 0.1;
/// The first seconds, in which the policy knows nothing of the streams.
const LEARNS_S: usize = 20;

/// The experiment on the list.
pub const EXPERIMENT: Experiment = Experiment {
    name: "conference",
    title: "A conference whose streams change their sizes, led by one optimum",
    paper: "Tessellation (2013), Fig. 7; PACORA: solve 350 us, fit 4 us",
    shows: "Goals are met again soon after demands have changed, and the optimum costs microseconds.",
    run,
};

/// Late stream-seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Lateness {
    /// Percent of all.
    all: f64,
    /// Those later than [`SETTLES_S`] after a change.
    settled: u64,
}

impl Lateness {
    fn of(streams: &[(String, Vec<Second>)]) -> Lateness {
        let (mut all, mut late, mut settled) = (0u64, 0u64, 0u64);
        for (at, second) in streams.iter().flat_map(|(_, seconds)| seconds.iter().enumerate().skip(LEARNS_S)) {
            let is_late = is_late(second);
            let since = CHANGES_S.iter().filter(|change| **change <= at).map(|change| at - change).min();
            all += 1;
            late += u64::from(is_late);
            settled += u64::from(is_late && since.is_none_or(|since| since > SETTLES_S));
        }
        Lateness { all: 100.0 * late as f64 / all.max(1) as f64, settled }
    }
}

/// Runs PACORA and fixed shares on both kernels.
///
/// # Errors
/// When a machine does not run, or the solver does not build.
fn run(rig: &Rig) -> Result<Report> {
    let late = |on, policy| -> Result<Lateness> {
        let streams = film::play(rig, FILE, on, policy)?;
        streams.iter().for_each(|(name, seconds)| super::note(&words(name, seconds)));
        Ok(Lateness::of(&streams))
    };
    let led = late(Kernel::Gyre, BrokerPolicy::Pacora)?;
    let fixed = late(Kernel::Gyre, BrokerPolicy::Static)?;
    let linux_led = late(Kernel::Linux, BrokerPolicy::Pacora)?;
    let linux_fixed = late(Kernel::Linux, BrokerPolicy::Static)?;
    let mut report = EXPERIMENT.report();
    report.figures.extend([
        Figure::new("fixed shares: late stream-seconds", fixed.all, 1, "%").linux(linux_fixed.all),
        Figure::new("PACORA: late stream-seconds", led.all, 1, "%").linux(linux_led.all).goal("<= 5", led.all <= 5.0),
        Figure::count("PACORA: late more than 3 s after a change", led.settled)
            .linux(linux_led.settled as f64)
            .goal("0", led.settled == 0),
    ]);
    let (solve_us, fit_us) = times(&bench(rig)?);
    report.figures.extend([
        Figure::new("solve, 8 tenants x 4 resources: median", solve_us, 0, "us")
            .paper("350")
            .goal("<= 100", solve_us <= 100.0),
        Figure::new("fit, 4 resources", fit_us, 2, "us").paper("4").goal("<= 2", fit_us <= 2.0),
    ]);
    report.notes.push("One core, an instruction each 4 ns (-icount shift=2); four streams of 15 frames a second, one large at a time, beside an indexer; the first 20 s, in which PACORA learns, are not judged. On Linux the same broker writes cpu.weight. Solve and fit are timed on the host.".into());
    Ok(report)
}

/// A stream's seconds after the learning: what it used, and which were late.
fn words(name: &str, seconds: &[Second]) -> String {
    let judged = || seconds.iter().enumerate().skip(LEARNS_S);
    let used = 100.0 * judged().map(|(_, second)| second.used).sum::<f64>() / judged().count().max(1) as f64;
    let late: Vec<String> = judged().filter(|(_, second)| is_late(second)).map(|(at, _)| at.to_string()).collect();
    format!("{name}: used {used:.1} % of the core; late seconds: {}", late.join(" "))
}

fn is_late(second: &Second) -> bool {
    f64::from(second.late) > LATE_PART * second.frames.max(1.0)
}

fn bench(rig: &Rig) -> Result<String> {
    let step = Step::start("timing the solver");
    let mut cargo = build::cargo_command()?;
    cargo.current_dir(&rig.project.root);
    cargo.args(["run", "--quiet", "--release", "-p", "gyre-broker", "--example", "bench"]);
    let said = command::output(&mut cargo)?;
    step.done();
    Ok(said)
}

/// Reads the times of the solver and the fit, us; not a number if they were not said.
fn times(text: &str) -> (f64, f64) {
    let behind =
        |line: &str, word: &str| -> Option<f64> { line.split_once(word)?.1.split_whitespace().next()?.parse().ok() };
    let find = |begins: &str, word: &str| {
        text.lines()
            .find(|line| line.trim().starts_with(begins))
            .and_then(|line| behind(line, word))
            .unwrap_or(f64::NAN)
    };
    (find("8 tenants x 4 resources", "median "), find("4 resources", ": ") / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_with_a_tenth_of_its_frames_late_is_late() {
        let mut seconds = vec![Second { frames: 15.0, used: 0.1, late: 0 }; 80];
        [(3, 9), (26, 2), (29, 2), (30, 1)].into_iter().for_each(|(at, late)| seconds[at].late = late);
        let seen = Lateness::of(&[("a".into(), seconds)]);
        assert_eq!((seen.all, seen.settled), (100.0 * 2.0 / 60.0, 1), "second 3 is learnt in, 30 has one of 15");
    }

    #[test]
    fn times_are_read_from_what_the_bench_says() {
        let text = "solve\n   8 tenants x 4 resources: median 61 us, 90th percentile 70 us, 30 Newton steps\nfit\n  4 resources: 1070 ns; 900 bytes a tenant\n";
        assert_eq!(times(text), (61.0, 1.07));
        assert!(times("").0.is_nan());
    }
}
