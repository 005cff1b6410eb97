//! XOS, Fig. 5: calls and faults of two threads at once beside those of one: on Linux, as a process here, as a cell of two cores.
//!
//! The clock is the host's: two cores at once are no matter of counts. A slope is a ratio of one run, so that what the host does meanwhile is in
//! both times; the least of several rounds counts.

use std::time::Duration;

use super::{
    cell_grounds::{Found, Grounds, failed_as},
    experiment::Experiment,
    plot::{self, Group},
    report::{Figure, Report},
    rig::Rig,
};
use crate::{failure::Result, qemu::Clock};

/// The operations of the program.
const OPERATIONS: [&str; 4] = ["brk", "futex", "mmap", "page-fault"];
/// Grounds, and their names for readers.
const GROUNDS: [(&str, &str); 3] = [("cell", "a cell"), ("process", "a process here"), ("linux-process", "Linux")];

/// The experiment on the list.
pub const EXPERIMENT: Experiment = Experiment {
    name: "cell-scale",
    title: "Calls and faults of two threads beside those of one",
    paper: "XOS, Fig. 5",
    shows: "How calls and faults scale from one core to two.",
    run,
};

/// Measures on both kernels.
///
/// # Errors
/// When the program does not come to its end.
pub fn run(rig: &Rig) -> Result<Report> {
    let process = "/cell-scale process 2 1";
    let grounds = Grounds {
        name: "cell-scale",
        linux: process,
        gyre: &format!("{process}; /usr/bin/gyre-cell --cores 2 --memory 16M -- /cell-scale cell 2 -1"),
        clock: Clock::Host,
        limit: Duration::from_secs(400),
    };
    report(&grounds.count(rig, &["process", "cell"])?)
}

/// Times of one operation of each thread, ns: of one thread and of two.
fn times(found: &Found, ground: &str, operation: &str) -> Option<[f64; 2]> {
    let get = |threads| found.get(ground, &format!("{operation}-{threads}")).map(|ns| ns as f64);
    Some([get(1)?, get(2)?])
}

/// Operations in a time of two threads, of those of one.
fn slope([one, two]: [f64; 2]) -> f64 {
    2.0 * one / two.max(1.0)
}

fn report(found: &Found) -> Result<Report> {
    let mut report = EXPERIMENT.report();
    let mut groups = vec![];
    for operation in OPERATIONS {
        let times = |ground| times(found, ground, operation).ok_or_else(|| failed_as(ground));
        let linux = times("linux-process")?;
        let mut slopes = vec![];
        for (ground, name) in GROUNDS.into_iter().filter(|(ground, _)| *ground != "linux-process") {
            let here = times(ground)?;
            slopes.push(slope(here));
            report
                .figures
                .push(Figure::new(format!("{operation}, one thread, {name}"), here[0], 0, "ns").linux(linux[0]));
            let scaled = Figure::new(format!("{operation}, two threads of one, {name}"), slope(here), 2, "times");
            report.figures.push(scaled.linux(slope(linux)));
        }
        slopes.push(slope(linux));
        groups.push(Group { name: operation.into(), values: slopes });
    }
    let names = GROUNDS.map(|(_, name)| name);
    report.plot("cell-scale.svg", plot::bars("Operations of two threads, of one thread's", " times", &names, &groups));
    report.notes.push(
        "Three cores (Linux too), the host's clock, the least of seven rounds; threads on cores 1 and 2. brk: the end of the heap a page up or \
         down; futex: wakes nobody; mmap: a page, and unmapped; page-fault: touches of 1 MiB that is mapped and unmapped. One core at a time \
         is in the runtime of a cell. The emulator's cores are threads of the host: slopes beyond what the host has are not seen."
            .into(),
    );
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slope_is_the_work_of_two_threads_in_the_time_of_one() {
        let on = |ground: &str, two| {
            let line = |operation: &str, threads, ns| (format!("{ground}-{operation}-{threads}"), ns);
            OPERATIONS.iter().flat_map(|operation| [line(operation, 1, 100), line(operation, 2, two)]).collect()
        };
        let found = Found::of([("linux-", on("process", 200))], &["process", "cell"]);
        assert!(report(&found).is_err());
        let ours = [on("cell", 100), on("process", 125)].concat();
        let found = Found::of([("linux-", on("process", 200)), ("", ours)], &["process", "cell"]);
        let report = report(&found).unwrap();
        let of = |name: &str| report.figures.iter().find(|figure| figure.name == name).unwrap();
        let cell = of("futex, two threads of one, a cell");
        assert_eq!((cell.value, cell.linux), (Some(2.0), Some(1.0)));
        assert_eq!(of("brk, two threads of one, a process here").value, Some(1.6));
    }
}
