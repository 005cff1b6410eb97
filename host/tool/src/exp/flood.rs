//! A packet flood at one tenant: what its neighbours keep, here and on Linux with control groups.

use super::{
    experiment::Experiment,
    packets::{Packets, address},
    plot::{self, Group},
    report::{Figure, Report},
    rig::{Plan, Rig, as_it_is, nothing},
    shares::mean,
};
use crate::{cli::Kernel, failure::Result, run::Running};

const PACKETS_PER_SECOND: u32 = 10_000;
/// The discard port: closed in every tenant.
const PORT: u16 = 9;
const VICTIM: &str = "bronze";

/// The experiment on the list.
pub const EXPERIMENT: Experiment = Experiment {
    name: "flood",
    title: "A packet flood at a neighbour, beside Linux with control groups",
    paper: "",
    shows: "A tenant that is flooded pays for the flood, and its neighbours do not.",
    run,
};

/// Adversary nr. 1: UDP at a closed port of bronze.
///
/// # Errors
/// When a machine does not run.
pub fn run(rig: &Rig) -> Result<Report> {
    let mut report = EXPERIMENT.report();
    let mut groups = vec![];
    let mut gold = vec![];
    for (on, name) in [(Kernel::Linux, "Linux"), (Kernel::Gyre, "Gyre")] {
        for flooded in [false, true] {
            let shares = match measure(rig, on, flooded) {
                Ok(shares) => shares,
                // Linux's side stands alone while our kernel cannot run the web servers.
                Err(failure) if on == Kernel::Gyre && !rig.stop.is_set() => {
                    report.failure = Some(format!("on Gyre: {}", failure.report));
                    break;
                }
                Err(failure) => return Err(failure),
            };
            let case = if flooded { "flooded" } else { "alone" };
            gold.push((on, flooded, shares.first().map_or(0.0, |(_, share)| *share)));
            groups.push(Group {
                name: format!("{name} {case}"),
                values: shares.iter().map(|(_, share)| *share).collect(),
            });
        }
    }
    let of = |on, flooded| {
        gold.iter().find(|(kernel, case, _)| *kernel == on && *case == flooded).map(|(_, _, share)| *share)
    };
    let part = |what: &str, flooded| {
        let [gyre, linux] = [Kernel::Gyre, Kernel::Linux].map(|on| of(on, flooded).unwrap_or(f64::NAN));
        Figure::new(what, gyre, 1, "%").linux(linux)
    };
    let alone = part("gold's bytes, nobody flooded", false);
    let flooded = part("gold's bytes, bronze flooded", true);
    let kept = of(Kernel::Gyre, true).is_some_and(|share| share >= 48.0);
    report.figures.extend([alone, flooded.goal(">= 48 %", kept)]);
    let title = "Part of the bytes served, entitled 50 / 33 / 17";
    report.plot("flood.svg", plot::bars(title, " %", &["gold", "silver", "bronze"], &groups));
    report.notes.push(format!("{PACKETS_PER_SECOND} UDP packets of 64 bytes a second to a closed port of bronze; one core, 4 KiB pages, 16 connections each; Linux: Debian's cloud kernel, cpu.weight by share, same images, same emulator."));
    Ok(report)
}

/// Mean parts of the bytes served, in the order of the tenants.
fn measure(rig: &Rig, on: Kernel, flooded: bool) -> Result<Vec<(String, f64)>> {
    let start = |running: &Running| -> Result<Option<Box<dyn std::any::Any>>> {
        let to = address(&running.description.machine, VICTIM, PORT)?;
        let flood = Packets::start(&running.namespace, to, PACKETS_PER_SECOND)?;
        Ok(Some(Box::new(flood)))
    };
    let besides: &dyn Fn(&Running) -> Result<Option<Box<dyn std::any::Any>>> = if flooded { &start } else { &nothing };
    let plan = Plan { file: "flood.toml", on, warm_up: 3, seconds: 15, change: &as_it_is, besides };
    let shares = rig.measure(&plan)?.shares(|tenant| tenant.sent_bits_per_second);
    Ok(shares.into_iter().map(|(name, _, percents)| (name, mean(&percents))).collect())
}
