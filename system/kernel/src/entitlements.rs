//! The promises of the machine file at single resources, given to the engine's schedulers: reservations, limits, deadlines, other shares.

use crate::base::Base;
use gyre_account::{ActivityId, ResourceId};
use gyre_assembly::grid;
use gyre_contract::catalogue::Resource;
use gyre_contract::policy::{Budget, Entitlement as Promise, Policy};
use gyre_engine::{Engine, Entitlement};
use gyre_schedulers::list::Part;
use gyre_schedulers::{ClientParams, Setup};

/// A limit without a burst allows at once as much as it brings in a hundredth of a second.
const BURST_PARTS: u64 = 100;

/// Gives every tenant and group what the description promises. To be called before anybody works.
pub fn grant(base: &Base) {
    let machine = base.machine;
    for resource in core::iter::once(Resource::Cpu).chain(grid::gates(machine)) {
        let at = grid::id(resource);
        if let Some(known) = machine.resources.iter().find(|known| known.resource == resource) {
            divide(base, at, &known.policy);
        }
        keep_promises(base, resource, at);
    }
}

/// Divides what a policy has for all clients together (the rate of a token bucket) among those it orders, by their shares.
pub fn divide(base: &Base, at: ResourceId, policy: &Policy) {
    let Base { engine, machine, activities: tenants, groups, .. } = *base;
    let listed = policy.outer.listed();
    let Some(divide) = listed.and_then(|listed| listed.divide) else {
        return;
    };
    let values = grid::values(&policy.outer);
    let setup = Setup { values: &values, ..Setup::default() };
    let of_groups = machine.activities.iter().map(|group| (group.parent, group.share)).zip(groups);
    let of_tenants = base.roll.present().filter_map(|(index, tenant)| {
        let at = (tenant.parent, tenant.share);
        Some((at, tenants.get(index)?))
    });
    let at_top = || of_groups.clone().chain(of_tenants.clone()).filter(|((parent, _), _)| parent.is_none());
    let sum: u64 = at_top().map(|((_, share), _)| u64::from(share)).sum();
    for ((_, share), &activity) in at_top() {
        let ClientParams { limit_per_s, burst, .. } = divide(&setup, Part { share: u64::from(share), whole: sum });
        give(engine, activity, at, Entitlement { limit_per_s, burst, ..Entitlement::default() });
    }
}

/// Divides anew at all resources: a tenant has come or gone.
pub fn divide_all(base: &Base) {
    for resource in core::iter::once(Resource::Cpu).chain(grid::gates(base.machine)) {
        if let Some(known) = base.machine.resources.iter().find(|known| known.resource == resource) {
            divide(base, grid::id(resource), &known.policy);
        }
    }
}

fn keep_promises(base: &Base, resource: Resource, at: ResourceId) {
    for (tenant, &activity) in base.machine.tenants.iter().zip(base.activities) {
        for promise in tenant.entitlements.iter().filter(|promise| promise.resource == resource) {
            give(base.engine, activity, at, entitlement(promise));
        }
    }
}

/// Returns what the engine keeps for a promise.
pub fn entitlement(promise: &Promise) -> Entitlement {
    let limit_per_s = promise.limit.map_or(0, grid::per_second);
    let burst = promise.budget.map_or(limit_per_s / BURST_PARTS, amount);
    Entitlement {
        weight: promise.share,
        // In the machine file 0 goes first.
        priority: promise.priority.map(|priority| u8::MAX.saturating_sub(priority)),
        deadline_ns: promise.deadline_ns.unwrap_or(0),
        period_ns: promise.period_ns.unwrap_or(0),
        reservation_per_s: promise.reservation.map_or(0, grid::per_second),
        limit_per_s,
        burst,
    }
}

/// Returns a budget in units of the metric.
fn amount(budget: Budget) -> u64 {
    match budget {
        Budget::Amount(units) => units,
        Budget::Time(ns) => {
            let cycles = u128::from(ns).saturating_mul(u128::from(gyre_machine::cycles_per_ms())) / 1_000_000;
            u64::try_from(cycles).unwrap_or(u64::MAX)
        }
    }
}

fn give(engine: &'static Engine, activity: ActivityId, at: ResourceId, entitlement: Entitlement) {
    if let Err(error) = engine.set_entitlement(activity, Some(at), entitlement) {
        log::error!("an entitlement at {} cannot be given: {error:?}", engine.resource_name(at));
    }
}
