//! A tenant that streams through ten times the memory: what its neighbours' caches and reads are like, here and on Linux.
//!
//! Time is counted in instructions (`-icount shift=0`), so that what else the host does changes nothing.

use std::time::{Duration, Instant};

use gyre_config::file::{self, Description};

use super::{
    plot::{self, Group},
    program,
    report::{Figure, Report},
    rig::Rig,
};
use crate::{
    cli::Kernel,
    failure::{Failure, Result},
    project::Project,
    qemu,
    run::{self, Running},
    ui::Step,
};

const NEIGHBOURS: [&str; 2] = ["gold", "silver"];
/// What begins a neighbour's lines.
const MARK: &str = "memory: ";
/// Bytes that each neighbour reads while it is measured (experiments/memory/reader.c).
const READ_BYTES: u64 = 1000 * (32 << 10);
const STREAM: &str = "dd if=/dev/zero of=/srv/stream bs=1M count=1 seek=2560 2>/dev/null; \
    while :; do dd if=/srv/stream of=/dev/null bs=64k 2>/dev/null; done";
const RATIO_MAX: f64 = 1.05;
const CASES: [&str; 2] = ["bronze reads a small file", "bronze streams"];
/// No run takes that long.
const LIMIT: Duration = Duration::from_secs(400);

/// What the neighbours had in one run: the worse of both.
#[derive(Clone, Copy, Default)]
struct Outcome {
    p50_us: f64,
    p99_us: f64,
    hit_percent: f64,
}

/// Adversary nr. 6: a stream beside working sets.
///
/// # Errors
/// When a machine does not run.
pub fn run(rig: &Rig) -> Result<Report> {
    let title = "A stream through ten times the memory, beside Linux with memory.low and memory.high";
    let mut report = Report::new("memory", title);
    let mut outcomes = vec![];
    for on in [Kernel::Linux, Kernel::Gyre] {
        for streams in [false, true] {
            outcomes.push(measure(rig, on, streams)?);
        }
    }
    let [linux, linux_streamed, gyre, gyre_streamed] = outcomes[..] else { return Ok(report) };
    let ratio = |before: Outcome, after: Outcome| after.p99_us / before.p99_us.max(0.001);
    let ours = ratio(gyre, gyre_streamed);
    let lost = gyre.hit_percent - gyre_streamed.hit_percent;
    let hits = |gyre: Outcome, linux: Outcome, case: &str| {
        Figure::new(format!("neighbours' hits, {case}"), gyre.hit_percent, 2, "%").linux(linux.hit_percent)
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
    let path = rig.project.root.join("experiments/memory.toml");
    let mut description = file::read(&path)?;
    prepare(&rig.project, &mut description, streams)?;
    let arguments = rig.arguments(path, on);
    let mut running =
        run::start_with_clock(&rig.project, description, &arguments, &rig.stop, qemu::Clock::Instructions)?;
    let step = Step::start(format!("reading on {on:?}{}", if streams { " beside a stream" } else { "" }));
    wait(rig, &mut running, &step, "begins")?;
    let before = read_bytes(&running)?;
    let ended = wait(rig, &mut running, &step, "done")?;
    let after = read_bytes(&running)?;
    step.done();
    let mut outcome = Outcome { hit_percent: 100.0, ..Outcome::default() };
    for (tenant, text) in ended.iter().enumerate() {
        let us = |name: &str| value(text, name).unwrap_or(0) as f64 / 1000.0;
        let (before, after) = (before.get(tenant).copied().unwrap_or(0), after.get(tenant).copied().unwrap_or(0));
        outcome.p50_us = outcome.p50_us.max(us("p50"));
        outcome.p99_us = outcome.p99_us.max(us("p99"));
        let read = after.saturating_sub(before);
        outcome.hit_percent = outcome.hit_percent.min(100.0 - read as f64 * 100.0 / READ_BYTES as f64);
    }
    Ok(outcome)
}

fn prepare(project: &Project, description: &mut Description, streams: bool) -> Result<()> {
    let reader = program::compile(project, "memory/reader.c")?;
    if let Some(image) = description.images.get_mut("set") {
        image.files.insert("/reader".into(), reader);
    }
    let bronze = description.machine.tenants.iter_mut().find(|tenant| tenant.name == "bronze");
    if let Some(command) = bronze.and_then(|tenant| tenant.program.as_mut()).filter(|_| streams) {
        command.argv = ["/bin/busybox", "sh", "-c", STREAM].map(String::from).into();
    }
    Ok(())
}

/// Waits until each neighbour has said `word`; answers what they said so far.
fn wait(rig: &Rig, running: &mut Running, step: &Step, word: &str) -> Result<Vec<String>> {
    let started = Instant::now();
    loop {
        // The machine's clock runs while it boots: no answer yet is no failure.
        let texts: Vec<String> =
            NEIGHBOURS.iter().map(|name| running.agent.get(&format!("/logs/{name}")).unwrap_or_default()).collect();
        if texts.iter().all(|text| value(text, word).is_some()) {
            return Ok(texts);
        }
        if let Some(status) = running.qemu.ended()? {
            return Err(running.qemu.unexpected_end(status));
        }
        if rig.stop.is_set() {
            return Err(Failure::new("ended by the user"));
        }
        if started.elapsed() > LIMIT || texts.iter().any(|text| text.contains("memory: FAILED")) {
            return Err(Failure::new(format!("the neighbours did not come to `{word}`; they said: {texts:?}")));
        }
        step.detail(&format!("{} s", started.elapsed().as_secs()));
        std::thread::sleep(Duration::from_millis(300));
    }
}

/// The number behind a neighbour's word.
fn value(text: &str, word: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.trim().strip_prefix(MARK)?.split_once(' '));
    lines.find(|(name, _)| *name == word)?.1.trim().parse().ok()
}

/// Bytes that the neighbours' disks have read so far.
fn read_bytes(running: &Running) -> Result<Vec<u64>> {
    let snapshot = running.agent.snapshot()?;
    let of = |name: &&str| {
        snapshot.activities.iter().find(|activity| activity.name == **name).map_or(0, |activity| activity.read_bytes)
    };
    Ok(NEIGHBOURS.iter().map(of).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_neighbours_figures_are_read_from_its_log() {
        let text = "memory: begins 0\nmemory: p50 12\r\nmemory: p99 x\n";
        assert_eq!((value(text, "p50"), value(text, "begins")), (Some(12), Some(0)));
        assert_eq!((value(text, "p99"), value(text, "done")), (None, None));
    }
}
