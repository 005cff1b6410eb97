//! Cost of system calls, page faults, fork and hand-overs in instructions, here and on Linux.
//!
//! QEMU counts instructions as nanoseconds (`-icount shift=0`), so that the time stamp counter counts what program and kernel execute,
//! and nothing else that the host does. It does not count the time of instructions: a flushed translation buffer is as cheap as an addition.

use std::{collections::BTreeMap, time::Duration};

use super::{
    counted::{Counted, Source},
    experiment::Experiment,
    plot::{self, Group},
    report::{Figure, Report},
    rig::Rig,
};
use crate::{cli::Kernel, failure::Result, qemu::Clock};

/// No run takes that long, Linux's boot included.
const LIMIT: Duration = Duration::from_secs(240);
/// The goals, in instructions.
const GOALS: &[(&str, u64)] = &[
    ("getpid", 700),
    ("clock_gettime", 120),
    ("read-1-zero", 900),
    ("read-1-cached", 1_800),
    ("read-32k-cached", 7_500),
    ("open-close", 7_000),
    ("stat", 4_000),
    ("epoll_wait-ready", 1_200),
    ("pipe-round-trip", 18_000),
    ("anonymous-fault", 3_100),
    ("touch-8-mapped-cached", 5_400),
    ("fork-exit-wait", 200_000),
    ("mprotect", 8_000),
];

/// Calls in one plot: more would stand on each other.
const PLOTTED: usize = 7;

/// The experiment on the list.
pub const EXPERIMENT: Experiment = Experiment {
    name: "calls",
    title: "Instructions per call, beside Linux",
    paper: "",
    shows: "The length of the way of each call.",
    run,
};

/// Runs the program on both kernels.
///
/// # Errors
/// When it cannot be compiled or does not come to its end.
pub fn run(rig: &Rig) -> Result<Report> {
    let mut report = EXPERIMENT.report();
    let theirs = count(rig, Kernel::Linux, Clock::Instructions)?;
    let ours: BTreeMap<_, _> = count(rig, Kernel::Gyre, Clock::Instructions)?.into_iter().collect();
    let mut groups = vec![];
    for (name, linux) in theirs {
        let Some(&gyre) = ours.get(&name) else { continue };
        let figure = Figure::count(name.clone(), gyre).linux(linux as f64);
        groups.push(Group { name: name.clone(), values: vec![gyre as f64 / linux.max(1) as f64] });
        let goal = GOALS.iter().find(|(known, _)| *known == name);
        report.figures.push(match goal {
            Some((_, most)) => figure.goal(format!("<= {most}"), gyre <= *most),
            None => figure,
        });
    }
    for (number, groups) in (1..).zip(groups.chunks(PLOTTED)) {
        let title = "Gyre's instructions divided by Linux': less is better";
        report.plot(format!("calls-{number}.svg"), plot::bars(title, "", &["of Linux"], groups));
    }
    report
        .notes
        .push("One core, -icount shift=0: instructions of program and kernel, the cheapest of five batches.".into());
    Ok(report)
}

/// Returns the program's unit on a kernel: instructions, or nanoseconds by the host's clock for the calls that `exp files` shows.
///
/// # Errors
/// When it does not come to its end.
pub fn count(rig: &Rig, on: Kernel, clock: Clock) -> Result<Vec<(String, u64)>> {
    let words: &[&str] = if clock == Clock::Host { &["/calls", "time"] } else { &[] };
    Counted { source: Source::C, name: "calls", words, clock, limit: LIMIT, has_marks: false }.count(rig, on)
}
