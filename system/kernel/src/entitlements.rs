//! What the machine file promises at single resources, given to the engine's schedulers: reservations, limits, deadlines, other shares.

use crate::assembly::System;
use gyre_account::{ActivityId, ResourceId};
use gyre_assembly::grid;
use gyre_config::policy::{CPU, Entitlement as Promise, Policy, Rate};
use gyre_engine::{COMPUTE, Engine, Entitlement};

/// What a limit without a burst brings in so long may be taken at once: a hundredth of a second.
const BURST_PARTS: u64 = 100;

/// Gives every tenant and group what the description promises. To be called before anybody works.
pub fn grant(system: &System) {
    let System { engine, machine, .. } = *system;
    for resource in core::iter::once(CPU).chain(grid::gates(machine)) {
        let at = match resource {
            CPU => Some(COMPUTE),
            name => engine.resource(name),
        };
        let Some(at) = at else { continue };
        if let Some(known) = machine.resources.iter().find(|known| known.resource == resource) {
            divide(system, at, &known.policy);
        }
        keep_promises(system, resource, at);
    }
}

/// Divides the rate of a token bucket among those it orders, by their shares. Other policies have none.
pub fn divide(system: &System, at: ResourceId, policy: &Policy) {
    let System { engine, machine, activities: tenants, groups, .. } = *system;
    let top = match policy {
        Policy::Nested { outer, .. } => outer,
        policy => policy,
    };
    let Policy::TokenBucket { rate, burst } = top else {
        return;
    };
    let of_groups = machine.activities.iter().map(|group| (group.parent, group.share)).zip(groups);
    let of_tenants = machine.tenants.iter().map(|tenant| (tenant.parent, tenant.share)).zip(tenants);
    let at_top = || of_groups.clone().chain(of_tenants.clone()).filter(|((parent, _), _)| parent.is_none());
    let sum: u64 = at_top().map(|((_, share), _)| u64::from(share)).sum();
    for ((_, share), &activity) in at_top() {
        let part = |amount: u64| {
            (u128::from(amount).saturating_mul(u128::from(share)).checked_div(u128::from(sum)).unwrap_or(0)) as u64
        };
        let limit_per_s = part(per_second(*rate)).max(1);
        let burst = if *burst == 0 { limit_per_s / BURST_PARTS } else { part(*burst) };
        give(engine, activity, at, Entitlement { limit_per_s, burst, ..Entitlement::default() });
    }
}

fn keep_promises(system: &System, resource: &str, at: ResourceId) {
    for (tenant, &activity) in system.machine.tenants.iter().zip(system.activities) {
        for promise in tenant.entitlements.iter().filter(|promise| promise.resource == resource) {
            give(system.engine, activity, at, entitlement(promise));
        }
    }
}

fn entitlement(promise: &Promise) -> Entitlement {
    let limit_per_s = promise.limit.map_or(0, per_second);
    Entitlement {
        weight: promise.share,
        // In the machine file 0 goes first.
        priority: promise.priority.map(|priority| u8::MAX.saturating_sub(priority)),
        deadline_ns: promise.deadline_ns.unwrap_or(0),
        reservation_per_s: promise.reservation.map_or(0, per_second),
        limit_per_s,
        burst: limit_per_s / BURST_PARTS,
    }
}

/// Units of the metric per second.
fn per_second(rate: Rate) -> u64 {
    match rate {
        Rate::PerSecond(units) => units,
        // Thousandths of a core's cycles per second are cycles per millisecond.
        Rate::CoreThousandths(parts) => parts.saturating_mul(gyre_machine::cycles_per_ms()),
    }
}

fn give(engine: &'static Engine, activity: ActivityId, at: ResourceId, entitlement: Entitlement) {
    if let Err(error) = engine.set_entitlement(activity, Some(at), entitlement) {
        log::error!("an entitlement at {} cannot be given: {error:?}", engine.resource_name(at));
    }
}
