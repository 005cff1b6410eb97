//! The bill: each tenant's use of the machine's time, and the proof that it adds up. A zone is on it as a tenant is.
//!
//! `sum of tenants + infrastructure + scheduling + interrupt + idle + unattributed = machine`, to the cycle.
//!
//! Protocol of use: take a [`Snapshot`], or [`Snapshot::since`] an earlier one, and call [`Bill::of`];
//! [`Bill::processes`] and [`Bill::used_at`] give the parts. Everything is derived from the snapshot; nothing here
//! reads a clock or the machine.
//!
//! Cycles that a service spent on behalf of a tenant are that tenant's; they are shown apart, and counted once.

use alloc::{collections::BTreeMap, string::String, vec::Vec};
use serde::{Deserialize, Serialize};

use crate::monitor::{self, Activity, ActivityKind, Record, Snapshot};

/// One tenant's line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// The tenant.
    pub tenant: String,
    /// Its share (weight); 0 of a zone, which has its cores to itself.
    pub share: u32,
    /// Cycles, of its parts too.
    pub cycles: u64,
    /// Of these, in user mode.
    pub user_cycles: u64,
    /// Messages handled for it.
    pub messages: u64,
    /// Bytes sent to the wire.
    pub sent_bytes: u64,
    /// Bytes received from the wire.
    pub received_bytes: u64,
    /// Bytes read from its disk, and by its cells from theirs.
    pub read_bytes: u64,
    /// Bytes written to its disk, and by its cells to theirs.
    pub written_bytes: u64,
    /// Memory now.
    pub memory_bytes: u64,
    /// The most memory it held.
    pub memory_bytes_max: u64,
    /// Memory over time, of its parts too, in bytes x seconds.
    pub memory_byte_seconds: u64,
    /// Time that its messages waited in queues, in nanoseconds.
    pub queued_ns: u64,
}

/// A bill.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bill {
    /// The machine's name.
    pub machine: String,
    /// Nanoseconds that the bill covers.
    pub period_ns: u64,
    /// Frequency of the cycles.
    pub cycles_per_second: u64,
    /// The tenants, the system tenant among them.
    pub tenants: Vec<Line>,
    /// Sum of the tenants.
    pub tenant_cycles: u64,
    /// Cycles of no tenant: frames for none of them, the devices' housekeeping.
    pub infrastructure_cycles: u64,
    /// Cycles of choosing the next work, as far as no tenant caused it.
    pub scheduling_cycles: u64,
    /// Interrupt entry and exit, as far as no tenant caused them.
    pub interrupt_cycles: u64,
    /// Halted.
    pub idle_cycles: u64,
    /// Not attributed.
    pub unattributed_cycles: u64,
    /// All cores' elapsed time.
    pub machine_cycles: u64,
    /// `machine_cycles` minus the sum of all above: 0 when the bill adds up.
    pub difference_cycles: i64,
    /// Of the tenants' cycles: choosing, interrupts and timers that they caused.
    #[serde(default)]
    pub caused_cycles: u64,
    /// Of the tenants' cycles: what services spent on behalf of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on_behalf: Vec<OnBehalf>,
}

/// Cycles on a tenant's line that a service spent, with its grant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnBehalf {
    /// The tenant that pays; its number if it has ended.
    pub tenant: String,
    /// The tenant whose program worked.
    pub service: String,
    /// Cycles.
    pub cycles: u64,
}

/// One process, or the tables of a file system: figures of its own, all of them on its tenant's line too.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessLine {
    /// Its tenant.
    pub tenant: String,
    /// Its number in the tenant; 0 of the tables of its file system.
    pub process: u32,
    /// Its program's name.
    pub name: String,
    /// Its weight among the processes of its tenant (1024 is nice 0).
    pub weight: u32,
    /// Its threads.
    pub threads: u32,
    /// Cycles.
    pub cycles: u64,
    /// Of these, cycles in user mode.
    pub user_cycles: u64,
    /// Messages handled for it.
    pub messages: u64,
    /// Bytes that resources moved for it.
    pub bytes: u64,
    /// Memory that it took and that is not given back.
    pub memory_bytes: u64,
    /// Time that its messages waited in queues, in nanoseconds.
    pub queued_ns: u64,
}

