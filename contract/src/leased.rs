//! The bill over instances: cores that another instance runs on, in the figures of the supervisor.
//!
//! A zone is a payer: the cores of its lease are its cycles. A core that waits for a holder is idle. So each core of the machine has one line
//! in the snapshot, whoever runs on it, and the bill's sum is the machine. A zone keeps its own bill of what it does with its cycles.
//!
//! Protocol of use: [`add`] the cores of the pool to the snapshot of the supervisor's own cores.

use alloc::vec::Vec;

use crate::monitor::{CoreTime, Handling, Record, Resource, Snapshot};

/// The resource that leases are counted at.
pub const LEASE: &str = "lease";

/// A core of the pool. `leased` and `idle_cycles` sum up to `elapsed_cycles`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolCore {
    /// Cycles since the pool was made.
    pub elapsed_cycles: u64,
    /// Cycles in the hands of holders, by their activities.
    pub leased: Vec<Handling>,
    /// Cycles that it waited for a holder.
    pub idle_cycles: u64,
}

/// Adds cores of the pool, with a record for each holder.
pub fn add(snapshot: &mut Snapshot, cores: Vec<PoolCore>) {
    if cores.is_empty() {
        return;
    }
    let resource = place_of_lease(snapshot);
    let first = snapshot.cores.iter().map(|core| core.core).max().map_or(0, |last| last.saturating_add(1));
    for (core, known) in (first..).zip(cores) {
        for lease in &known.leased {
            add_record(snapshot, resource, *lease);
        }
        let attributed = known.leased.iter().fold(known.idle_cycles, |sum, lease| sum.wrapping_add(lease.cycles));
        snapshot.cores.push(CoreTime {
            core,
            elapsed_cycles: known.elapsed_cycles,
            idle_cycles: known.idle_cycles,
            unattributed_cycles: known.elapsed_cycles.abs_diff(attributed),
            handling: known.leased,
            ..CoreTime::default()
        });
    }
}

/// Returns the index of the resource of leases, which is added if the engine has none.
fn place_of_lease(snapshot: &mut Snapshot) -> u16 {
    let known = snapshot.resources.iter().position(|resource| resource.name == LEASE);
    let place = known.unwrap_or(snapshot.resources.len());
    if known.is_none() {
        snapshot.resources.push(Resource { name: LEASE.into(), policy: "none".into(), ..Resource::default() });
    }
    u16::try_from(place).unwrap_or(u16::MAX)
}

fn add_record(snapshot: &mut Snapshot, resource: u16, lease: Handling) {
    let is_it = |record: &&mut Record| record.activity == lease.activity && record.resource == resource;
    match snapshot.records.iter_mut().find(is_it) {
        Some(record) => record.cycles = record.cycles.wrapping_add(lease.cycles),
        None => {
            snapshot.records.push(Record {
                activity: lease.activity,
                resource,
                cycles: lease.cycles,
                ..Record::default()
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bill::{Bill, used_at};
    use crate::monitor::{Activity, ActivityKind};
    use alloc::vec;

    fn own() -> Snapshot {
        let activity = |id, name: &str, kind| Activity {
            id,
            parent: id,
            name: name.into(),
            kind,
            share: 100,
            ..Activity::default()
        };
        Snapshot {
            cores: vec![CoreTime {
                elapsed_cycles: 100,
                idle_cycles: 60,
                handling: vec![Handling { activity: 1, cycles: 40 }],
                ..CoreTime::default()
            }],
            activities: vec![
                activity(1, "system", ActivityKind::System),
                activity(2, "search", ActivityKind::Zone),
                activity(3, "crunch", ActivityKind::Zone),
            ],
            resources: vec![Resource { name: "cpu".into(), ..Resource::default() }],
            records: vec![Record { activity: 1, cycles: 40, ..Record::default() }],
            ..Snapshot::default()
        }
    }

    #[test]
    fn the_sum_over_all_instances_is_the_machine() {
        let mut snapshot = own();
        let lease = |activity, cycles| Handling { activity, cycles };
        let cores = vec![
            PoolCore { elapsed_cycles: 90, leased: vec![lease(2, 30), lease(3, 50)], idle_cycles: 10 },
            PoolCore { elapsed_cycles: 90, leased: vec![lease(2, 90)], idle_cycles: 0 },
            PoolCore { elapsed_cycles: 90, leased: vec![], idle_cycles: 90 },
        ];
        add(&mut snapshot, cores);
        let bill = Bill::of(&snapshot);
        assert!(bill.adds_up(), "{bill:?}");
        assert_eq!((bill.machine_cycles, bill.idle_cycles, bill.unattributed_cycles), (370, 160, 0));
        let cycles: Vec<(&str, u64)> = bill.tenants.iter().map(|line| (line.tenant.as_str(), line.cycles)).collect();
        assert_eq!(cycles, [("system", 40), ("search", 120), ("crunch", 50)]);
        let shares: Vec<u32> = bill.tenants.iter().map(|line| line.share).collect();
        assert_eq!(shares, [100, 0, 0], "a zone has its cores, and no share of others");
        let leased: Vec<u64> = used_at(&snapshot, LEASE).iter().map(|used| used.cycles).collect();
        assert_eq!(leased, [0, 120, 50], "records and time lines agree");
    }

    #[test]
    fn a_core_whose_time_does_not_add_up_is_seen() {
        let mut snapshot = own();
        add(&mut snapshot, vec![PoolCore { elapsed_cycles: 90, leased: vec![], idle_cycles: 80 }]);
        assert_eq!(Bill::of(&snapshot).unattributed_cycles, 10);
    }

    #[test]
    fn a_machine_without_a_pool_is_as_it_was() {
        let mut snapshot = own();
        add(&mut snapshot, vec![]);
        assert_eq!(snapshot, own());
    }
}
