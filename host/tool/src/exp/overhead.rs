//! What it costs that everything is a scheduled message, with batching factors 1, 4 and 8.

use super::{
    plot::{self, Group},
    report::{Figure, Report},
    rig::{Measured, Plan, Rig, nothing},
};
use crate::{cli::Kernel, failure::Result};

const BATCHES: [u16; 3] = [1, 4, 8];
/// The paper's overhead for 4 MB files: 10-16 % at batch 1, 8-12 % at batch 4, 3-4 % at batch 8 under contention (§VI-A).
const PAPER: [&str; 3] = ["10-16 %", "8-12 %", "3-4 % (contended)"];

/// Figs 17 to 19.
///
/// # Errors
/// When a machine does not run.
pub fn run(rig: &Rig) -> Result<Report> {
    let mut report = Report::new("overhead", "Cost of scheduling everything, batching 1, 4, 8 (Figs 17-19)");
    let mut groups = vec![];
    for (batch, paper) in BATCHES.into_iter().zip(PAPER) {
        let change = |machine: &mut gyre_config::boot::Machine| {
            machine.resources.iter_mut().for_each(|resource| resource.batch = batch)
        };
        let plan = Plan {
            file: "overhead.toml",
            on: Kernel::Gyre,
            warm_up: 3,
            seconds: 10,
            change: &change,
            besides: &nothing,
        };
        let parts = parts(&rig.measure(&plan)?);
        let sum: f64 = parts.iter().sum();
        report.figures.push(
            Figure::new(format!("not message processing, batch {batch}"), paper, format!("{sum:.2} %"))
                .goal("<= 10 %", sum <= 10.0),
        );
        groups.push(Group { name: format!("batch {batch}"), values: parts.to_vec() });
    }
    let series = ["scheduling", "interrupt", "infrastructure"];
    report.plots.push(("overhead.svg".into(), plot::bars("Percent of consumed CPU time", " %", &series, &groups)));
    report.notes.push("Percent of what is consumed (idle time left out): scheduling, interrupt entry, infrastructure. 4 MiB files, 16 connections.".into());
    Ok(report)
}

fn parts(measured: &Measured) -> [f64; 3] {
    let bill = measured.bill();
    let consumed = (bill.machine_cycles.saturating_sub(bill.idle_cycles)).max(1) as f64;
    [bill.scheduling_cycles, bill.interrupt_cycles, bill.infrastructure_cycles]
        .map(|cycles| cycles as f64 * 100.0 / consumed)
}
