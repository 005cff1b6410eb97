//! Fairness over all cores: each core serves the tenant that has had least of the whole machine, and threads move to cores on which their weight is missing.
//!
//! Every millisecond a core publishes what each top-level activity used on it, of the CPU and at each gate, and charges its own policies
//! with what the others published (`charge_elsewhere`). That makes shares exact for any placement that can hold them: a tenant that has both its
//! threads here and none there is served here until the sum is right. If a placement cannot hold the shares (the only tenant of a
//! core would get all of it), a waiting thread moves: a thread counts for what its tenant is entitled to (reservation, share, limit) divided
//! by the tenant's threads that want a core, and the cores' sums of these are kept about equal.
//!
//! Only cores that are online count, and only they are moved to; those that a process keeps are left out.

use crate::engine::{COMPUTE, Engine};
use crate::limits::BALANCE_NS;
use crate::scheduler::{Entitlements, Scheduler};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use gyre_account::limits::ACTIVITIES_MAX;
use gyre_account::{ActivityId, ResourceId};
use gyre_machine::{CORES_MAX, core_index};
use gyre_schedulers::ClientParams;

/// A core that idled more than one part in so many balances seldom,
const IDLE_PARTS: u64 = 4;
/// once in so many periods.
const IDLE_PERIODS: u64 = 8;

/// Parts of a core: enough that a small weight divided among thousands of threads is not 0.
const PARTS: u64 = 1 << 20;

/// A move must improve on the busier core by more than one part in so many of an average core.
const GAIN_PARTS: u64 = 16;

/// Use of top-level activities at a scheduler, `[core][activity]`, each written by its core only.
struct Table {
    by_core: Box<[Box<[AtomicU64]>]>,
}

impl Table {
    fn new(cores: usize) -> Table {
        let row = || (0..ACTIVITIES_MAX).map(|_| AtomicU64::new(0)).collect();
        Table { by_core: (0..cores).map(|_| row()).collect() }
    }

    /// Publishes what `root` used on `here`; returns what it used on the other cores.
    fn exchange(&self, here: usize, root: ActivityId, used: u64) -> u64 {
        let cells = self.by_core.iter().enumerate().filter_map(|(core, row)| Some((core, row.get(root.index())?)));
        let mut elsewhere = 0u64;
        for (core, cell) in cells {
            match core == here {
                true => cell.store(used, Ordering::Relaxed),
                false => elsewhere = elsewhere.wrapping_add(cell.load(Ordering::Relaxed)),
            }
        }
        elsewhere
    }
}

/// Use at the CPU's scheduler and at each gate's.
pub(crate) struct Served {
    cpu: Table,
    /// By resource; none for those that are no gates.
    gates: Vec<Option<Table>>,
}

impl Served {
    pub(crate) fn new(cores: usize, is_gate: impl Iterator<Item = bool>) -> Served {
        let gates = is_gate.map(|is_gate| is_gate.then(|| Table::new(cores))).collect();
        Served { cpu: Table::new(cores), gates }
    }

    /// Tells the other cores what a core's scheduler gave to whom, and that scheduler what the others gave.
    fn balance(&self, here: usize, scheduler: &mut Scheduler, now_ns: u64) {
        let table = match scheduler.gate() {
            None => Some(&self.cpu),
            Some(gate) => self.gates.get(gate.index()).and_then(Option::as_ref),
        };
        let Some(table) = table else {
            return;
        };
        for position in 0..scheduler.roots().len() {
            let Some(root) = scheduler.roots().get(position).map(|root| root.activity) else {
                return;
            };
            let used = scheduler.used(root);
            let elsewhere = table.exchange(here, root, used);
            scheduler.learn_elsewhere(position, elsewhere, now_ns);
        }
    }
}

impl Engine {
    /// Balances if it is time to. Cheap if it is not.
    #[inline]
    pub(crate) fn balance_when_due(&'static self, now: u64) {
        let hot = self.hot.here();
        if self.cores > 1 && now >= hot.balance_at.get() {
            hot.balance_at.set(now.saturating_add(self.balance_cycles * self.balance_periods(now)));
            self.balance(now);
            self.spread_threads(now);
            self.watch_when_due(now);
        }
    }

    /// Returns how long it is until the next time. A core that idles has something to give to all: no tenant waits for the use of others.
    fn balance_periods(&self, now: u64) -> u64 {
        let (hot, (_, idle)) = (self.hot.here(), self.line().partition_quick());
        let (before, idle_before) = hot.balanced.replace((now, idle));
        let elapsed = now.saturating_sub(before);
        if idle.saturating_sub(idle_before) > elapsed / IDLE_PARTS { IDLE_PERIODS } else { 1 }
    }

