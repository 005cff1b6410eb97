//! The division of a shared disk: bytes in proportion to shares.

use gyre_contract::bill::used_at;
use gyre_machine_file as file;

use super::{
    breakdown,
    experiment::Experiment,
    plot::{self, Group},
    program,
    report::{Figure, Report},
    rig::{Plan, Rig, as_it_is, nothing},
};
use crate::{cli::Kernel, failure::Result};

/// The experiment on the list.
pub const EXPERIMENT: Experiment = Experiment {
    name: "disk-shares",
    title: "Three readers of a throttled disk",
    paper: "Figs 15, 16",
    shows: "The disk is divided by shares.",
    run,
};

/// Figs 15 and 16.
///
/// # Errors
/// When the machine does not run.
pub fn run(rig: &Rig) -> Result<Report> {
    const FILE: &str = "disk-shares.toml";
    let plan = Plan { file: FILE, on: Kernel::Gyre, warm_up: 8, seconds: 30, change: &as_it_is, besides: &nothing };
    let reader = program::compile(&rig.project, "disk/streams.c")?;
    let measured = rig.measure_prepared(&plan, &|description| {
        if let Some(image) = description.images.get_mut("files") {
            image.files.insert("/reader".into(), reader.clone());
        }
    })?;
    let bill = measured.bill();
    let description = file::read(&rig.project.root.join("experiments").join(FILE))?;
    let rate = description.disk.and_then(|disk| disk.rate_bytes_per_second).unwrap_or(u64::MAX);
    let mut report = EXPERIMENT.report();
    // Bytes at the point at which requests are put into the device, as in the paper's figure.
    let at_device = used_at(&measured.window, "block");
    let customers: Vec<_> = at_device.iter().filter(|used| used.tenant != "system").collect();
    let total: u64 = customers.iter().map(|used| used.bytes).sum();
    let all: u32 = customers.iter().map(|used| used.share).sum();
    let mut worst: f64 = 0.0;
    let mut groups = vec![];
    for used in &customers {
        let entitled = f64::from(used.share) * 100.0 / f64::from(all.max(1));
        let own = used.bytes as f64 * 100.0 / total.max(1) as f64;
        worst = worst.max((own - entitled).abs());
        let figure = Figure::new(format!("bytes of {}", used.tenant), own, 2, "%").paper(format!("{entitled:.0} %"));
        report.figures.push(figure);
        groups.push(Group { name: used.tenant.clone(), values: vec![entitled, own] });
    }
    let used = total as f64 * 100.0 / (rate as f64 * bill.period_ns as f64 / 1e9);
    report.figures.extend([
        Figure::new("largest deviation", worst, 2, "points")
            .paper("\"in strict accordance\"")
            .goal("<= 1 point", worst <= 1.0 && total > 0),
        Figure::new("disk used", used, 1, "%").paper("close to its maximum").goal(">= 95 %", used >= 95.0),
    ]);
    let cycles = bill.machine_cycles.max(1) as f64 / 100.0;
    let lines = bill.tenants.iter().filter(|line| line.tenant != "system");
    let parts = lines.map(|line| (line.tenant.clone(), line.cycles));
    let others = [
        ("infrastructure", bill.infrastructure_cycles),
        ("scheduling", bill.scheduling_cycles),
        ("interrupts", bill.interrupt_cycles),
        ("idle", bill.idle_cycles),
    ];
    for (name, part) in parts.chain(others.map(|(name, part)| (name.to_owned(), part))) {
        report.figures.push(Figure::new(format!("CPU: {name}"), part as f64 / cycles, 1, "%"));
    }
    if let Some(found) = breakdown::add(&mut report, &measured.window) {
        report.figures.extend(found.figures());
    }
    let title = "Part of the bytes read from the disk";
    report.plot("disk-shares.svg", plot::bars(title, " %", &["entitled", "got"], &groups));
    report.notes.push(format!(
        "One virtio disk of {:.1} MB/s (throttled by the emulator) with a partition for each tenant; twelve readers each, four streams a file of 2 MiB, which is dropped from memory after it was read; {:.0} s. `CPU at` is of both cores' time by resource; `compute` are the programs, `others` infrastructure and system.",
        rate as f64 / 1e6,
        bill.period_ns as f64 / 1e9
    ));
    Ok(report)
}
