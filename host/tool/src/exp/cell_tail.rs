//! XOS, Fig. 6: a service that searches, as a cell and as a process, alone and beside a program that takes memory without end.
//!
//! The clock is the host's: instructions of two cores at once would be one count. Turns alone and beside alternate, and the turn with
//! the middle ratio is shown, so that other work of the host, which comes and goes, is in both or in none.
//!
//! Beside times stands a count, which no work of the host changes: how often the cell left its core for the kernel meanwhile.

use std::time::Duration;

use super::{
    cell_grounds::{Found, Grounds, failed_as},
    experiment::Experiment,
    plot::{self, Group},
    report::{Figure, Report},
    rig::Rig,
};
use crate::{failure::Result, qemu::Clock};

const REQUESTS: u32 = 10_000;
/// Alone and beside by turns: what the host does meanwhile is in both. The middle ratio counts.
const TURNS: u32 = 5;
const RATIO_MAX: f64 = 1.05;
const CELL: &str = "cell";
/// Grounds: a cell here, a process here, Linux with each program held to a core of its own.
const GROUNDS: [(&str, &str); 3] = [(CELL, "cell"), ("process", "process"), ("linux-process", "Linux, cpusets")];

/// The experiment on the list.
pub const EXPERIMENT: Experiment = Experiment {
    name: "cell-tail",
    title: "Tail of a service's requests beside a program that takes memory without end",
    paper: "XOS, Fig. 6",
    shows: "How far a program beside it reaches a service on a core of its own.",
    run,
};

/// Measures on both kernels.
///
/// # Errors
/// When a program does not come to its end.
pub fn run(rig: &Rig) -> Result<Report> {
    let process = turns("process", "", "1");
    let cell = turns(CELL, "/usr/bin/gyre-cell --memory 16M --pager keep -- ", "-1");
    let grounds = Grounds {
        name: "cell-tail",
        linux: &process,
        gyre: &format!("{process}; {cell}"),
        clock: Clock::Host,
        limit: Duration::from_secs(400),
    };
    report(&grounds.count(rig, &["process", CELL])?)
}

fn turns(ground: &str, before: &str, core: &str) -> String {
    let serve = |case: &str, turn| format!("{before}/cell-tail serve {ground}-{case}{turn} {REQUESTS} {core}");
    let turn = |turn| {
        let (alone, beside) = (serve("alone", turn), serve("beside", turn));
        format!("{alone}; /cell-tail stress 0 & sleep 0.2; {beside}; kill $!; wait; sleep 0.1")
    };
    (0..TURNS).map(turn).collect::<Vec<_>>().join("; ")
}

/// Both values of each turn, by the ratio: times in ns, or exits.
fn pairs(found: &Found, ground: &str, what: &str) -> Result<Vec<[f64; 2]>> {
    let get = |case: &str, turn| found.get(ground, &format!("{case}{turn}-{what}"));
    let pair = |turn| Some([get("alone", turn)? as f64, get("beside", turn)? as f64]);
    let mut pairs: Vec<[f64; 2]> = (0..TURNS).filter_map(pair).collect();
    if pairs.is_empty() {
        return Err(failed_as(ground));
    }
    pairs.sort_by(|one, other| ratio(one).total_cmp(&ratio(other)));
    Ok(pairs)
}

fn ratio([alone, beside]: &[f64; 2]) -> f64 {
    beside / alone.max(1.0)
}

fn report(found: &Found) -> Result<Report> {
    let mut report = EXPERIMENT.report();
    let mut groups = vec![];
    for (ground, name) in GROUNDS {
        let pairs = pairs(found, ground, "p99")?;
        let middle = pairs.get(pairs.len() / 2).copied().unwrap_or_default();
        for (case, value) in [("alone", middle[0]), ("beside", middle[1])] {
            report.figures.push(Figure::new(format!("p99 {case}, {name}"), value / 1e3, 1, "us"));
        }
        let grown = Figure::new(format!("p99 beside, times that alone, {name}"), ratio(&middle), 2, "");
        report.figures.push(match ground {
            CELL => grown.goal(format!("<= {RATIO_MAX}"), ratio(&middle) <= RATIO_MAX),
            _ => grown,
        });
        groups.push(Group { name: name.into(), values: middle.map(|ns| ns / 1e3).to_vec() });
    }
    exits(found, &mut report)?;
    report.plot("cell-tail.svg", plot::bars("p99 of a request", " us", &["alone", "beside"], &groups));
    report.notes.push(format!(
        "Two cores, the host's clock; {REQUESTS} requests one after another, each joins two lists of 2,048 documents in 64 KiB that it takes and \
         gives back, and sorts them. Alone and beside {TURNS} times by turns; shown is the turn with the middle ratio. The other program \
         takes 8 MiB, writes each page, copies half, and gives them back, on the other core. Exits are those of all turns, from the first \
         request of each to the last one; no exit alone counts as one. Linux: both held to a core of their own \
         by sched_setaffinity, as cpusets do. The paper: 3 times better than Linux."
    ));
    Ok(report)
}

/// How often the cell left its core for the kernel while it answered.
fn exits(found: &Found, report: &mut Report) -> Result<()> {
    let pairs = pairs(found, CELL, "exits")?;
    let all = [0, 1].map(|case| pairs.iter().filter_map(|pair| pair.get(case)).sum::<f64>());
    for (case, count) in ["alone", "beside"].iter().zip(all) {
        report.figures.push(Figure::new(format!("exits {case}, cell"), count, 0, ""));
    }
    let grown = Figure::new("exits beside, times those alone, cell", ratio(&all), 2, "");
    report.figures.push(grown.goal(format!("<= {RATIO_MAX}"), ratio(&all) <= RATIO_MAX));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_turn_with_the_middle_ratio_is_shown() {
        let line = |ground: &str, turn: u64, alone: u64, beside: u64| {
            let of = |case: &str, us| (format!("{ground}-{case}{turn}-p99"), us * 1000);
            [of("alone", alone), of("beside", beside)]
        };
        let on = |ground| [line(ground, 0, 100, 300), line(ground, 1, 100, 104), line(ground, 2, 100, 90)].concat();
        let exits = |turn: u64, alone, beside| {
            [(format!("cell-alone{turn}-exits"), alone), (format!("cell-beside{turn}-exits"), beside)]
        };
        let exits = [exits(0, 0, 2), exits(1, 20, 19)].concat();
        let ours = [on(CELL), on("process"), exits].concat();
        let without = [on(CELL), on("process")].concat();
        assert!(super::report(&Found::of([("linux-", on("process")), ("", without)], &["process", CELL])).is_err());
        let found = Found::of([("linux-", on("process")), ("", ours)], &["process", CELL]);
        let report = report(&found).unwrap();
        let of = |name: &str| report.figures.iter().find(|figure| figure.name == name).unwrap();
        let grown = of("p99 beside, times that alone, cell");
        assert_eq!((grown.value, grown.is_met), (Some(1.04), Some(true)));
        assert_eq!(of("p99 beside, Linux, cpusets").value, Some(104.0));
        assert_eq!(of("exits alone, cell").value, Some(20.0));
        let grown = of("exits beside, times those alone, cell");
        assert_eq!((grown.value, grown.is_met), (Some(1.05), Some(true)));
        assert!(super::report(&Found::of([], &[])).is_err());
    }
}
