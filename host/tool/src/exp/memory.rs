//! A tenant that streams through ten times the memory: what its neighbours' caches and reads are like, here and on Linux.

use super::{
    beside::{Beside, Outcome},
    experiment::Experiment,
    plot::{self, Group},
    report::{Figure, Report},
    rig::Rig,
};
use crate::{cli::Kernel, failure::Result};

/// Bytes that each neighbour reads while it is measured (experiments/memory/reader.c).
const READ_BYTES: u64 = 1000 * (32 << 10);
const STREAM: &str = "dd if=/dev/zero of=/srv/stream bs=1M count=1 seek=2560 2>/dev/null; \
    while :; do dd if=/srv/stream of=/dev/null bs=64k 2>/dev/null; done";
const RATIO_MAX: f64 = 1.05;
const CASES: [&str; 2] = ["bronze reads a small file", "bronze streams"];

/// The experiment on the list.
pub const EXPERIMENT: Experiment = Experiment {
    name: "memory",
    title: "A stream through ten times the memory, beside Linux with control groups",
    paper: "",
    shows: "A stream does not cost its neighbours their cached pages.",
    run,
};

/// Adversary nr. 6: a stream beside working sets.
///
/// # Errors
/// When a machine does not run.
pub fn run(rig: &Rig) -> Result<Report> {
    let mut report = EXPERIMENT.report();
    let mut outcomes = vec![];
    for on in [Kernel::Linux, Kernel::Gyre] {
        for streams in [false, true] {
            outcomes.push(measure(rig, on, streams)?);
        }
    }
    let [linux, linux_streamed, gyre, gyre_streamed] = outcomes[..] else { return Ok(report) };
    let ratio = |before: Outcome, after: Outcome| after.p99_us / before.p99_us.max(0.001);
    let ours = ratio(gyre, gyre_streamed);
    let lost = hit_percent(gyre) - hit_percent(gyre_streamed);
    let hits = |gyre: Outcome, linux: Outcome, case: &str| {
        Figure::new(format!("neighbours' hits, {case}"), hit_percent(gyre), 2, "%").linux(hit_percent(linux))
    };
    let times = |gyre: Outcome, linux: Outcome, case: &str| {
        [
            Figure::new(format!("neighbours' p99, {case}"), gyre.p99_us, 1, "us").linux(linux.p99_us),
            Figure::new(format!("neighbours' median, {case}"), gyre.p50_us, 1, "us").linux(linux.p50_us),
        ]
    };
    let [small, streamed] = CASES;
    report.figures.extend([
        hits(gyre, linux, small),
        hits(gyre_streamed, linux_streamed, streamed).goal("no fewer (0.1 points)", lost <= 0.1),
    ]);
    report.figures.extend(times(gyre, linux, small));
    report.figures.extend(times(gyre_streamed, linux_streamed, streamed));
    let grown = Figure::new("p99 with the stream, times that without", ours, 2, "").linux(ratio(linux, linux_streamed));
    report.figures.push(grown.goal(format!("<= {RATIO_MAX}"), ours <= RATIO_MAX));
    let group =
        |name: &str, one: Outcome, other: Outcome| Group { name: name.into(), values: vec![one.p99_us, other.p99_us] };
    let groups = [group("Linux", linux, linux_streamed), group("Gyre", gyre, gyre_streamed)];
    report.plot("memory.svg", plot::bars("p99 of the neighbours' reads", " us", &CASES, &groups));
    report.notes.push(
        "One core, 256 MiB, -icount shift=0: a nanosecond is an instruction; the worse of two neighbours, each 1000 reads of 32 KiB at random \
         places of 12 MiB, a millisecond apart; bronze reads 4 MiB over and over, or 2.5 GiB (a hole: no disk is involved). Linux: Debian's \
         cloud kernel, memory.low by reservation, memory.high a sixteenth below memory.max."
            .into(),
    );
    Ok(report)
}

fn measure(rig: &Rig, on: Kernel, streams: bool) -> Result<Outcome> {
    let other = streams.then(|| ["/bin/busybox", "sh", "-c", STREAM].map(String::from).into());
    let step = if streams { "reading beside a stream" } else { "reading" }.to_owned();
    Beside { name: "memory", program: ("memory/reader.c", "/reader"), other, step }.measure(rig, on)
}

/// Returns the part of the neighbours' reads that did not come from the disk: the worse of both.
fn hit_percent(outcome: Outcome) -> f64 {
    100.0 - outcome.read_bytes as f64 * 100.0 / READ_BYTES as f64
}
