//! A saturated link, among three web servers.

use super::{
    breakdown,
    experiment::Experiment,
    report::{Figure, Report},
    rig::{Measured, Rig},
    shares::{add_shares, plan, plot_shares},
};
use crate::failure::Result;

/// The experiment on the list.
pub const EXPERIMENT: Experiment = Experiment {
    name: "web-shares",
    title: "Three web servers on a saturated link",
    paper: "Figs 12-14",
    shows: "The link is divided by shares, and nearly all of it is used.",
    run,
};

/// Figs 12 to 14.
///
/// # Errors
/// When the machine does not run.
pub fn run(rig: &Rig) -> Result<Report> {
    let measured = rig.measure(&plan("web-shares.toml", 20))?;
    let mut report = EXPERIMENT.report();
    let bytes = measured.shares(|tenant| tenant.sent_bits_per_second);
    add_shares(&mut report, "bytes of", &bytes, 1.0);
    report.plot("web-shares.svg", plot_shares("Part of the link, each second", &bytes));
    let used = used_percent(&measured);
    let figure = Figure::new("link used", used, 2, "%").paper("close to the NIC's maximum");
    report.figures.push(figure.goal(">= 95 %", used >= 95.0));
    let bill = measured.bill();
    let consumed = (bill.machine_cycles - bill.idle_cycles).max(1);
    let nobodys = bill.infrastructure_cycles + bill.scheduling_cycles + bill.interrupt_cycles;
    let infrastructure = nobodys + bill.caused_cycles;
    let part = infrastructure as f64 * 100.0 / consumed as f64;
    let name = "infrastructure, interrupts and scheduling of what is consumed";
    let figure = Figure::new(name, part, 2, "%").paper("50 % + overhead");
    report.figures.push(figure.goal("<= 10 %", part <= 10.0));
    breakdown::add(&mut report, &measured.window);
    if let Some(time) = measured.first_page {
        let s = time.as_secs_f64();
        report.figures.push(
            Figure::new("QEMU's start to the first page", s, 2, "s").paper("Linux 8 to 12 s").goal("<= 3 s", s <= 3.0),
        );
    }
    Ok(report)
}

fn used_percent(measured: &Measured) -> f64 {
    let rate = measured.samples.last().and_then(|sample| sample.link_bits_per_second).unwrap_or(1) as f64;
    let sum: f64 = measured.samples.iter().map(|sample| sample.sent_bits_per_second).sum();
    sum * 100.0 / rate / measured.samples.len().max(1) as f64
}
