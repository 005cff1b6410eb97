//! A tenant that makes 10,000 pidfds, timers, message queues and semaphores, over and over: how long its neighbours take to make, use and
//! remove one of each, here and on Linux.

use super::{
    beside::{Beside, Outcome},
    experiment::Experiment,
    report::{Figure, Report},
    rig::Rig,
};
use crate::{cli::Kernel, failure::Result};

/// The third tenant's work (experiments/objects/objects.c).
const CALM: &str = "rest";
const CROWD: &str = "make";
const RATIO_MAX: f64 = 1.2;

/// The experiment on the list.
pub const EXPERIMENT: Experiment = Experiment {
    name: "objects",
    title: "Kernel objects beside 10,000 of each kind",
    paper: "",
    shows: "A tenant that makes kernel objects without end does not slow its neighbours' use of their own.",
    run,
};

/// Measures a neighbour's p99 in calm, and beside the crowd, on both kernels.
///
/// # Errors
/// When a machine does not run.
pub fn run(rig: &Rig) -> Result<Report> {
    let (linux_calm, calm) = both(rig, CALM)?;
    let (linux, gyre) = both(rig, CROWD)?;
    let mut report = EXPERIMENT.report();
    for (case, gyre, linux) in [("in calm", calm, linux_calm), ("beside the crowd", gyre, linux)] {
        report.figures.extend([
            Figure::new(format!("neighbours' p99, {case}"), gyre.p99_us, 1, "us").linux(linux.p99_us),
            Figure::new(format!("neighbours' median, {case}"), gyre.p50_us, 1, "us").linux(linux.p50_us),
        ]);
    }
    let ratio = |beside: Outcome, calm: Outcome| beside.p99_us / calm.p99_us.max(0.001);
    let grown = ratio(gyre, calm);
    report.figures.extend([
        Figure::new("neighbours' p99 beside the crowd, times that in calm", grown, 2, "")
            .linux(ratio(linux, linux_calm))
            .goal(format!("<= {RATIO_MAX}"), grown <= RATIO_MAX),
        Figure::new("objects that the crowd made", gyre.done as f64, 0, "")
            .linux(linux.done as f64)
            .goal("> 0", gyre.done > 0),
    ]);
    report.notes.push(
        "One core, 256 MiB, -icount shift=0: a nanosecond is an instruction; the worse of two neighbours, each 1000 times, a millisecond apart: a pidfd, a \
         timer, a message queue, a semaphore and a named queue are made, used and removed. Bronze asks for its parent without pause; or makes 10,000 of each \
         kind in three processes, and 150 named queues, and removes them, without pause."
            .into(),
    );
    Ok(report)
}

/// On Linux, and here.
fn both(rig: &Rig, mode: &str) -> Result<(Outcome, Outcome)> {
    let measure = |on| {
        let (other, step) = (Some(vec!["/objects".into(), mode.into()]), format!("objects beside {mode}"));
        Beside { name: "objects", program: ("objects/objects.c", "/objects"), other, step }.measure(rig, on)
    };
    Ok((measure(Kernel::Linux)?, measure(Kernel::Gyre)?))
}