/// The use of one resource by one tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// The tenant.
    pub tenant: String,
    /// Its share (weight).
    pub share: u32,
    /// Bytes that the resource reported for it and its parts.
    pub bytes: u64,
    /// Cycles that handling its messages took, and those of its parts.
    pub cycles: u64,
}

/// Returns the use of one resource by all tenants, in the snapshot's order; 0 for a resource that does not exist.
#[must_use]
pub fn used_at(snapshot: &Snapshot, resource: &str) -> Vec<Used> {
    let payers = Payers::of(snapshot);
    let index = snapshot.resources.iter().position(|known| known.name == resource);
    let sum = |payer: u32, value: fn(&Record) -> u64| {
        let is_its = |record: &&Record| {
            Some(usize::from(record.resource)) == index && payers.of_activity(record.activity) == Some(payer)
        };
        snapshot.records.iter().filter(is_its).map(value).sum()
    };
    let used = |payer: &Activity| Used {
        tenant: payer.name.clone(),
        share: payer.share,
        bytes: sum(payer.id, |record| record.bytes),
        cycles: sum(payer.id, |record| record.cycles),
    };
    snapshot.activities.iter().filter(|activity| is_payer(activity.kind)).map(used).collect()
}

/// Returns the lines of all living processes and of the tables of file systems, by cycles, grouped by tenant.
#[must_use]
pub fn processes(snapshot: &Snapshot) -> Vec<ProcessLine> {
    let payers = Payers::of(snapshot);
    let mut lines: BTreeMap<u32, ProcessLine> = BTreeMap::new();
    let has_line = |activity: &&Activity| activity.process_id != 0 || activity.kind == ActivityKind::Tables;
    for process in snapshot.activities.iter().filter(has_line) {
        let payer = payers.of_activity(process.id);
        let tenant = snapshot.activities.iter().find(|one| Some(one.id) == payer);
        let line = ProcessLine {
            tenant: tenant.map_or_else(String::new, |tenant| tenant.name.clone()),
            process: process.process_id,
            name: process.name.clone(),
            weight: process.share,
            threads: process.processes,
            user_cycles: process.user_cycles,
            memory_bytes: process.memory_bytes,
            ..ProcessLine::default()
        };
        lines.insert(process.id, line);
    }
    for record in &snapshot.records {
        if let Some(line) = lines.get_mut(&record.activity) {
            line.cycles += record.cycles;
            line.messages += record.messages;
            line.bytes += record.bytes;
            line.queued_ns += record.queued_ns;
        }
    }
    let mut lines: Vec<ProcessLine> = lines.into_values().collect();
    lines.sort_by(|a, b| (&a.tenant, core::cmp::Reverse(a.cycles)).cmp(&(&b.tenant, core::cmp::Reverse(b.cycles))));
    lines
}

impl Bill {
    /// Sums a snapshot up.
    #[must_use]
    pub fn of(snapshot: &Snapshot) -> Self {
        let mut bill = Self {
            machine: snapshot.machine.clone(),
            period_ns: snapshot.uptime_ns,
            cycles_per_second: snapshot.cycles_per_second,
            ..Self::default()
        };
        bill.cores(snapshot);
        let payers = Payers::of(snapshot);
        let all = snapshot.activities.iter().filter(|activity| is_payer(activity.kind));
        bill.tenants = all.map(|payer| line(snapshot, &payers, payer)).collect();
        bill.on_behalf = snapshot.on_behalf.iter().map(|account| on_behalf(snapshot, account)).collect();
        bill.tenant_cycles = bill.tenants.iter().map(|line| line.cycles).sum();
        bill.infrastructure_cycles = handled(snapshot, |activity| payers.of_activity(activity).is_none());
        bill.caused_cycles = caused(snapshot, &payers);
        let sum = [
            bill.tenant_cycles,
            bill.infrastructure_cycles,
            bill.scheduling_cycles,
            bill.interrupt_cycles,
            bill.idle_cycles,
            bill.unattributed_cycles,
        ];
        let sum: i128 = sum.iter().map(|cycles| i128::from(*cycles)).sum();
        let difference = i128::from(bill.machine_cycles) - sum;
        bill.difference_cycles = i64::try_from(difference).unwrap_or(if difference < 0 { i64::MIN } else { i64::MAX });
        bill
    }

