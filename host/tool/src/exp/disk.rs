//! Who gets what of a shared disk: bytes in proportion to shares, and syncs beside a neighbour that storms.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use gyre_config::file;

use super::{
    note,
    plot::{self, Group},
    report::{Figure, Report},
    rig::{Plan, Rig, as_it_is, nothing},
};
use crate::{
    cli::Kernel,
    command,
    failure::{Failure, Result},
    run::{self, Running},
    ui::Step,
};

/// Figs 15 and 16.
///
/// # Errors
/// When the machine does not run.
pub fn shares(rig: &Rig) -> Result<Report> {
    const FILE: &str = "disk-shares.toml";
    let plan = Plan { file: FILE, on: Kernel::Gyre, warm_up: 8, seconds: 30, change: &as_it_is, besides: &nothing };
    let bill = rig.measure(&plan)?.bill();
    let description = file::read(&rig.project.root.join("experiments").join(FILE))?;
    let rate = description.disk.and_then(|disk| disk.rate_bytes_per_second).unwrap_or(u64::MAX);
    let mut report = Report::new("disk-shares", "Three readers of a throttled disk (Figs 15, 16)");
    let customers: Vec<_> = bill.tenants.iter().filter(|line| line.tenant != "system").collect();
    let total: u64 = customers.iter().map(|line| line.read_bytes).sum();
    let all: u32 = customers.iter().map(|line| line.share).sum();
    let mut worst: f64 = 0.0;
    let mut groups = vec![];
    for line in &customers {
        let entitled = f64::from(line.share) * 100.0 / f64::from(all.max(1));
        let own = line.read_bytes as f64 * 100.0 / total.max(1) as f64;
        worst = worst.max((own - entitled).abs());
        let figure = Figure::new(format!("bytes of {}", line.tenant), own, 2, "%").paper(format!("{entitled:.0} %"));
        report.figures.push(figure);
        groups.push(Group { name: line.tenant.clone(), values: vec![entitled, own] });
    }
    let used = total as f64 * 100.0 / (rate as f64 * bill.period_ns as f64 / 1e9);
    report.figures.extend([
        Figure::new("largest deviation", worst, 2, "points")
            .paper("\"in strict accordance\"")
            .goal("<= 1 point", worst <= 1.0 && total > 0),
        Figure::new("disk used", used, 1, "%").paper("close to its maximum").goal(">= 95 %", used >= 95.0),
    ]);
    let cycles = bill.machine_cycles.max(1) as f64 / 100.0;
    let parts = customers.iter().map(|line| (line.tenant.clone(), line.cycles));
    let others = [
        ("infrastructure", bill.infrastructure_cycles),
        ("scheduling", bill.scheduling_cycles),
        ("interrupts", bill.interrupt_cycles),
        ("idle", bill.idle_cycles),
    ];
    for (name, part) in parts.chain(others.map(|(name, part)| (name.to_owned(), part))) {
        report.figures.push(Figure::new(format!("CPU: {name}"), part as f64 / cycles, 1, "%"));
    }
    let title = "Part of the bytes read from the disk";
    report.plot("disk-shares.svg", plot::bars(title, " %", &["entitled", "got"], &groups));
    report.notes.push(format!(
        "One virtio disk of {:.1} MB/s (throttled by the emulator) with a partition for each tenant; eight readers each, files of 2 MiB, more than the cache holds; {:.0} s.",
        rate as f64 / 1e6,
        bill.period_ns as f64 / 1e9
    ));
    Ok(report)
}

const VICTIM: &str = "victim";
const STORM: &str = "storm";
/// Syncs that are measured, ten a second, unless the user chose other seconds.
const SYNCS: u32 = 400;
/// How long a machine may take for them.
const LIMIT: Duration = Duration::from_secs(240);
/// What begins the victim's lines.
const MARK: &str = "fsync: ";

