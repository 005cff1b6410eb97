//! An idle machine's cost for its host, here and on Linux in the same emulator.

use gyre_machine_file::Description;

use super::{
    experiment::Experiment,
    plot::{self, Group},
    report::{Figure, Report},
    rig::{Plan, Rig, as_it_is, nothing},
};
use crate::{cli::Kernel, failure::Result};

const IDLE_SECONDS: u32 = 20;

/// The experiment on the list.
pub const EXPERIMENT: Experiment = Experiment {
    name: "idle",
    title: "An idle machine with three web servers, beside Linux",
    paper: "",
    shows: "An idle machine costs its host nearly nothing.",
    run,
};

/// Cost of a machine for its host while nothing happens in it.
///
/// # Errors
/// When a machine does not run.
pub fn run(rig: &Rig) -> Result<Report> {
    let mut report = EXPERIMENT.report();
    let mut percents = vec![];
    for on in [Kernel::Linux, Kernel::Gyre] {
        let prepare = |description: &mut Description| {
            description.tenants.iter_mut().for_each(|tenant| tenant.load = None);
        };
        // Linux takes some seconds to become quiet.
        let plan = Plan {
            file: "web-shares.toml",
            on,
            warm_up: 12,
            seconds: IDLE_SECONDS,
            change: &as_it_is,
            besides: &nothing,
        };
        percents.push(rig.measure_prepared(&plan, &prepare)?.host_cpu_percent);
    }
    let [linux, gyre] = percents[..] else { return Ok(report) };
    let figure = Figure::new("of a host core", gyre, 2, "%").linux(linux);
    report.figures.push(figure.goal("no more than Linux", gyre <= linux.max(0.7)));
    report
        .notes
        .push("QEMU's CPU time over the measured seconds; the agent is asked once a second on both sides.".into());
    let groups =
        [("Linux", linux), ("Gyre", gyre)].map(|(name, value)| Group { name: name.into(), values: vec![value] });
    report.plot("idle.svg", plot::bars("Part of a host core that an idle machine takes", " %", &["CPU"], &groups));
    Ok(report)
}
