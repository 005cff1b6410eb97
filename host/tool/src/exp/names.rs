//! A tenant that thrashes names, or dirties pages as fast as the cache takes them: how long its neighbours' looks at their own names take, here
//! and on Linux.

use super::{
    beside::{Beside, Outcome},
    experiment::Experiment,
    plot::{self, Group},
    report::{Figure, Report},
    rig::Rig,
};
use crate::{cli::Kernel, failure::Result};

/// The third tenant's work (experiments/names/names.c), and its name here.
const CASES: [(&str, &str); 3] =
    [("rest", "bronze looks at one file"), ("thrash", "bronze thrashes names"), ("dirty", "bronze dirties pages")];
const RATIO_MAX: f64 = 1.05;

/// The experiment on the list.
pub const EXPERIMENT: Experiment = Experiment {
    name: "names",
    title: "Looks at names beside names without end and beside dirty pages",
    paper: "",
    shows: "Names that a neighbour makes without end, or its dirty pages, do not slow a look at names.",
    run,
};

/// Adversaries nr. 5 and 4: names without end, pages dirtied at the cache's speed.
///
/// # Errors
/// When a machine does not run.
pub fn run(rig: &Rig) -> Result<Report> {
    let mut report = EXPERIMENT.report();
    let outcomes = CASES.iter().map(|(mode, _)| both(rig, mode)).collect::<Result<Vec<_>>>()?;
    for ((_, case), (linux, gyre)) in CASES.iter().zip(&outcomes) {
        let row = |what: &str, decimals, unit, of: fn(&Outcome) -> f64| {
            Figure::new(format!("neighbours' {what}, {case}"), of(gyre), decimals, unit).linux(of(linux))
        };
        report.figures.extend([
            row("p99", 1, "us", |outcome| outcome.p99_us),
            row("median", 1, "us", |outcome| outcome.p50_us),
            row("reads from the disk", 0, "bytes", |outcome| outcome.read_bytes as f64),
        ]);
        let done = Figure::new(format!("times that {case}"), gyre.done as f64, 0, "").linux(linux.done as f64);
        report.figures.push(done.goal("> 0", gyre.done > 0));
    }
    let Some(((linux_rest, gyre_rest), attacked)) = outcomes.split_first() else { return Ok(report) };
    for ((_, case), (linux, gyre)) in CASES.iter().skip(1).zip(attacked) {
        let ours = gyre.p99_us / gyre_rest.p99_us.max(0.001);
        let grown = Figure::new(format!("p99 while {case}, times that without"), ours, 2, "");
        let grown = grown.linux(linux.p99_us / linux_rest.p99_us.max(0.001));
        report.figures.push(grown.goal(format!("<= {RATIO_MAX}"), ours <= RATIO_MAX));
    }
    let group = |name: &str, of: fn(&(Outcome, Outcome)) -> f64| Group {
        name: name.into(),
        values: outcomes.iter().map(of).collect(),
    };
    let groups = [group("Linux", |pair| pair.0.p99_us), group("Gyre", |pair| pair.1.p99_us)];
    let cases = CASES.map(|(_, case)| case);
    report.plot("names.svg", plot::bars("p99 of the neighbours' looks at their names", " us", &cases, &groups));
    report.notes.push(
        "One core, 256 MiB, -icount shift=0: a nanosecond is an instruction; the worse of two neighbours, each 1000 looks (stat) at random ones of 1000 files of \
         theirs, a millisecond apart. Bronze looks at one file without pause; or at 8000 names of 190 letters, at as many that are not there and ever new, and \
         makes and removes one each sixteenth time; or writes pages of 47 MiB in random order without a sync. Linux: Debian's cloud kernel, memory.low by \
         reservation, memory.high a sixteenth below memory.max."
            .into(),
    );
    Ok(report)
}

/// On Linux, and here.
fn both(rig: &Rig, mode: &str) -> Result<(Outcome, Outcome)> {
    let measure = |on| {
        let (other, step) = (Some(vec!["/names".into(), mode.into()]), format!("looking beside {mode}"));
        Beside { name: "names", program: ("names/names.c", "/names"), other, step }.measure(rig, on)
    };
    Ok((measure(Kernel::Linux)?, measure(Kernel::Gyre)?))
}
