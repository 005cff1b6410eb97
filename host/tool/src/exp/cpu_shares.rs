//! The processor, among three that want all of it.

use super::{
    experiment::Experiment,
    report::{Figure, Report},
    rig::{Measured, Rig},
    shares::{by_cpu, plan},
};
use crate::failure::Result;

/// The experiment on the list.
pub const EXPERIMENT: Experiment = Experiment {
    name: "cpu-shares",
    title: "Three CPU hogs on every core",
    paper: "Fig. 8",
    shows: "Tenants get the processor in proportion to their shares in every second.",
    run,
};

/// Fig. 8.
///
/// # Errors
/// When the machine does not run.
pub fn run(rig: &Rig) -> Result<Report> {
    let measured = rig.measure(&plan("cpu-shares.toml", 20))?;
    let mut report = EXPERIMENT.report();
    by_cpu(&mut report, &measured, 0.5);
    report.figures.push(Figure::new("choosing and interrupts, of all cycles", choosing_percent(&measured), 2, "%"));
    Ok(report)
}

/// Returns the cost of choosing among the three and of interrupts for it, whoever pays: percent of the machine's cycles.
fn choosing_percent(measured: &Measured) -> f64 {
    let bill = measured.bill();
    let cycles = bill.scheduling_cycles + bill.caused_cycles + bill.interrupt_cycles;
    cycles as f64 * 100.0 / bill.machine_cycles.max(1) as f64
}
