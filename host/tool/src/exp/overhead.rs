//! The cost of making everything a scheduled message: each message by itself in batches of 1, 4 and 8 as in the paper, and as
//! this kernel does it by default.

use super::{
    experiment::Experiment,
    plot::{self, Group},
    report::{Figure, Report},
    rig::{Measured, Plan, Rig, nothing},
};
use crate::{cli::Kernel, failure::Result};
use gyre_contract::boot::{Dispatch, Machine};

/// One way to hand on messages.
struct Way {
    name: &'static str,
    messages: Dispatch,
    batch: u16,
    /// The paper's overhead for 4 MB files (§VI-A).
    paper: &'static str,
    /// Largest overhead that we promise, in percent.
    goal: Option<f64>,
}

const WAYS: [Way; 4] = [
    Way { name: "queued, batch 1", messages: Dispatch::Queued, batch: 1, paper: "10-16 %", goal: None },
    Way { name: "queued, batch 4", messages: Dispatch::Queued, batch: 4, paper: "8-12 %", goal: None },
    Way { name: "queued, batch 8", messages: Dispatch::Queued, batch: 8, paper: "3-4 % (contended)", goal: None },
    Way { name: "inline (default)", messages: Dispatch::Inline, batch: 1, paper: "3-4 % (batch 8)", goal: Some(10.0) },
];

/// The experiment on the list.
pub const EXPERIMENT: Experiment = Experiment {
    name: "overhead",
    title: "Cost of scheduling everything, batching 1, 4, 8",
    paper: "Figs 17-19",
    shows: "Scheduling each message costs a known part of the rate.",
    run,
};

/// Figs 17 to 19.
///
/// # Errors
/// When a machine does not run.
pub fn run(rig: &Rig) -> Result<Report> {
    let mut report = EXPERIMENT.report();
    let mut groups = vec![];
    for way in WAYS {
        let [scheduling, interrupt, infrastructure] = parts(&measure(rig, &way)?);
        let figures = [
            ("not message processing", way.paper, scheduling + interrupt),
            ("with infrastructure's messages", "", scheduling + interrupt + infrastructure),
        ];
        for (what, paper, percent) in figures {
            let figure = Figure::new(format!("{}: {what}", way.name), percent, 2, "%").paper(paper);
            report.figures.push(match way.goal {
                Some(goal) => figure.goal(format!("<= {goal} %"), percent <= goal),
                None => figure,
            });
        }
        groups.push(Group { name: way.name.into(), values: vec![scheduling, interrupt, infrastructure] });
    }
    let series = ["scheduling", "interrupt", "infrastructure"];
    report.plot("overhead.svg", plot::bars("Percent of consumed CPU time", " %", &series, &groups));
    report.notes.push(
        "Percent of what is consumed (idle time left out). The paper's overhead is CPU time that is not message processing: \
         scheduling and interrupt entry here. 4 MiB files, 16 connections, link without limit."
            .into(),
    );
    Ok(report)
}

fn measure(rig: &Rig, way: &Way) -> Result<Measured> {
    let change = |machine: &mut Machine| {
        machine.messages = way.messages;
        machine.resources.iter_mut().for_each(|resource| resource.batch = way.batch);
    };
    let file = "overhead.toml";
    rig.measure(&Plan { file, on: Kernel::Gyre, warm_up: 3, seconds: 10, change: &change, besides: &nothing })
}

/// Scheduling with what tenants caused of interrupts, other interrupt entry, and infrastructure in percent of what was consumed.
fn parts(measured: &Measured) -> [f64; 3] {
    let bill = measured.bill();
    let consumed = (bill.machine_cycles.saturating_sub(bill.idle_cycles)).max(1) as f64;
    [bill.scheduling_cycles + bill.caused_cycles, bill.interrupt_cycles, bill.infrastructure_cycles]
        .map(|cycles| cycles as f64 * 100.0 / consumed)
}
