//! Bytes of cached files, divided at the I/O streams (V16, V19).

use gyre_contract::bill::used_at;

use super::{
    experiment::Experiment,
    plot::{self, Group},
    report::{Figure, Report},
    rig::{Plan, Rig, as_it_is, nothing},
};
use crate::{cli::Kernel, failure::Result};

/// The experiment on the list.
pub const EXPERIMENT: Experiment = Experiment {
    name: "stream-shares",
    title: "Three readers of cached files, divided by bytes",
    paper: "",
    shows: "Work that moves data by reference is divided by bytes and shares.",
    run,
};

/// Three readers of cached files before whom a rate by bytes stands.
///
/// # Errors
/// When the machine does not run.
pub fn run(rig: &Rig) -> Result<Report> {
    let plan = Plan {
        file: "stream-shares.toml",
        on: Kernel::Gyre,
        warm_up: 3,
        seconds: 20,
        change: &as_it_is,
        besides: &nothing,
    };
    let measured = rig.measure(&plan)?;
    let mut report = EXPERIMENT.report();
    let mut moved = used_at(&measured.window, "io_stream");
    moved.retain(|line| line.tenant != "system");
    let bytes: u64 = moved.iter().map(|line| line.bytes).sum();
    let all: u32 = moved.iter().map(|line| line.share).sum();
    let percent = |part: f64, whole: f64| part * 100.0 / whole.max(1.0);
    let (mut worst, mut groups): (f64, Vec<Group>) = (0.0, vec![]);
    for line in &moved {
        let (entitled, own) = (percent(line.share.into(), all.into()), percent(line.bytes as f64, bytes as f64));
        worst = worst.max((own - entitled).abs());
        let figure = Figure::new(format!("bytes of {}", line.tenant), own, 2, "%").paper(format!("{entitled:.0} %"));
        report.figures.push(figure);
        groups.push(Group { name: line.tenant.clone(), values: vec![entitled, own] });
    }
    let deviation = Figure::new("largest deviation", worst, 2, "points");
    report.figures.push(deviation.goal("<= 1 point", worst <= 1.0 && bytes > 0));
    let seconds = measured.window.uptime_ns as f64 / 1e9;
    report.figures.push(Figure::new("moved", bytes as f64 / 1e6 / seconds.max(0.1), 2, "MB/s"));
    let bill = measured.bill();
    for line in bill.tenants.iter().filter(|line| line.tenant != "system") {
        let own = percent(line.cycles as f64, bill.tenant_cycles as f64);
        report.figures.push(Figure::new(format!("CPU time of {}", line.tenant), own, 2, "%"));
    }
    let title = "Part of the bytes that passed the I/O streams";
    report.plot("stream-shares.svg", plot::bars(title, " %", &["entitled", "got"], &groups));
    Ok(report)
}
