//! XOS, Fig. 3: regions of memory are taken and each page is written, in instructions a page.

use std::time::Duration;

use super::{
    cell_grounds::{Found, Grounds},
    experiment::Experiment,
    plot::{self, Group},
    report::{Figure, Report},
    rig::Rig,
};
use crate::{failure::Result, qemu::Clock};

/// The paper's best ratios, which are the goals at each size.
const WAYS: [(&str, f64); 4] = [("sbrk", 2.4), ("mmap", 3.2), ("malloc", 3.0), (TO_AND_FRO, 53.0)];
/// Sizes in KiB.
const SIZES: [u64; 5] = [4, 64, 1024, 16_384, 262_144];
/// Pagers as grounds; the best one stands for the cell, as a program chooses it.
const PAGERS: [&str; 4] = ["demand", "eager", "keep", REUSE];
/// It clears nothing that the program had before, so it is judged only by memory that goes to and fro.
const REUSE: &str = "reuse";
const TO_AND_FRO: &str = "malloc-free";

/// The experiment on the list.
pub const EXPERIMENT: Experiment = Experiment {
    name: "cell-memory",
    title: "Instructions of taking memory in a cell, beside Linux",
    paper: "XOS, Fig. 3",
    shows: "A cell answers its own faults.",
    run,
};

/// Runs the program on Linux with small and with huge pages, as a process, and as a cell with each pager.
///
/// # Errors
/// When it cannot be compiled or does not come to its end.
pub fn run(rig: &Rig) -> Result<Report> {
    let most = SIZES.last().copied().unwrap_or(0);
    let cells =
        PAGERS.map(|pager| format!("/usr/bin/gyre-cell --memory 270M --pager {pager} -- /cell-memory {pager} {most}"));
    let grounds = Grounds {
        name: "cell-memory",
        linux: &format!("/cell-memory small {most} small-pages; /cell-memory huge {most}"),
        gyre: &format!("/cell-memory process {most}; {}", cells.join("; ")),
        clock: Clock::Instructions,
        limit: Duration::from_secs(400),
    };
    let names: Vec<&str> = PAGERS.into_iter().chain(["small", "huge", "process"]).collect();
    Ok(report(&grounds.count(rig, &names)?))
}

/// The least count of the cell, and the pager that has it.
fn best(found: &Found, way: &str, what: &str) -> Option<(u64, &'static str)> {
    let pagers = PAGERS.iter().filter(|pager| **pager != REUSE || way == TO_AND_FRO);
    pagers.filter_map(|pager| Some((found.get(pager, what)?, *pager))).min()
}

fn report(found: &Found) -> Report {
    let mut report = EXPERIMENT.report();
    for (way, goal) in WAYS {
        let mut most = (0.0, String::new());
        for size in SIZES {
            let what = format!("{way}-{size}");
            let (Some((count, pager)), Some(linux)) = (best(found, way, &what), found.get("linux-small", &what)) else {
                continue;
            };
            let ratio = linux as f64 / count.max(1) as f64;
            if ratio > most.0 {
                most = (ratio, text(size));
            }
            let name = format!("{way} of {}, a page, pager {pager}", text(size));
            let figure = Figure::new(name, count as f64, 0, "instructions").linux(linux as f64);
            report.figures.push(figure.goal(format!("> {goal} times fewer"), ratio > goal));
        }
        let name = format!("{way}: fewer than Linux by, at best ({})", most.1);
        report.figures.push(Figure::new(name, most.0, 1, "times").paper(format!("{goal} times")));
    }
    others(found, &mut report);
    draw(found, &mut report);
    report.notes.push(
        "Two cores, -icount shift=0; each page is written once, in random order; the least of three rounds; sbrk, mmap and malloc give back \
         outside of what is counted, malloc-free within. The cell's pager is the one with the least count. Linux: pages of 4 KiB as in \
         the paper; the rows of huge pages are those of Debian's default. reuse gives a program its own old pages as they were, as the \
         paper's cells do, and stands for malloc-free alone; the other pagers clear them. Clearing a page is 512 instructions here, as the emulator counts each step of a \
         string instruction."
            .into(),
    );
    report
}

/// Linux with huge pages and the process here, at the size of 16 MiB.
fn others(found: &Found, report: &mut Report) {
    for (way, _) in WAYS {
        let what = format!("{way}-16384");
        let Some(linux) = found.get("linux-huge", &what) else { continue };
        let named = [("a cell that pages eagerly", "eager"), ("a process here", "process")];
        for (name, count) in named.iter().filter_map(|(name, ground)| Some((name, found.get(ground, &what)?))) {
            let name = format!("{way} of 16 MiB, a page, {name}; Linux with huge pages");
            report.figures.push(Figure::new(name, count as f64, 0, "instructions").linux(linux as f64));
        }
    }
}

fn draw(found: &Found, report: &mut Report) {
    let groups =
        [("Linux", "linux-small"), ("process", "process"), ("demand", "demand"), ("keep", "keep"), ("reuse", "reuse")];
    let names = WAYS.map(|(way, _)| way);
    let groups = groups.map(|(name, ground)| Group {
        name: name.into(),
        values: names.iter().map(|way| found.get(ground, &format!("{way}-16384")).unwrap_or(0) as f64).collect(),
    });
    report.plot("cell-memory.svg", plot::bars("A page of 16 MiB", " instructions", &names, &groups));
}

fn text(kib: u64) -> String {
    if kib < 1024 { format!("{kib} KiB") } else { format!("{} MiB", kib / 1024) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_size_is_judged_by_the_best_pager_that_may_stand_for_it() {
        let counts = |ground: &str, small, large| {
            let of = |way: &str, size, count| (format!("{ground}-{way}-{size}"), count);
            WAYS.iter().flat_map(|(way, _)| [of(way, 4, small), of(way, 64, large)]).collect::<Vec<_>>()
        };
        let ours = [counts("demand", 186, 900), counts("eager", 190, 600), counts(REUSE, 1, 10)].concat();
        let found =
            Found::of([("linux-", counts("small", 186, 3495)), ("", ours)], &["demand", "eager", REUSE, "small"]);
        let report = report(&found);
        let of = |name: &str| report.figures.iter().find(|figure| figure.name == name).unwrap();
        let [small, large] = ["malloc of 4 KiB, a page, pager demand", "malloc of 64 KiB, a page, pager eager"].map(of);
        assert_eq!((small.value, small.is_met), (Some(186.0), Some(false)));
        assert_eq!((large.value, large.is_met), (Some(600.0), Some(true)));
        assert_eq!(of("malloc-free of 64 KiB, a page, pager reuse").is_met, Some(true));
        assert_eq!(of("malloc: fewer than Linux by, at best (64 KiB)").is_met, None);
        assert!(!report.is_met());
    }
}
