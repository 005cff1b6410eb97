//! The processor, among three that want all of it.

use super::{
    experiment::Experiment,
    report::Report,
    rig::Rig,
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
    Ok(report)
}
