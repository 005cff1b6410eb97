//! Cycles that are on no bill.

use gyre_contract::bill::Bill;

use super::{
    experiment::Experiment,
    plot::{self, Group},
    report::{Figure, Report},
    rig::{Plan, Rig, as_it_is, nothing},
};
use crate::{bill, cli::Kernel, failure::Result};

/// The paper: 0.004 % of the cycles are not attributed (§V-B). Here 0 by construction; the goal leaves room for a time stamp's width.
const GOAL_PERCENT: f64 = 0.001;

/// The experiment on the list.
pub const EXPERIMENT: Experiment = Experiment {
    name: "accuracy",
    title: "Cycles of the machine that nobody is billed for",
    paper: "",
    shows: "The bill accounts for every cycle.",
    run,
};

/// 100 seconds of the web experiment.
///
/// # Errors
/// When the machine does not run.
pub fn run(rig: &Rig) -> Result<Report> {
    let plan = Plan {
        file: "web-shares.toml",
        on: Kernel::Gyre,
        warm_up: 2,
        seconds: 100,
        change: &as_it_is,
        besides: &nothing,
    };
    let measured = rig.measure(&plan)?;
    let bill = measured.bill();
    let percent = bill::percent(bill.unattributed_cycles, bill.machine_cycles);
    let mut report = EXPERIMENT.report();
    let goal = format!("<= {GOAL_PERCENT} %");
    let unattributed = Figure::new("unattributed cycles", percent, 6, "%").paper("0.004 %");
    let off = Figure::new("machine minus the sum of the bill", bill.difference_cycles as f64, 0, "cycles");
    report.figures.push(unattributed.goal(goal, percent <= GOAL_PERCENT));
    report.figures.push(off.goal("0 cycles", bill.adds_up()));
    report.plot("accuracy.svg", parts(&bill));
    let longest = measured.window.resources.iter().max_by_key(|resource| resource.longest_cycles);
    if let Some(resource) = longest {
        let us = resource.longest_cycles as f64 * 1e6 / bill.cycles_per_second.max(1) as f64;
        report.figures.push(Figure::new("longest message", us, 0, "us"));
        report.notes.push(format!("The longest message is one of {}.", resource.name));
    }
    report.notes.push(format!(
        "{:.0} s, {} cores, three web servers on a saturated link.",
        bill.period_ns as f64 / 1e9,
        measured.window.cores.len()
    ));
    Ok(report)
}

/// Draws who is billed for the machine's cycles.
fn parts(bill: &Bill) -> String {
    let parts = [
        ("tenants", bill.tenant_cycles),
        ("infrastructure", bill.infrastructure_cycles),
        ("scheduling", bill.scheduling_cycles),
        ("interrupts", bill.interrupt_cycles),
        ("idle", bill.idle_cycles),
        ("unattributed", bill.unattributed_cycles),
    ];
    let groups = parts
        .map(|(name, cycles)| Group { name: name.into(), values: vec![bill::percent(cycles, bill.machine_cycles)] });
    plot::bars("Parts of the machine's cycles by the bill that they are on", " %", &["cycles"], &groups)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plot_shows_every_part_of_the_bill() {
        let bill = Bill { tenant_cycles: 600, idle_cycles: 400, machine_cycles: 1000, ..Bill::default() };
        let svg = parts(&bill);
        for word in ["60.0", "40.0", "unattributed", "interrupts"] {
            assert!(svg.contains(word), "{word} in {svg}");
        }
    }
}
