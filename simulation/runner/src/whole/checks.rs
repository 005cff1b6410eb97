//! Checks of a whole machine: while it runs, and once everything has ended.

use crate::whole::machine::{KEPT_PAGES, Machine};
use crate::whole::tenant::Tenant;
use gyre_account::Column;
use gyre_assembly::grid::id;
use gyre_contract::catalogue::Resource;
use gyre_device::DiskDevice;
use gyre_machine::PAGE_BYTES;
use gyre_object::{LockProfile, PoolStatistics};
use std::rc::Rc;

/// More pages than any tenant has.
const PAGES_MAX: usize = 1 << 20;
/// Pages in which a small file system has its tables while it is mounted.
const TABLE_PAGES_MAX: usize = 16;
/// How far a part of the link may be from its share: what a few segments are of a short time.
const SHARE_PER_MILLE: u64 = 50;

/// Counts of what is alive on all cores.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Alive {
    /// Tasks.
    pub tasks: usize,
    /// Messages that wait.
    pub queued: usize,
    /// Timers.
    pub timers: usize,
}

/// All that an instance counts of itself, to be compared with what it counts alone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Figures {
    /// Locks by name: how often they were taken and waited for.
    pub locks: Vec<(&'static str, LockProfile)>,
    /// Pools by name.
    pub pools: Vec<(&'static str, PoolStatistics)>,
    /// Of each core: cycles, messages and bytes on its ledger.
    pub ledger: Vec<[u64; 3]>,
    /// Bytes that each tenant holds.
    pub held: Vec<u64>,
    /// Bytes of all frames.
    pub frames: usize,
    /// The clocks of the cores, ns.
    pub clocks: Vec<u64>,
}

/// Reads them, as a core of the instance.
pub fn figures(machine: &Machine) -> Figures {
    let accounts = machine.engine.accounts();
    let sums =
        |core: usize| [Column::Cycles, Column::Messages, Column::Bytes].map(|of| accounts.line(core).table().sum(of));
    Figures {
        locks: gyre_object::lock_profiles(),
        pools: gyre_object::pool_statistics(),
        ledger: (0..machine.engine.cores()).map(sums).collect(),
        held: machine.activities.iter().map(|activity| accounts.activities.held_bytes(*activity)).collect(),
        frames: gyre_machine::live_frame_bytes(),
        clocks: (0..machine.engine.cores()).map(gyre_machine::virtual_clock).collect(),
    }
}

/// Counts what is alive.
pub fn alive(machine: &Machine) -> Alive {
    let mut alive = Alive::default();
    for core in (0..machine.engine.cores()).filter(|core| !machine.engine.is_vacant(*core)) {
        gyre_machine::select_core(core);
        let figures = machine.engine.copy_figures();
        alive.tasks += figures.tasks;
        alive.queued += figures.queued;
        alive.timers += figures.timers;
    }
    alive
}

/// Returns the resources whose scheduler has handled messages of tenants.
pub fn worked(machine: &Machine) -> Vec<Resource> {
    let accounts = machine.engine.accounts();
    let messages = |activity, of| {
        accounts.lines().iter().map(move |line| line.table().cell(activity, id(of)).get(Column::Messages)).sum::<u64>()
    };
    let is_used = |of: &Resource| machine.activities.iter().any(|activity| messages(*activity, *of) > 0);
    Resource::all().filter(|resource| *resource != Resource::Cpu).filter(is_used).collect()
}

/// No cycle of any core is unaccounted for.
///
/// # Panics
/// If one is.
pub fn check_ledger(machine: &Machine) {
    for core in 0..machine.engine.cores() {
        let partition = machine.engine.accounts().line(core).partition();
        assert_eq!(partition.unattributed(), 0, "core {core}: {partition:?}");
    }
}

/// Returns the bytes that each tenant has sent through the gate before the card.
pub fn sent_bytes(machine: &Machine) -> Vec<u64> {
    let (gate, accounts) = (id(Resource::NetworkWrite), machine.engine.accounts());
    let of =
        |activity| accounts.lines().iter().map(move |line| line.table().cell(activity, gate).get(Column::Bytes)).sum();
    machine.activities.iter().map(|activity| of(*activity)).collect()
}

/// The link was divided by weight between two looks at [`sent_bytes`].
///
/// # Panics
/// If a tenant's part is another one.
pub fn check_shares(machine: &Machine, before: &[u64], after: &[u64]) {
    let sent: Vec<u64> = before.iter().zip(after).map(|(before, after)| after - before).collect();
    let weights: Vec<u64> = machine.plan.tenants.iter().map(|tenant| u64::from(tenant.share)).collect();
    let (all, weight) = (sent.iter().sum::<u64>().max(1), weights.iter().sum::<u64>());
    for (sent_by, share) in sent.iter().zip(&weights) {
        let (got, due) = (sent_by * 1000 / all, share * 1000 / weight);
        assert!(got.abs_diff(due) <= SHARE_PER_MILLE, "of the link: {sent:?} bytes for weights {weights:?}");
    }
}

/// A tenant whose files are unmounted holds no memory but the pages that the cache leaves everybody, and those of its file system's tables.
///
/// # Panics
/// If it does.
pub fn check_memory(machine: &Machine, tenant: &Tenant) {
    machine.cache.reclaim(tenant.activity, PAGES_MAX);
    let held = machine.engine.accounts().activities.held_bytes(tenant.activity);
    let bound = ((KEPT_PAGES + TABLE_PAGES_MAX) * PAGE_BYTES) as u64;
    assert!(held <= bound, "tenant {} still holds {held} bytes", tenant.index);
}

/// A tenant's file system has moved its tables for an activity that lives as long as the tenant.
///
/// # Panics
/// If it has not, or that has ended.
pub fn check_tables(machine: &Machine, tenant: &Tenant) {
    let (accounts, gate) = (machine.engine.accounts(), id(Resource::Block));
    let is_mounted = tenant.mounted.borrow().is_some() && accounts.activities.is_alive(tenant.activity);
    let Some(tables) = tenant.tables.get().filter(|_| is_mounted) else {
        return assert!(!is_mounted, "tenant {}: there was a place for its tables", tenant.index);
    };
    let moved: u64 = accounts.lines().iter().map(|line| line.table().cell(tables, gate).get(Column::Bytes)).sum();
    assert!(moved > 0 && accounts.activities.is_alive(tables), "tenant {}: {moved} bytes of tables", tenant.index);
}

/// Nothing is left but what was there before the tenants, and the keepers of their file systems.
///
/// # Panics
/// If something is.
pub fn check_left(machine: &Machine, before: Alive, tenants: &[Rc<Tenant>]) {
    let after = alive(machine);
    let mounted = tenants.iter().filter(|tenant| tenant.mounted.borrow().is_some()).count();
    assert!(after.tasks <= before.tasks + mounted, "{after:?} is left; before the tenants there was {before:?}");
    assert_eq!(after.queued, 0, "messages wait for nobody");
    assert_eq!(after.timers, before.timers, "timers are armed for nobody");
    assert_eq!(tenants.iter().map(|tenant| tenant.open_tasks()).sum::<usize>(), 0, "tasks of tenants");
    assert_eq!(machine.driver.statistics().depth, 0, "requests are at the disk");
}
