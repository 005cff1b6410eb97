//! Files that programs map: pages touched in a second of CPU time with a file below and above the limit, and neighbours beside a tenant that
//! touches ten times its memory, here and on Linux with `memory.max`.
//!
//! * Touches wait for the disk, so that the clock is none of instructions: the emulator counts them between marks, of programs and kernel, those of
//!   tasks of the kernel that write or read ahead included.
//! * The program checks each page that it touches (experiments/mapped/mapped.c): wrong contents end the experiment.
//! * Neighbours and the eight pages wait for nothing: their time is one of instructions.

use std::{collections::BTreeMap, time::Duration};

use super::{
    beside::{Beside, Outcome},
    counted::{Counted, Source},
    experiment::Experiment,
    plot::{self, Group},
    report::{Figure, Report},
    rig::Rig,
};
use crate::{cli::Kernel, failure::Result, qemu::Clock};

/// No run of the touches takes that long, Linux's boot included.
const LIMIT: Duration = Duration::from_secs(400);
/// The third tenant's work (experiments/mapped/mapped.c), and its name here.
const CASES: [(&str, &str); 3] = [("rest", "alone"), ("read", "beside reads"), ("write", "beside writes")];
const RATIO_MAX: f64 = 1.1;
/// Counts that are no touches of the large file, their names here, and the most instructions.
const FEW: [(&str, &str, Option<u64>); 2] = [
    ("eight-touched", "eight mapped cached pages, touched", Some(5_400)),
    ("eight-mapped", "eight cached pages, mapped, touched and unmapped", None),
];
/// Nanoseconds, each an instruction, in a second of CPU time.
const SECOND: f64 = 1e9;

/// Instructions by the program's names.
type Counts = BTreeMap<String, u64>;

/// The experiment on the list.
pub const EXPERIMENT: Experiment = Experiment {
    name: "mapped",
    title: "Mapped files of half to four times the limit, beside Linux with memory.max",
    paper: "",
    shows: "Memory that programs map is taken back: a large mapping costs its tenant what it costs on Linux, and its neighbours nothing.",
    run,
};

/// Counts touches, then measures neighbours, on both kernels.
///
/// # Errors
/// When a machine does not run, or a page holds something else than was written.
pub fn run(rig: &Rig) -> Result<Report> {
    let theirs = count(rig, Kernel::Linux)?;
    let ours: Counts = count(rig, Kernel::Gyre)?.into_iter().collect();
    let outcomes = CASES.iter().map(|(mode, _)| both(rig, mode)).collect::<Result<Vec<_>>>()?;
    let mut report = EXPERIMENT.report();
    touches(&mut report, &theirs, &ours);
    few(&mut report, &theirs.into_iter().collect(), &ours);
    neighbours(&mut report, &outcomes);
    report.notes.push(
        "One core, 256 MiB. Touches: a tenant of 24 MiB maps 12 to 96 MiB of a file, touches as many pages as it maps, 6,144 at most, and unmaps it; what is \
         written is then synchronized; it did the same once before, so that the cache is in its usual state. A second is 1e9 instructions of all programs and \
         the kernel, as the emulator counts them, whatever waits for the disk meanwhile. Each page's contents are checked. Eight pages: the cheapest of six batches of 100, beside a page in use, whose table they share. Neighbours: -icount shift=0; the \
         worse of two, each 1000 times, a millisecond apart: 32 KiB are read, eight pages of a mapping touched and eight pages mapped, touched and unmapped, \
         all at random places of 12 MiB, with 32 MiB reserved; bronze sleeps, or touches 160 MiB at random with 16 MiB of memory. Linux: Debian's cloud kernel, \
         memory.max, memory.low by reservation, memory.high a sixteenth below memory.max."
            .into(),
    );
    Ok(report)
}

fn count(rig: &Rig, on: Kernel) -> Result<Vec<(String, u64)>> {
    let clock = Clock::InstructionsAndWaiting;
    Counted { source: Source::C, name: "mapped", words: &[], clock, limit: LIMIT, has_marks: true }.count(rig, on)
}

/// On Linux, and here.
fn both(rig: &Rig, mode: &str) -> Result<(Outcome, Outcome)> {
    let measure = |on| {
        let (other, step) = (Some(vec!["/mapped".into(), mode.into()]), format!("mapping beside {mode}"));
        Beside { name: "mapped-neighbour", program: ("mapped/mapped.c", "/mapped"), other, step }.measure(rig, on)
    };
    Ok((measure(Kernel::Linux)?, measure(Kernel::Gyre)?))
}

