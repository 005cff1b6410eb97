//! When a program is woken: timer signals to one that computes, and processes on two cores that hand each other a byte.
//!
//! The timers' intervals are counted in instructions (`-icount shift=0`), exactly, on one core. The round trips are by the host's clock with both
//! of the machine's cores on one core of the host: there a kernel pays for an interrupt that leaves while a lock is held.

use std::{collections::BTreeMap, time::Duration};

use nix::{
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    unistd::Pid,
};

use super::{
    counted::{Counted, Source},
    experiment::Experiment,
    report::{Figure, Report},
    rig::Rig,
};
use crate::{
    cli::Kernel,
    failure::{Context as _, Result},
    qemu::Clock,
};

/// No run takes that long, Linux's boot included.
const LIMIT: Duration = Duration::from_secs(240);
/// From this period on a signal comes within [`LATE_NS`], below it within [`LATE_SHORT_NS`].
const SHORT_PERIOD_US: u64 = 250;
const LATE_NS: u64 = 60_000;
const LATE_SHORT_NS: u64 = 250_000;
/// Fewer round trips a second mean that a waiter spins.
const ROUNDS_LEAST: u64 = 2_000;

/// The experiment on the list.
pub const EXPERIMENT: Experiment = Experiment {
    name: "wakeups",
    title: "Woken in time, beside Linux",
    paper: "",
    shows: "A thread that sleeps is woken on time beside busy neighbours.",
    run,
};

/// Runs both programs on both kernels.
///
/// # Errors
/// When one cannot be compiled or does not come to its end.
pub fn run(rig: &Rig) -> Result<Report> {
    let mut report = EXPERIMENT.report();
    let theirs = timers(rig, Kernel::Linux)?;
    let ours: BTreeMap<_, _> = timers(rig, Kernel::Gyre)?.into_iter().collect();
    report.figures.extend(theirs.into_iter().filter_map(|(name, linux)| timer(&name, *ours.get(&name)?, linux)));
    let theirs = round_trips(rig, Kernel::Linux)?;
    let ours: BTreeMap<_, _> = round_trips(rig, Kernel::Gyre)?.into_iter().collect();
    report.figures.extend(theirs.into_iter().filter_map(|(name, linux)| round_trip(&name, *ours.get(&name)?, linux)));
    report.notes.extend([
        "Timers: one core, -icount shift=0: the interval in the middle of 200 signals to a program that makes no calls.".into(),
        "Round trips: two processes, each on a core of its own, both cores of the machine on one core of the host, by the host's clock.".into(),
    ]);
    Ok(report)
}

fn timers(rig: &Rig, on: Kernel) -> Result<Vec<(String, u64)>> {
    Counted {
        source: Source::C,
        name: "wakeups",
        words: &[],
        clock: Clock::Instructions,
        limit: LIMIT,
        has_marks: false,
    }
    .count(rig, on)
}

fn round_trips(rig: &Rig, on: Kernel) -> Result<Vec<(String, u64)>> {
    let _narrow = OneCore::enter()?;
    Counted { source: Source::C, name: "ping-pong", words: &[], clock: Clock::Host, limit: LIMIT, has_marks: false }
        .count(rig, on)
}

/// Returns the line of a period: "timer-US".
fn timer(name: &str, ours_ns: u64, theirs_ns: u64) -> Option<Figure> {
    let period_us: u64 = name.rsplit_once('-')?.1.parse().ok()?;
    let late_ns = if period_us >= SHORT_PERIOD_US { LATE_NS } else { LATE_SHORT_NS };
    let most_us = period_us + late_ns / 1000;
    let figure = Figure::new(format!("a signal each {period_us} us"), ours_ns as f64 / 1000.0, 1, "us");
    Some(figure.linux(theirs_ns as f64 / 1000.0).goal(format!("<= {most_us}"), ours_ns <= most_us * 1000))
}

fn round_trip(name: &str, ours: u64, theirs: u64) -> Option<Figure> {
    let figure = Figure::new(format!("round trips, {name}"), ours as f64, 0, "/s");
    Some(figure.linux(theirs as f64).goal(format!(">= {ROUNDS_LEAST}"), ours >= ROUNDS_LEAST))
}

/// This thread, and what it starts, runs on one core of the host until dropped.
struct OneCore {
    before: CpuSet,
}

impl OneCore {
    fn enter() -> Result<OneCore> {
        let before =
            sched_getaffinity(Pid::from_raw(0)).context(|| "cannot ask which cores this program may use".into())?;
        let last = (0..CpuSet::count()).rev().find(|&core| before.is_set(core) == Ok(true));
        let mut one = CpuSet::new();
        last.map_or(Ok(()), |core| one.set(core))
            .and_then(|()| sched_setaffinity(Pid::from_raw(0), &one))
            .context(|| "cannot keep the machine to one core of this host".into())?;
        Ok(OneCore { before })
    }
}

impl Drop for OneCore {
    fn drop(&mut self) {
        // It was so before; a host that took cores away meanwhile has its way.
        let _ = sched_setaffinity(Pid::from_raw(0), &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_period_may_be_later_than_a_long_one() {
        let is_met = |name, ns| timer(name, ns, 1).unwrap().is_met;
        assert_eq!((is_met("timer-250", 310_000), is_met("timer-250", 310_001)), (Some(true), Some(false)));
        assert_eq!((is_met("timer-100", 350_000), is_met("timer-100", 4_007_000)), (Some(true), Some(false)));
        assert!(timer("timer-x", 1, 1).is_none());
    }

    #[test]
    fn what_runs_on_one_core_runs_on_all_again() {
        let cores = || {
            let set = sched_getaffinity(Pid::from_raw(0)).unwrap();
            (0..CpuSet::count()).filter(|&core| set.is_set(core).unwrap()).count()
        };
        let before = cores();
        let narrow = OneCore::enter().unwrap();
        assert_eq!(cores(), 1);
        drop(narrow);
        assert_eq!(cores(), before);
    }
}
