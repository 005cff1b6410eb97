//! XOS, Tables I and II: calls and privileged instructions in a cell, and the way in and out, in instructions.

use std::time::Duration;

use super::{
    cell_grounds::{Found, Grounds, failed_as},
    experiment::Experiment,
    plot::{self, Group},
    report::{Figure, Report},
    rig::Rig,
};
use crate::{failure::Result, qemu::Clock};

const NULL_CALL_MAX: u64 = 10;
const FEWER_THAN_LINUX: f64 = 30.0;
const PRIVILEGED_MAX: u64 = 3;
/// Instructions that only a kernel has elsewhere.
const PRIVILEGED: [&str; 9] =
    ["rdtsc", "rdtscp", "cr8-read", "cr8-write", "cr3-read-write", "sgdt", "lgdt", "sidt", "lidt"];
/// Measured by the program as a process; Linux has those that are no cell's.
const WAYS: [&str; 6] =
    ["fork-exit-wait", "fork-exec-exit-wait", "fork-launcher-wait", "enter", "exit-and-back", "leave"];

/// The experiment on the list.
pub const EXPERIMENT: Experiment = Experiment {
    name: "cell-calls",
    title: "Instructions of calls and privileged instructions in a cell",
    paper: "XOS, Tables I and II",
    shows: "A call in a cell is a jump, and no instruction leaves it.",
    run,
};

/// Runs the program on Linux, as a process and as a cell.
///
/// # Errors
/// When it cannot be compiled or does not come to its end.
pub fn run(rig: &Rig) -> Result<Report> {
    let grounds = |clock| Grounds {
        name: "cell-calls",
        linux: "/cell-calls",
        gyre: "/cell-calls; /usr/bin/gyre-cell --memory 8M -- /cell-calls cell",
        clock,
        limit: Duration::from_secs(240),
    };
    let count = |clock| grounds(clock).count(rig, &["process", "cell"]);
    report(&count(Clock::Instructions)?, &count(Clock::Host)?)
}

fn report(found: &Found, timed: &Found) -> Result<Report> {
    let mut report = EXPERIMENT.report();
    let null = found.get("cell", "getpid").ok_or_else(|| failed_as("cell"))?;
    let linux = found.get("linux-process", "getpid").unwrap_or(0) as f64;
    let row = |name: &str, count: u64| Figure::new(name, count as f64, 0, "instructions");
    report.figures.push(row("null call", null).linux(linux).goal(format!("<= {NULL_CALL_MAX}"), null <= NULL_CALL_MAX));
    let fewer = linux / null.max(1) as f64;
    report.figures.push(
        Figure::new("null call: fewer than Linux by", fewer, 1, "times")
            .paper("5.1 times in cycles")
            .goal(format!(">= {FEWER_THAN_LINUX}"), fewer >= FEWER_THAN_LINUX),
    );
    if let Some(process) = found.get("process", "getpid") {
        report.figures.push(row("null call of a process here", process).linux(linux));
    }
    for name in PRIVILEGED.into_iter().chain(["invlpg"]) {
        let Some(count) = found.get("cell", name) else { continue };
        let figure = row(name, count).goal(format!("1 to {PRIVILEGED_MAX}"), (1..=PRIVILEGED_MAX).contains(&count));
        report.figures.push(found.beside_linux(figure, name));
    }
    for (found, unit) in [(found, "instructions"), (timed, "cycles")] {
        for (name, count) in WAYS.iter().filter_map(|name| Some((name, found.get("process", name)?))) {
            let figure = Figure::new(format!("{name}, {unit}"), count as f64, 0, "");
            let figure = if *name == "enter" { figure.paper("198846 cycles") } else { figure };
            report.figures.push(found.beside_linux(figure, name));
        }
    }
    let bars =
        [("Linux", linux), ("process", found.get("process", "getpid").unwrap_or(0) as f64), ("cell", null as f64)];
    let bars = bars.map(|(name, value)| Group { name: name.into(), values: vec![value] });
    report.plot("cell-calls.svg", plot::bars("A null call", " instructions", &["getpid"], &bars));
    report.notes.push(
        "Two cores, -icount shift=0: instructions of all cores, the least of seven batches of 2000, the loop's own taken off; \
         with the instruction that loads the call's number. enter, leave: a process with 2 MiB more by the native call; \
         exit-and-back: out to the kernel and in again for nothing; fork-launcher-wait: gyre-cell with a program that ends at once, \
         fork-exec-exit-wait: that program without. Cycles are those of \
         the emulator's clock, on two threads of the host. rdpmc: the emulator has none. \
         The emulator counts no time of instructions."
            .into(),
    );
    Ok(report)
}
