//! The server of the memory resource.
//!
//! A request for room looks for the level that is short: the process's own limit, its tenant's, a group's, or the
//! machine. It then asks the keepers of memory ([`reclaim`]) in rounds, for as much as [`crate::scheduler::victims`]
//! says, until there is room or [`LOOKS`] rounds have found nothing. It keeps no count of holdings: these are in
//! [`gyre_account`].
//!
//! Called by message ([`memory`]), and directly, without waiting, by the file cache ([`Memory::has_room`]) and the
//! assembly (budgets, limits of groups, figures). One short lock guards the budgets; none is held across a wait.

use crate::entitlement::{Group, entitlements_in_groups};
use crate::scheduler::{Claim, victims};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use gyre_account::{Activities, ActivityId, ActivityParams, PayerOf};
use gyre_interface::memory::{Budget, Effort, Figures, MemoryError, memory, reclaim};
use gyre_object::SpinLock;

/// Bytes taken back at once beyond the wanted ones, so that the next page does not ask again: a part of the asker's least limit, since each time
/// costs a flush of other cores.
const BATCH_PARTS: u64 = 64;
/// Least and most of it, bytes.
const BATCH_BYTES: (u64, u64) = (64 << 10, 1 << 20);
/// Looks in a row that find nothing before a request fails: a usual one, at which a keeper may only mark memory that it gives later if it is
/// not used meanwhile, and a thorough one.
const LOOKS: usize = 2;
/// Rounds of one request: each frees something, others may take it meanwhile.
const ROUNDS_MAX: usize = 256;

/// The parts that the memory resource is made of.
pub struct Options {
    /// The holdings of activities.
    pub activities: &'static Activities,
    /// Bytes for all tenants together.
    pub capacity_bytes: u64,
    /// Free bytes from which on the machine is short.
    pub low_bytes: u64,
    /// Free bytes now; takes no lock.
    pub free_bytes: fn() -> u64,
    /// The tenant of an activity.
    pub payer: PayerOf,
    /// Those who keep memory for others, in the order in which they are asked.
    pub providers: Vec<reclaim::Client>,
}

struct Tenant {
    activity: ActivityId,
    budget: Budget,
    entitled_bytes: AtomicU64,
    reclaimed_bytes: AtomicU64,
    requests: AtomicU64,
    failures: AtomicU64,
}

/// The memory resource.
pub struct Memory {
    options: Options,
    /// [`Options::capacity_bytes`] and [`Options::low_bytes`], until they are changed.
    capacity_bytes: AtomicU64,
    low_bytes: AtomicU64,
    tenants: SpinLock<Vec<Tenant>>,
}

/// Returns the sum of all reservations, bytes.
fn reserved(tenants: &[Tenant]) -> u64 {
    tenants.iter().fold(0, |sum, tenant| sum.saturating_add(tenant.budget.reservation_bytes))
}

/// If it is short, and by how much.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Shortage {
    /// At the limit of the process that asks.
    Process(u64),
    /// At the asker's limit, or its tenant's.
    Limit(u64),
    /// At that of a group of tenants.
    Group(ActivityId, u64),
    Machine(u64),
}

impl Memory {
    /// Makes a server for tenants with these budgets.
    pub fn new(options: Options, budgets: impl IntoIterator<Item = (ActivityId, Budget)>) -> Memory {
        let tenant = |(activity, budget)| Tenant {
            activity,
            budget,
            entitled_bytes: AtomicU64::new(0),
            reclaimed_bytes: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            failures: AtomicU64::new(0),
        };
        let memory = Memory {
            capacity_bytes: AtomicU64::new(options.capacity_bytes),
            low_bytes: AtomicU64::new(options.low_bytes),
            options,
            tenants: SpinLock::new(budgets.into_iter().map(tenant).collect()),
        };
        memory.entitle(&memory.tenants.lock());
        memory
    }

    fn entitle(&self, tenants: &[Tenant]) {
        let budgets: Vec<Budget> = tenants.iter().map(|tenant| tenant.budget).collect();
        let entitled =
            entitlements_in_groups(self.capacity_bytes.load(Ordering::Relaxed), &budgets, &self.groups(tenants));
        for (tenant, bytes) in tenants.iter().zip(entitled) {
            tenant.entitled_bytes.store(bytes, Ordering::Relaxed);
        }
    }