    /// Returns whether the parts sum up to the whole.
    #[must_use]
    pub fn adds_up(&self) -> bool {
        self.difference_cycles == 0
    }

    fn cores(&mut self, snapshot: &Snapshot) {
        for core in &snapshot.cores {
            self.machine_cycles += core.elapsed_cycles;
            self.scheduling_cycles += core.scheduling_cycles;
            self.interrupt_cycles += core.interrupt_cycles;
            self.idle_cycles += core.idle_cycles;
            self.unattributed_cycles += core.unattributed_cycles;
        }
    }
}

fn on_behalf(snapshot: &Snapshot, account: &monitor::OnBehalf) -> OnBehalf {
    let payer = snapshot.activities.iter().find(|activity| activity.id == account.payer);
    OnBehalf {
        tenant: payer.map_or_else(|| alloc::format!("#{}", account.payer), |payer| payer.name.clone()),
        service: account.service.clone(),
        cycles: account.cycles,
    }
}

fn is_payer(kind: ActivityKind) -> bool {
    matches!(kind, ActivityKind::Tenant | ActivityKind::System | ActivityKind::Zone)
}

/// The tenant that each activity belongs to: itself or the nearest tenant above it.
pub(crate) struct Payers(BTreeMap<u32, Option<u32>>);

impl Payers {
    pub(crate) fn of(snapshot: &Snapshot) -> Self {
        let by_id: BTreeMap<u32, &Activity> = snapshot.activities.iter().map(|one| (one.id, one)).collect();
        Self(by_id.keys().map(|id| (*id, nearest(&by_id, *id))).collect())
    }

    /// Returns the tenant that pays for an activity.
    pub(crate) fn of_activity(&self, id: u32) -> Option<u32> {
        self.0.get(&id).copied().flatten()
    }
}

/// Walks up to the nearest tenant. A tree deeper than its number of activities is a cycle, which a damaged snapshot
/// might hold; the walk ends there.
fn nearest(by_id: &BTreeMap<u32, &Activity>, id: u32) -> Option<u32> {
    let mut at = id;
    for _ in 0..=by_id.len() {
        let activity = by_id.get(&at)?;
        if is_payer(activity.kind) {
            return Some(activity.id);
        }
        if activity.parent == activity.id {
            return None;
        }
        at = activity.parent;
    }
    None
}

/// Returns the cycles of tenants at the resource to which the looks of cores belong.
fn caused(snapshot: &Snapshot, payers: &Payers) -> u64 {
    let is_look = |record: &&monitor::Record| {
        let resource = snapshot.resources.get(usize::from(record.resource));
        resource.is_some_and(|resource| resource.name == "runtime") && payers.of_activity(record.activity).is_some()
    };
    snapshot.records.iter().filter(is_look).map(|record| record.cycles).sum()
}

fn handled(snapshot: &Snapshot, whose: impl Fn(u32) -> bool) -> u64 {
    let all = snapshot.cores.iter().flat_map(|core| &core.handling);
    all.filter(|span| whose(span.activity)).map(|span| span.cycles).sum()
}

fn line(snapshot: &Snapshot, payers: &Payers, payer: &Activity) -> Line {
    let whose = |id: u32| payers.of_activity(id) == Some(payer.id);
    let mut line = Line {
        tenant: payer.name.clone(),
        share: if payer.kind == ActivityKind::Zone { 0 } else { payer.share },
        cycles: handled(snapshot, whose),
        memory_bytes: payer.memory_bytes,
        memory_bytes_max: payer.memory_bytes_max,
        memory_byte_seconds: payer.memory_byte_seconds,
        ..Line::default()
    };
    // Counters of a part are its own; memory of a tenant includes its parts already (it is the limit's subject).
    for part in snapshot.activities.iter().filter(|activity| whose(activity.id)) {
        line.user_cycles += part.user_cycles;
        line.sent_bytes += part.sent_bytes;
        line.received_bytes += part.received_bytes;
        line.read_bytes += part.read_bytes;
        line.written_bytes += part.written_bytes;
    }
    for record in snapshot.records.iter().filter(|record| whose(record.activity)) {
        line.messages += record.messages;
        line.queued_ns += record.queued_ns;
    }
    line
}

#[cfg(test)]
#[path = "bill_tests.rs"]
mod tests;
