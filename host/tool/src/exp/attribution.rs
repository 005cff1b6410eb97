//! Which of the cycles that a tenant's packets cost stand on that tenant's bill, here and on Linux with control groups.
//!
//! Each case runs once without and once with its packets. The cost is the difference of the CPU time that the virtual processors take
//! of the host, so that neither kernel says itself what its packets cost. The billed part is the difference of the tenant's bill:
//! cycles on Gyre, `usage_usec` of the group's cpu.stat on Linux.

use std::any::Any;

use gyre_contract::bill::Bill;
use gyre_machine_file::Description;

use super::{
    experiment::Experiment,
    packets::{Packets, address},
    plot::{self, Group},
    program,
    report::{Figure, Report},
    rig::{Plan, Rig, as_it_is},
};
use crate::{cli::Kernel, failure::Result, run::Running};

/// The experiment on the list.
pub const EXPERIMENT: Experiment = Experiment {
    name: "attribution",
    title: "Processor time of a tenant's packets that are on its bill, beside Linux with control groups",
    paper: "",
    shows: "A tenant pays for the packets that are sent to it.",
    run,
};
const PACKETS_PER_SECOND: u32 = 4_000;

/// Packets of one kind, and the tenant that they are for.
struct Case {
    name: &'static str,
    tenant: &'static str,
    packets: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The load tool asks for pages.
    Pages,
    /// Datagrams for a port.
    Datagrams(u16),
}

const CASES: [Case; 3] = [
    Case { name: "datagrams at a closed port", tenant: "bronze", packets: Kind::Datagrams(9) },
    Case { name: "datagrams that a program reads", tenant: "bronze", packets: Kind::Datagrams(9000) },
    Case { name: "web pages of 4 KiB", tenant: "gold", packets: Kind::Pages },
];

/// Seconds of processor time in each second of a run.
struct Cost {
    /// Of the host's, by the machine's virtual processors: nothing that runs there is left out.
    processors: f64,
    /// On the bills.
    bills: Vec<(String, f64)>,
}

impl Cost {
    fn of(processors: f64, bill: &Bill) -> Self {
        let cycles = (bill.period_ns as f64 / 1e9 * bill.cycles_per_second as f64).max(1.0);
        let bills = bill.tenants.iter().map(|line| (line.tenant.clone(), line.cycles as f64 / cycles));
        Self { processors, bills: bills.collect() }
    }

    fn bill(&self, tenant: &str) -> f64 {
        self.bills.iter().find(|(name, _)| name == tenant).map_or(0.0, |(_, seconds)| *seconds)
    }

    /// The part of what `self` costs more than `quiet` that is on a tenant's bill, percent.
    fn billed_percent(&self, quiet: &Self, tenant: &str) -> f64 {
        let (cost, billed) = (self.processors - quiet.processors, self.bill(tenant) - quiet.bill(tenant));
        if cost > 0.0 { billed * 100.0 / cost } else { f64::NAN }
    }
}

/// Measures each case on both kernels.
///
/// # Errors
/// When a machine does not run.
pub fn run(rig: &Rig) -> Result<Report> {
    let mut report = EXPERIMENT.report();
    let linux = parts(rig, Kernel::Linux)?;
    let gyre = parts(rig, Kernel::Gyre)?;
    for (case, (ours, theirs)) in CASES.iter().zip(gyre.iter().zip(&linux)) {
        let figure = Figure::new(case.name, *ours, 1, "%").linux(*theirs);
        report.figures.push(match case.packets {
            Kind::Datagrams(_) => figure.goal("more than Linux", ours > theirs),
            Kind::Pages => figure,
        });
    }
    let groups = [("Linux", linux), ("Gyre", gyre)].map(|(name, values)| Group { name: name.into(), values });
    let title = "Processor time that packets cost, on the bill of the tenant they are for";
    report.plot("attribution.svg", plot::bars(title, " %", &CASES.map(|case| case.name), &groups));
    report.notes.push(format!(
        "One core; CPU time of the virtual processor on the host with the packets less that without, and the tenant's bill with less without. \
         {PACKETS_PER_SECOND} datagrams of 64 bytes a second; pages by wrk with 16 connections from nginx. The rest is, on Gyre, work on \
         frames before their headers name a tenant, and interrupts that no activity caused; on Linux what runs in interrupt context. \
         Linux: Debian's cloud kernel, a control group for each tenant, same images, same emulator."
    ));
    Ok(report)
}

/// Returns the billed part of each case, percent.
fn parts(rig: &Rig, on: Kernel) -> Result<Vec<f64>> {
    let quiet = measure(rig, on, None)?;
    let part = |case| Ok(measure(rig, on, Some(case))?.billed_percent(&quiet, case.tenant));
    CASES.iter().map(part).collect()
}

fn measure(rig: &Rig, on: Kernel, case: Option<&Case>) -> Result<Cost> {
    let kind = case.map(|case| case.packets);
    let besides = |running: &Running| -> Result<Option<Box<dyn Any>>> {
        let (Some(case), Some(Kind::Datagrams(port))) = (case, kind) else { return Ok(None) };
        let to = address(&running.description.machine, case.tenant, port)?;
        Ok(Some(Box::new(Packets::start(&running.namespace, to, PACKETS_PER_SECOND)?)))
    };
    let sink = program::compile(&rig.project, "attribution/sink.c")?;
    let prepare = |description: &mut Description| {
        description.images.values_mut().for_each(|image| drop(image.files.insert("/sink".into(), sink.clone())));
        if kind != Some(Kind::Pages) {
            description.tenants.iter_mut().for_each(|tenant| tenant.load = None);
        }
    };
    let plan = Plan { file: "attribution.toml", on, warm_up: 3, seconds: 12, change: &as_it_is, besides: &besides };
    let measured = rig.measure_prepared(&plan, &prepare)?;
    Ok(Cost::of(measured.processors, &measured.bill()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(processors: f64, gold: f64) -> Cost {
        Cost { processors, bills: vec![("gold".into(), gold)] }
    }

    #[test]
    fn the_billed_part_is_of_what_the_packets_cost_more() {
        assert_eq!(cost(150.0, 90.0).billed_percent(&cost(50.0, 10.0), "gold"), 80.0);
        assert_eq!(cost(150.0, 90.0).billed_percent(&cost(50.0, 10.0), "bronze"), 0.0);
    }

    #[test]
    fn packets_that_cost_nothing_have_no_part() {
        assert!(cost(50.0, 10.0).billed_percent(&cost(50.0, 10.0), "gold").is_nan());
    }
}