    /// Returns the limits above tenants, with their tenants.
    fn groups(&self, tenants: &[Tenant]) -> Vec<Group> {
        let mut groups: BTreeMap<ActivityId, Vec<usize>> = BTreeMap::new();
        for (index, tenant) in tenants.iter().enumerate() {
            self.options.activities.ancestors(tenant.activity).skip(1).for_each(|group| {
                groups.entry(group).or_default().push(index);
            });
        }
        let limit = |group| self.options.activities.params(group).memory_bytes_max;
        groups.into_iter().map(|(group, members)| Group { limit_bytes: limit(group), members }).collect()
    }

    fn is_below(&self, activity: ActivityId, group: ActivityId) -> bool {
        self.options.activities.ancestors(activity).any(|level| level == group)
    }

    /// Returns false if the next page kept for a tenant should take the place of an older one of its own: its limit
    /// is near, or its group or the machine is short and it has all that it is entitled to. For a process with a
    /// limit of its own: false if that is near. Takes one short lock only if one of those is near.
    pub fn has_room(&self, payer: ActivityId) -> bool {
        let activities = self.options.activities;
        let limit = activities.own_limit(payer);
        if payer.is_member() {
            // Before a page is refused it gives one of its own.
            return limit == u64::MAX || self.held_bytes(payer) < near(limit);
        }
        // An eighth stays for memory that cannot wait: the kernel's objects, pages of programs.
        if !activities.holds_less(payer, near(limit)) {
            return false;
        }
        let is_group_near = activities.ancestors(payer).skip(1).any(|group| {
            let limit = activities.params(group).memory_bytes_max;
            limit != u64::MAX && !activities.holds_less(group, near(limit))
        });
        if !is_group_near && (self.options.free_bytes)() >= self.low_bytes.load(Ordering::Relaxed).saturating_mul(2) {
            return true;
        }
        let tenants = self.tenants.lock();
        let own = tenants.iter().find(|tenant| tenant.activity == payer);
        own.is_none_or(|own| activities.holds_less(payer, own.entitled_bytes.load(Ordering::Relaxed)))
    }

    /// Changes how much memory there is; all entitlements follow. Tenants that hold more give at the next request.
    pub fn set_capacity(&self, capacity_bytes: u64, low_bytes: u64) {
        let tenants = self.tenants.lock();
        self.capacity_bytes.store(capacity_bytes, Ordering::Relaxed);
        self.low_bytes.store(low_bytes, Ordering::Relaxed);
        self.entitle(&tenants);
    }

    /// Changes a tenant's limit; a reservation above it shrinks to it, and everybody's entitlement follows.
    pub fn set_limit(&self, activity: ActivityId, limit_bytes: u64) {
        let mut tenants = self.tenants.lock();
        if let Some(tenant) = tenants.iter_mut().find(|tenant| tenant.activity == activity) {
            tenant.budget.limit_bytes = limit_bytes;
            tenant.budget.reservation_bytes = tenant.budget.reservation_bytes.min(limit_bytes);
            self.entitle(&tenants);
        }
    }

    /// Returns whether so many bytes can be reserved beside all reservations that there are.
    pub fn has_room_for(&self, reservation_bytes: u64) -> bool {
        let reserved = reserved(&self.tenants.lock());
        reserved.saturating_add(reservation_bytes) <= self.capacity_bytes.load(Ordering::Relaxed)
    }

    /// Changes a tenant's budget; everybody's entitlement follows.
    ///
    /// # Errors
    /// [`MemoryError::Invalid`] if the reservation is above the limit, or reservations exceed the machine or a group;
    /// [`MemoryError::Unknown`] if there is no such tenant. Nothing changes then.
    pub fn change_budget(&self, activity: ActivityId, budget: Budget) -> Result<(), MemoryError> {
        let mut tenants = self.tenants.lock();
        let now = tenants.iter().find(|tenant| tenant.activity == activity).ok_or(MemoryError::Unknown)?;
        let others = reserved(&tenants).saturating_sub(now.budget.reservation_bytes);
        if budget.reservation_bytes > budget.limit_bytes
            || others.saturating_add(budget.reservation_bytes) > self.capacity_bytes.load(Ordering::Relaxed)
            || !self.fits_groups(&tenants, activity, budget.reservation_bytes)
        {
            return Err(MemoryError::Invalid);
        }
        let tenant = tenants.iter_mut().find(|tenant| tenant.activity == activity).ok_or(MemoryError::Unknown)?;
        tenant.budget = budget;
        self.entitle(&tenants);
        Ok(())
    }

