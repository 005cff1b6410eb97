//! A core for the network's work alone: three web servers, once with the line in the machine file and once without it.
//!
//! A core's time line knows payers, a record resources; tenants' cycles on core 1 are the network's alone if both are equal.

use gyre_contract::{
    boot::Machine,
    catalogue::Resource,
    monitor::{ActivityKind, Snapshot},
};

use super::{
    experiment::Experiment,
    report::{Figure, Report},
    rig::{self, Measured, Plan, Rig},
};
use crate::{cli::Kernel, failure::Result};

const FILE: &str = "cores-alone.toml";
/// The core that the machine file gives to the network.
const CORE: u16 = 1;
const SECONDS: u32 = 15;
const WARM_UP: u32 = 4;

/// The experiment on the list.
pub const EXPERIMENT: Experiment = Experiment {
    name: "cores-alone",
    title: "A core for the network's work alone",
    paper: "Omni-kernel (2013), section V",
    shows: "One line keeps programs and all other kernel work off a core.",
    run,
};

/// Cycles of tenants.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Cycles {
    /// On the network's core.
    there: f64,
    /// On the other cores.
    elsewhere: f64,
    /// In resources of the network, wherever.
    network: f64,
}

impl Cycles {
    fn of(window: &Snapshot) -> Cycles {
        let is_tenant = |id: u32| {
            let known = window.activities.iter().find(|activity| activity.id == id);
            known.is_some_and(|activity| !matches!(activity.kind, ActivityKind::Root | ActivityKind::Infrastructure))
        };
        let on = |is_wanted: &dyn Fn(u16) -> bool| {
            let cores = window.cores.iter().filter(|core| is_wanted(core.core));
            let spans = cores.flat_map(|core| &core.handling).filter(|span| is_tenant(span.activity));
            spans.map(|span| span.cycles as f64).sum()
        };
        let is_network = |index: u16| {
            let name = window.resources.get(usize::from(index)).map(|resource| resource.name.as_str());
            name.and_then(Resource::find).is_some_and(Resource::is_network)
        };
        let records = window.records.iter().filter(|record| is_tenant(record.activity) && is_network(record.resource));
        Cycles {
            there: on(&|core| core == CORE),
            elsewhere: on(&|core| core != CORE),
            network: records.map(|record| record.cycles as f64).sum(),
        }
    }

    /// The part of the core's work for tenants that is the network's, percent, if all of the network's is there.
    fn part(self) -> f64 {
        100.0 * self.network / self.there.max(1.0)
    }
}

/// Runs both machines.
///
/// # Errors
/// When one does not run.
fn run(rig: &Rig) -> Result<Report> {
    let shared = |machine: &mut Machine| machine.resources.clear();
    let measure = |change: &dyn Fn(&mut Machine)| {
        rig.measure(&Plan {
            file: FILE,
            on: Kernel::Gyre,
            warm_up: WARM_UP,
            seconds: SECONDS,
            change,
            besides: &rig::nothing,
        })
    };
    let (alone, shared) = (measure(&rig::as_it_is)?, measure(&shared)?);
    Ok(report(&alone, &shared))
}

fn sent(measured: &Measured) -> f64 {
    let rate = |sample: &crate::view::Sample| sample.tenants.iter().map(|one| one.sent_bits_per_second).sum::<f64>();
    measured.samples.iter().map(rate).sum::<f64>() / measured.samples.len().max(1) as f64 / 1e6
}

fn report(alone: &Measured, shared: &Measured) -> Report {
    let (own, both) = (Cycles::of(&alone.window), Cycles::of(&shared.window));
    let (part, without) = (own.part(), both.part());
    let is_alone = (part - 100.0).abs() <= 1.0;
    let mut report = EXPERIMENT.report();
    report.figures.extend([
        Figure::new("tenants' cycles on core 1 that are the network's", part, 2, "%").goal("100 +- 1", is_alone),
        Figure::new("the same without the line: the network's, of core 1", without, 1, "%"),
        Figure::new(
            "tenants' cycles on core 1, of all",
            100.0 * own.there / (own.there + own.elsewhere).max(1.0),
            1,
            "%",
        ),
        Figure::new("sent", sent(alone), 1, "Mbit/s"),
        Figure::new("sent without the line", sent(shared), 1, "Mbit/s"),
    ]);
    report.notes.push(
        "alone.network = [1] on two cores. Over 100 %: the network worked elsewhere, too; below: others worked there."
            .into(),
    );
    report
}

#[cfg(test)]
mod tests {
    use super::*;
    use gyre_contract::monitor::{Activity, CoreTime, Handling, Record, Resource as Named};

    #[test]
    fn only_tenants_cycles_count() {
        let of = |id, kind| Activity { id, kind, ..Activity::default() };
        let core = |core, spans: &[(u32, u64)]| {
            let handling = spans.iter().map(|&(activity, cycles)| Handling { activity, cycles }).collect();
            CoreTime { core, handling, ..CoreTime::default() }
        };
        let record = |activity, resource, cycles| Record { activity, resource, cycles, ..Record::default() };
        let named = |name: &str| Named { name: name.into(), ..Named::default() };
        let window = Snapshot {
            activities: vec![of(1, ActivityKind::Infrastructure), of(2, ActivityKind::Tenant)],
            cores: vec![core(0, &[(1, 5), (2, 70)]), core(1, &[(1, 9), (2, 30)])],
            resources: vec![named("ext2"), named("network_read")],
            records: vec![record(2, 0, 70), record(2, 1, 30), record(1, 1, 9)],
            ..Snapshot::default()
        };
        let cycles = Cycles::of(&window);
        assert_eq!(cycles, Cycles { there: 30.0, elsewhere: 70.0, network: 30.0 });
        assert_eq!(cycles.part(), 100.0);
    }
}
