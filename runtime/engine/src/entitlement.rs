//! Entitlements: the weights of activities, and exceptions for one scheduler or for all.

use crate::engine::Engine;
use crate::map::Map;
use crate::scheduler::{Entitlements, Gate};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use gyre_account::{Activities, ActivityId};
use gyre_object::SpinLock;
use gyre_schedulers::ClientParams;

/// An entitlement of an activity beyond its share, or in its place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entitlement {
    /// Weight in place of the activity's own.
    pub weight: Option<u32>,
    /// Urgency in place of the activity's own; a larger number goes first.
    pub priority: Option<u8>,
    /// Time from becoming ready to the deadline, ns; 0 = none.
    pub deadline_ns: u64,
    /// Least time between two releases, or between two budgets, ns; 0 = none.
    pub period_ns: u64,
    /// Amount per second that is always granted; 0 = none.
    pub reservation_per_s: u64,
    /// Amount per second never exceeded; 0 = no limit.
    pub limit_per_s: u64,
    /// Amount that may be taken at once on top of the limit; with a period the budget of each.
    pub burst: u64,
}

/// Which scheduler an exception is for: the CPU's, a gate's, or all.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Scope {
    Everywhere,
    At(Gate),
}

/// Parameters that differ from the activity's own.
pub(crate) struct EntitlementTable {
    pub(crate) infrastructure_weight: AtomicU32,
    /// Changes that a scheduler of some core has refused.
    pub(crate) refused: AtomicU64,
    exceptions: SpinLock<Map<(ActivityId, Scope), Entitlement>>,
}

impl EntitlementTable {
    pub(crate) fn new(infrastructure_weight: u32) -> EntitlementTable {
        EntitlementTable {
            infrastructure_weight: infrastructure_weight.max(1).into(),
            refused: AtomicU64::new(0),
            exceptions: SpinLock::new(Map::default()),
        }
    }

    /// Sets an exception, or takes it away; returns the one before.
    pub(crate) fn put(&self, activity: ActivityId, scope: Scope, to: Option<Entitlement>) -> Option<Entitlement> {
        let mut exceptions = self.exceptions.lock();
        match to {
            Some(entitlement) => exceptions.insert((activity, scope), entitlement),
            None => exceptions.remove(&(activity, scope)),
        }
    }

    pub(crate) fn forget(&self, activity: ActivityId) {
        self.exceptions.lock().retain(|(of, _), _| *of != activity);
    }

    /// Returns the limit of an activity at a scheduler, 0 without one.
    pub(crate) fn limit(&self, activity: ActivityId, gate: Gate) -> u64 {
        self.find(activity, gate).map_or(0, |found| found.limit_per_s)
    }

    fn find(&self, activity: ActivityId, gate: Gate) -> Option<Entitlement> {
        let exceptions = self.exceptions.lock();
        let at = exceptions.get(&(activity, Scope::At(gate)));
        at.or_else(|| exceptions.get(&(activity, Scope::Everywhere))).copied()
    }
}

impl Entitlements for Engine {
    fn of(&self, activity: ActivityId, gate: Gate) -> ClientParams {
        if activity == ActivityId::INFRASTRUCTURE {
            let weight = self.entitlements.infrastructure_weight.load(Ordering::Relaxed);
            return ClientParams { priority: u8::MAX, owner: activity.0, ..ClientParams::weighted(weight) };
        }
        let own = self.accounts.activities.params(activity);
        let differs = self.entitlements.find(activity, gate).unwrap_or_default();
        ClientParams {
            weight: differs.weight.unwrap_or(own.weight),
            priority: differs.priority.unwrap_or(own.priority),
            deadline_ns: differs.deadline_ns,
            period_ns: differs.period_ns,
            reservation_per_s: differs.reservation_per_s,
            limit_per_s: differs.limit_per_s,
            burst: differs.burst,
            owner: activity.0,
            ..ClientParams::default()
        }
    }

    fn activities(&self) -> &Activities {
        &self.accounts.activities
    }
}