    /// Changes the limit of a group's tenants together; all entitlements follow. A tenant that holds more gives at
    /// the next request.
    ///
    /// # Errors
    /// [`MemoryError::Invalid`] if more is reserved below it, [`MemoryError::Unknown`] if there is no such group.
    pub fn set_group_limit(&self, group: ActivityId, limit_bytes: u64) -> Result<(), MemoryError> {
        let tenants = self.tenants.lock();
        if self.reserved_below(&tenants, group) > limit_bytes {
            return Err(MemoryError::Invalid);
        }
        let activities = self.options.activities;
        let params = ActivityParams { memory_bytes_max: limit_bytes, ..activities.params(group) };
        activities.set_params(group, params).map_err(|_| MemoryError::Unknown)?;
        self.entitle(&tenants);
        Ok(())
    }

    /// Returns the sum of the reservations of a group's tenants, bytes.
    fn reserved_below(&self, tenants: &[Tenant], group: ActivityId) -> u64 {
        let below = tenants.iter().filter(|tenant| self.is_below(tenant.activity, group));
        below.fold(0, |sum, tenant| sum.saturating_add(tenant.budget.reservation_bytes))
    }

    /// Returns whether all groups of a tenant have room for this reservation, besides those of others below them.
    fn fits_groups(&self, tenants: &[Tenant], activity: ActivityId, reservation_bytes: u64) -> bool {
        let own = tenants.iter().find(|tenant| tenant.activity == activity);
        let now = own.map_or(0, |tenant| tenant.budget.reservation_bytes);
        self.options.activities.ancestors(activity).skip(1).all(|group| {
            let others = self.reserved_below(tenants, group).saturating_sub(now);
            others.saturating_add(reservation_bytes) <= self.options.activities.params(group).memory_bytes_max
        })
    }

    /// Returns the figures of a tenant.
    pub fn figures_of(&self, activity: ActivityId) -> Option<Figures> {
        let tenants = self.tenants.lock();
        let tenant = tenants.iter().find(|tenant| tenant.activity == activity)?;
        Some(Figures {
            held_bytes: self.options.activities.held_bytes(activity),
            entitled_bytes: tenant.entitled_bytes.load(Ordering::Relaxed),
            reservation_bytes: tenant.budget.reservation_bytes,
            reclaimed_bytes: tenant.reclaimed_bytes.load(Ordering::Relaxed),
            requests: tenant.requests.load(Ordering::Relaxed),
            failures: tenant.failures.load(Ordering::Relaxed),
        })
    }

    /// Returns the bytes that an activity holds. The count of a process that gave back for others first may be below
    /// zero for a short time.
    fn held_bytes(&self, activity: ActivityId) -> u64 {
        self.options.activities.held_bytes(activity).cast_signed().max(0).cast_unsigned()
    }

    fn shortage(&self, activity: ActivityId, bytes: u64) -> Option<Shortage> {
        let payer = (self.options.payer)(activity);
        let mut is_above = false;
        for level in self.options.activities.ancestors(activity) {
            let limit = self.options.activities.own_limit(level);
            // Without a limit the holdings are not looked up.
            let held = if limit == u64::MAX { 0 } else { self.held_bytes(level) };
            if held.saturating_add(bytes) > limit {
                let short = held.saturating_add(bytes).saturating_sub(limit).max(bytes);
                return Some(match level {
                    process if process.is_member() => Shortage::Process(short),
                    group if is_above => Shortage::Group(group, short),
                    _ => Shortage::Limit(short),
                });
            }
            is_above |= level == payer;
        }
        let free = (self.options.free_bytes)();
        let wanted = self.low_bytes.load(Ordering::Relaxed).saturating_add(bytes);
        (free < wanted).then(|| Shortage::Machine(wanted.saturating_sub(free)))
    }

    /// Returns the claims of all tenants, or of those of a group.
    fn claims(&self, group: Option<ActivityId>) -> Vec<Claim> {
        let is_asked = |tenant: &&Tenant| group.is_none_or(|group| self.is_below(tenant.activity, group));
        let claim = |tenant: &Tenant| Claim {
            activity: tenant.activity,
            held_bytes: self.options.activities.held_bytes(tenant.activity),
            entitled_bytes: tenant.entitled_bytes.load(Ordering::Relaxed),
            share: tenant.budget.share,
        };
        self.tenants.lock().iter().filter(is_asked).map(claim).collect()
    }