    fn balance(&self, now: u64) {
        let (here, now_ns) = (core_index(), self.ns(now));
        let mut state = self.state.here().borrow_mut();
        let state = &mut *state;
        let is_shared = |gate: ResourceId| self.resources.get(gate.index()).is_some_and(|known| known.is_on_several());
        for scheduler in core::iter::once(&mut state.cpu).chain(state.gates.iter_mut().flatten()) {
            if scheduler.gate().is_none_or(is_shared) {
                self.served.balance(here, scheduler, now_ns);
            }
        }
    }

    /// Sends one thread that waits here to the core on which its weight is missing most, if that helps.
    fn spread_threads(&'static self, now: u64) {
        let here = core_index();
        if self.threads.queued_since(here, now.saturating_sub(self.granularity_cycles)) == 0 {
            return;
        }
        let Some(loads) = self.thread_loads() else {
            return;
        };
        let allowed = self.resources.get(COMPUTE.index()).map_or(0, |compute| compute.cores());
        let allowed = allowed & self.open_cores();
        let others = self.online().filter(|&core| core != here && allowed >> core & 1 == 1);
        let Some(to) = others.min_by_key(|&core| loads.of_core(core)) else {
            return;
        };
        for root in loads.moves(here, to) {
            if let Some(traveller) = self.take_movable(to, Some(root)) {
                self.settle(to, traveller);
                return;
            }
        }
    }

    /// Returns the load of each core, in parts of a core. Nothing if memory is short.
    fn thread_loads(&self) -> Option<Loads> {
        let mut wanting: Vec<(ActivityId, ClientParams, u64)> = Vec::new();
        let roots = self.threads.roots();
        wanting.try_reserve(roots.len()).ok()?;
        let (online, cores) = (self.open_cores(), self.open_cores().count_ones() as usize);
        let threads = |root| self.present().map(|core| u64::from(self.threads.active(root, core))).sum::<u64>();
        let all = roots.into_iter().map(|root| (root, self.of(root, None), threads(root)));
        wanting.extend(all.filter(|(_, _, threads)| *threads > 0));
        let mut loads = Loads { by_core: [0; CORES_MAX], cores, parts: Vec::new() };
        loads.parts.try_reserve(wanting.len()).ok()?;
        let reserved: u64 = wanting.iter().map(|(_, params, _)| self.parts_of_core(params.reservation_per_s)).sum();
        let shared = (cores as u64 * PARTS).saturating_sub(reserved);
        let weights: u64 = wanting.iter().map(|(_, params, _)| u64::from(params.weight)).sum();
        for (root, params, threads) in wanting {
            let by_weight = shared * u64::from(params.weight) / weights.max(1);
            let most = if params.limit_per_s == 0 { u64::MAX } else { self.parts_of_core(params.limit_per_s) };
            let part = (self.parts_of_core(params.reservation_per_s) + by_weight).min(most) / threads;
            for (core, load) in loads.by_core.iter_mut().enumerate().filter(|(core, _)| online >> core & 1 == 1) {
                *load += part * u64::from(self.threads.active(root, core));
            }
            loads.parts.push((root, part));
        }
        Some(loads)
    }

    /// Turns cycles per second into parts of a core, at most all cores.
    fn parts_of_core(&self, cycles_per_s: u64) -> u64 {
        let core = u128::from(self.balance_cycles.max(1)) * u128::from(1_000_000_000 / BALANCE_NS);
        let parts = u128::from(cycles_per_s) * u128::from(PARTS) / core;
        parts.min(u128::from(PARTS) * self.cores as u128) as u64
    }
}

/// Entitlements of the activities that want each core.
struct Loads {
    by_core: [u64; CORES_MAX],
    cores: usize,
    /// The weight of one thread of each tenant.
    parts: Vec<(ActivityId, u64)>,
}

impl Loads {
    fn of_core(&self, core: usize) -> u64 {
        self.by_core.get(core).copied().unwrap_or(0)
    }

    /// Activities of which a thread may go from one core to another, the best move first: those that leave the busier of the two with less.
    fn moves(self, from: usize, to: usize) -> impl Iterator<Item = ActivityId> {
        let (here, there) = (self.of_core(from), self.of_core(to));
        let gain = self.by_core.iter().sum::<u64>() / self.cores.max(1) as u64 / GAIN_PARTS;
        let mut parts = self.parts;
        let busier = move |part: u64| here.saturating_sub(part).max(there + part);
        parts.retain(|&(_, part)| part > 0 && busier(part) < here.saturating_sub(gain));
        parts.sort_unstable_by_key(|&(_, part)| busier(part));
        parts.into_iter().map(|(root, _)| root)
    }
}