/// Adversary nr. 3: a neighbour that syncs without pause.
///
/// # Errors
/// When a machine does not run.
pub fn storm(rig: &Rig) -> Result<Report> {
    let mut report = Report::new("fsync-storm", "Syncs beside a neighbour that storms the disk");
    let mut groups = vec![];
    let mut ratios = vec![];
    for (on, name) in [(Kernel::Gyre, "Gyre"), (Kernel::Linux, "Linux")] {
        let alone = latencies(rig, on, false)?;
        let beside = latencies(rig, on, true)?;
        for (case, times) in [("alone", &alone), ("beside", &beside)] {
            note(&format!(
                "{name} {case}: {} syncs, p50 {:.2} ms, p99 {:.2} ms",
                times.len(),
                at(times, 50),
                at(times, 99)
            ));
            groups.push(Group { name: format!("{name} {case}"), values: vec![at(times, 50), at(times, 99)] });
        }
        let ratio = |percent| at(&beside, percent) / at(&alone, percent).max(0.001);
        ratios.push((alone.len().min(beside.len()), ratio(50), ratio(99)));
    }
    let [(count, median, tail), (_, linux_median, linux_tail)] = ratios[..] else {
        return Err(Failure::new("there are not two kernels"));
    };
    report.figures.extend([
        Figure::new("median of the victim's syncs, beside / alone", median, 2, "").linux(linux_median),
        Figure::new("p99 of the victim's syncs, beside / alone", tail, 2, "")
            .linux(linux_tail)
            .goal("<= 1.1", tail <= 1.1 && count >= 50),
        Figure::count("syncs measured, at least", count as u64),
    ]);
    // Gyre's two cases come first, then Linux' in the same order.
    let (ours, theirs) = groups.split_at(groups.len() / 2);
    for ((ours, theirs), case) in ours.iter().zip(theirs).zip(["alone", "beside"]) {
        let values = ours.values.iter().zip(&theirs.values).zip(["p50", "p99"]);
        let figure = |((ours, linux), what): ((&f64, &f64), &str)| {
            Figure::new(format!("{case}: {what}"), *ours, 1, "ms").linux(*linux)
        };
        report.figures.extend(values.map(figure));
    }
    let title = "The victim's fsync of one appended page";
    report.plot("fsync-storm.svg", plot::bars(title, " ms", &["p50", "p99"], &groups));
    report.notes.push("Both tenants' file systems are partitions of one virtio disk of 400 requests a second; the storm may take a tenth of the device's time, flushes included. Linux: Debian's cloud kernel, same images and disk, cpu.weight; io.max lets the storm have a tenth of the requests. Times are the host's: what else it does is in them.".into());
    Ok(report)
}

/// The victim's times, ms, in order.
fn latencies(rig: &Rig, on: Kernel, storms: bool) -> Result<Vec<f64>> {
    let path = rig.project.root.join("experiments/fsync-storm.toml");
    let mut description = file::read(&path)?;
    let program = compile(rig)?;
    if let Some(image) = description.images.get_mut("sync") {
        image.files.insert("/syncer".into(), program);
    }
    let syncs = rig.seconds.map_or(SYNCS, |seconds| seconds * 10).to_string();
    for tenant in &mut description.machine.tenants {
        let words: &[&str] = match tenant.name.as_str() {
            VICTIM => &["/syncer", "victim", &syncs],
            STORM if storms => &["/syncer", "storm"],
            _ => continue,
        };
        let argv = words.iter().map(|word| (*word).to_owned()).collect();
        tenant.program.iter_mut().for_each(|program| program.argv = Clone::clone(&argv));
    }
    let arguments = rig.arguments(path, on);
    let mut running = run::start(&rig.project, description, &arguments, &rig.stop)?;
    let step = Step::start(format!("syncing on {on:?}{}", if storms { " beside a storm" } else { "" }));
    let text = wait(rig, &mut running, &step)?;
    step.done();
    let mut times = times_of(&text);
    times.sort_by(f64::total_cmp);
    Ok(times)
}

fn compile(rig: &Rig) -> Result<PathBuf> {
    let program = rig.project.cache("fsync")?.join("syncer");
    let mut cc = command::program("cc")?;
    cc.args(["-O1", "-static", "-pthread", "-o"]).arg(&program);
    command::output(cc.arg(rig.project.root.join("experiments/fsync/syncer.c")))?;
    Ok(program)
}

/// Waits until the victim has measured; answers what it said.
fn wait(rig: &Rig, running: &mut Running, step: &Step) -> Result<String> {
    let started = Instant::now();
    loop {
        let text = running.agent.get(&format!("/logs/{VICTIM}")).unwrap_or_default();
        if text.contains("fsync: done") {
            return Ok(text);
        }
        if let Some(status) = running.qemu.ended()? {
            return Err(running.qemu.unexpected_end(status));
        }
        if rig.stop.is_set() {
            return Err(Failure::new("ended by the user"));
        }
        if started.elapsed() > LIMIT || text.contains("fsync: FAILED") {
            return Err(Failure::new(format!("the victim did not come to its end; it said: {text}")));
        }
        step.detail(&format!("{} s", started.elapsed().as_secs()));
        // Seldom: the agent's work is on the same cores.
        std::thread::sleep(Duration::from_secs(2));
    }
}

fn at(sorted: &[f64], percent: usize) -> f64 {
    sorted.get(sorted.len().saturating_sub(1) * percent / 100).copied().unwrap_or(0.0)
}

/// The times that the victim says, ms.
fn times_of(text: &str) -> Vec<f64> {
    let words = text.lines().filter_map(|line| line.trim().strip_prefix(MARK)?.strip_prefix("took "));
    words.filter_map(|word| word.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_of_syncs_are_read_from_the_victims_log() {
        assert_eq!(times_of("fsync: begins\nfsync: took 4.500\r\nfsync: took x\n"), [4.5]);
    }

    #[test]
    fn percentiles_are_of_the_sorted_values() {
        let values: Vec<f64> = (0..100).map(f64::from).collect();
        assert_eq!((at(&values, 50), at(&values, 99), at(&[], 99)), (49.0, 98.0, 0.0));
    }
}