/// Pages in a second of CPU time, in the program's order.
fn touches(report: &mut Report, theirs: &[(String, u64)], ours: &Counts) {
    let mut groups: BTreeMap<String, Group> = BTreeMap::new();
    for (name, linux) in theirs {
        let (Some((kind, mib)), Some(&gyre)) = (name.rsplit_once('-'), ours.get(name)) else { continue };
        if FEW.iter().any(|(known, ..)| known == name) {
            continue;
        }
        let [linux, gyre] = [*linux, gyre].map(|instructions| SECOND / instructions.max(1) as f64);
        let figure =
            Figure::new(format!("{} of {mib} MiB", kind.replace('-', " ")), gyre, 0, "pages/CPU s").linux(linux);
        report.figures.push(figure.goal(">= Linux", gyre >= linux));
        let group = groups.entry(kind.to_owned()).or_insert_with(|| Group { name: kind.to_owned(), values: vec![] });
        group.values.push(gyre / linux);
    }
    let sizes = ["0.5", "1", "2", "4 times the limit"];
    let groups: Vec<Group> = groups.into_values().collect();
    report.plot("mapped-touches.svg", plot::bars("Pages in a CPU second, divided by Linux's", "", &sizes, &groups));
}

/// The instructions of a few pages.
fn few(report: &mut Report, theirs: &Counts, ours: &Counts) {
    for (name, shown, most) in FEW {
        let (Some(&linux), Some(&gyre)) = (theirs.get(name), ours.get(name)) else { continue };
        let figure = Figure::new(shown, gyre as f64, 0, "instructions").linux(linux as f64);
        report.figures.push(match most {
            Some(most) => figure.goal(format!("<= {most}"), gyre <= most),
            None => figure,
        });
    }
}

fn neighbours(report: &mut Report, outcomes: &[(Outcome, Outcome)]) {
    for ((_, case), (linux, gyre)) in CASES.iter().zip(outcomes) {
        report.figures.extend([
            Figure::new(format!("neighbours' p99, {case}"), gyre.p99_us, 1, "us").linux(linux.p99_us),
            Figure::new(format!("neighbours' median, {case}"), gyre.p50_us, 1, "us").linux(linux.p50_us),
        ]);
    }
    let Some(((linux_alone, gyre_alone), attacked)) = outcomes.split_first() else { return };
    for ((_, case), (linux, gyre)) in CASES.iter().skip(1).zip(attacked) {
        let ours = gyre.p99_us / gyre_alone.p99_us.max(0.001);
        let theirs = linux.p99_us / linux_alone.p99_us.max(0.001);
        report.figures.extend([
            Figure::new(format!("neighbours' p99 {case}, times that alone"), ours, 2, "")
                .linux(theirs)
                .goal(format!("<= {RATIO_MAX}"), ours <= RATIO_MAX),
            Figure::new(format!("pages that bronze touched, {case}"), gyre.done as f64, 0, "")
                .linux(linux.done as f64)
                .goal("> 0", gyre.done > 0),
        ]);
    }
    let group = |name: &str, of: fn(&(Outcome, Outcome)) -> f64| Group {
        name: name.into(),
        values: outcomes.iter().map(of).collect(),
    };
    let groups = [group("Linux", |pair| pair.0.p99_us), group("Gyre", |pair| pair.1.p99_us)];
    let cases = CASES.map(|(_, case)| case);
    report.plot("mapped-neighbours.svg", plot::bars("p99 of the neighbours' reads and maps", " us", &cases, &groups));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_instructions_are_more_pages_and_only_touches_are_among_them() {
        let theirs = [("random-read-96".to_owned(), 20_000), ("eight-touched".to_owned(), 6_000)];
        let ours = Counts::from([("random-read-96".to_owned(), 10_000), ("eight-touched".to_owned(), 5_401)]);
        let mut report = EXPERIMENT.report();
        touches(&mut report, &theirs, &ours);
        few(&mut report, &theirs.into(), &ours);
        let found: Vec<_> = report.figures.iter().map(|figure| (figure.value, figure.linux, figure.is_met)).collect();
        let wanted = [(Some(100_000.0), Some(50_000.0), Some(true)), (Some(5_401.0), Some(6_000.0), Some(false))];
        assert_eq!(found, wanted);
    }

    #[test]
    fn neighbours_are_compared_with_those_that_are_alone() {
        let outcome = |p99_us| (Outcome::default(), Outcome { p99_us, done: 7, ..Outcome::default() });
        let mut report = EXPERIMENT.report();
        neighbours(&mut report, &[outcome(10.0), outcome(11.0), outcome(12.0)]);
        let failed: Vec<_> = report.figures.iter().filter(|figure| figure.is_met == Some(false)).collect();
        assert!(failed.len() == 1 && failed.iter().all(|figure| figure.name.contains("beside writes, times")));
    }
}