    /// Asks the keepers one after another until enough is back.
    async fn take(&'static self, from: ActivityId, bytes: u64, effort: Effort) -> u64 {
        let mut taken = 0;
        for provider in &self.options.providers {
            if taken >= bytes {
                break;
            }
            // A keeper that is gone keeps nothing.
            let given = provider.reclaim(from, bytes.saturating_sub(taken), effort).await.unwrap_or(0);
            taken = u64::saturating_add(taken, given);
        }
        self.count((self.options.payer)(from), |tenant| &tenant.reclaimed_bytes, taken);
        taken
    }

    async fn take_by_schedule(
        &'static self,
        group: Option<ActivityId>,
        asker: ActivityId,
        bytes: u64,
        effort: Effort,
    ) -> u64 {
        let mut taken = 0;
        for (victim, at_most) in victims(&self.claims(group), asker, bytes) {
            if taken >= bytes {
                break;
            }
            let given = self.take(victim, at_most.min(bytes.saturating_sub(taken)), effort).await;
            taken = u64::saturating_add(taken, given);
        }
        taken
    }

    fn count(&self, activity: ActivityId, counter: impl Fn(&Tenant) -> &AtomicU64, amount: u64) {
        if let Some(tenant) = self.tenants.lock().iter().find(|tenant| tenant.activity == activity) {
            counter(tenant).fetch_add(amount, Ordering::Relaxed);
        }
    }

    async fn make_room(&'static self, activity: ActivityId, bytes: u64) -> Result<(), MemoryError> {
        let payer = (self.options.payer)(activity);
        let activities = self.options.activities;
        let batch = batch_bytes(activities.ancestors(activity).map(|level| activities.own_limit(level)).min());
        let mut looks = 0;
        for _ in 0..ROUNDS_MAX {
            let effort = if looks == 0 { Effort::Usual } else { Effort::Thorough };
            let (taken, error) = match self.shortage(activity, bytes) {
                None => return Ok(()),
                Some(Shortage::Process(short)) => {
                    (self.take(activity, short.saturating_add(batch), effort).await, MemoryError::LimitReached)
                }
                Some(Shortage::Limit(short)) => {
                    (self.take(payer, short.saturating_add(batch), effort).await, MemoryError::LimitReached)
                }
                Some(Shortage::Group(group, short)) => (
                    self.take_by_schedule(Some(group), payer, short.saturating_add(batch), effort).await,
                    MemoryError::LimitReached,
                ),
                Some(Shortage::Machine(short)) => (
                    self.take_by_schedule(None, payer, short.saturating_add(batch), effort).await,
                    MemoryError::MachineFull,
                ),
            };
            // Memory that a keeper gave up may still be in use elsewhere: then it is not back, and the next round
            // asks for more.
            looks = if taken == 0 { usize::saturating_add(looks, 1) } else { 0 };
            if looks == LOOKS {
                return if self.shortage(activity, bytes).is_none() { Ok(()) } else { Err(error) };
            }
        }
        Err(MemoryError::LimitReached)
    }
}

impl memory::Server for Memory {
    async fn reserve(&'static self, activity: ActivityId, bytes: u64) -> Result<(), MemoryError> {
        let payer = (self.options.payer)(activity);
        self.count(payer, |tenant| &tenant.requests, 1);
        let made = self.make_room(activity, bytes).await;
        if made.is_err() {
            self.count(payer, |tenant| &tenant.failures, 1);
        }
        made
    }

    async fn take_back(&'static self, activity: ActivityId, bytes: u64) -> Result<u64, MemoryError> {
        Ok(self.take((self.options.payer)(activity), bytes, Effort::Thorough).await)
    }

    async fn set_budget(&'static self, activity: ActivityId, budget: Budget) -> Result<(), MemoryError> {
        self.change_budget(activity, budget)?;
        let mut params = self.options.activities.params(activity);
        params.memory_bytes_max = budget.limit_bytes;
        self.options.activities.set_params(activity, params).map_err(|_| MemoryError::Unknown)
    }

    async fn figures(&'static self, activity: ActivityId) -> Result<Figures, MemoryError> {
        self.figures_of((self.options.payer)(activity)).ok_or(MemoryError::Unknown)
    }
}

/// Returns the bytes that are taken back at once for an activity whose least limit is this one.
fn batch_bytes(limit_bytes: Option<u64>) -> u64 {
    let (least, most) = BATCH_BYTES;
    (limit_bytes.unwrap_or(0) / BATCH_PARTS).clamp(least, most)
}

/// Returns the amount from which on a limit is near: an eighth stays.
fn near(limit: u64) -> u64 {
    limit.saturating_sub(limit / 8)
}

#[cfg(test)]
mod tests;
