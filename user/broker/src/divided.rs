//! The resources that the broker divides, as the machine names, counts and promises them.

use gyre_broker::{
    Resource, ResourceSet,
    resource::{Parts, RESOURCES},
};
use gyre_contract::{
    catalogue,
    goals::{Divides, Goals, TenantGoal},
    policy::{Entitlement, Rate},
};

use crate::measure::Measured;

/// Returns what the broker divides on a machine: the link only if its owner says so and its rate is known.
pub fn of(goals: &Goals) -> ResourceSet {
    match goals.broker.divides {
        Divides::CpuAndLink if goals.link_bytes_per_s > 0 => ResourceSet::of(&[Resource::Cpu, Resource::Link]),
        Divides::CpuAndLink | Divides::Cpu => ResourceSet::of(&[Resource::Cpu]),
    }
}

/// Returns the machine's name of a resource at which promises are made; only the processor and the link are divided.
pub fn named(resource: Resource) -> catalogue::Resource {
    match resource {
        Resource::Link => catalogue::Resource::NetworkWrite,
        _ => catalogue::Resource::Cpu,
    }
}

/// Returns a number for each resource; 0 for those that are not divided.
pub fn parts(divided: ResourceSet, of: impl Fn(Resource) -> f64) -> Parts {
    let mut parts = [0.0; RESOURCES];
    divided.iter().for_each(|resource| parts[resource.index()] = of(resource));
    parts
}

/// Returns the amount of a resource that a tenant used: cycles, or bytes.
pub fn used(measured: &Measured, resource: Resource) -> f64 {
    match resource {
        Resource::Link => measured.link_bytes as f64,
        _ => measured.cycles as f64,
    }
}

/// Returns the amount of a resource that the machine has in a second.
pub fn per_second(goals: &Goals, resource: Resource) -> f64 {
    match resource {
        Resource::Link => goals.link_bytes_per_s as f64,
        _ => f64::from(goals.cores) * goals.cycles_per_second as f64,
    }
}

/// Returns the owner's weight of a tenant.
pub fn share(tenant: &TenantGoal, resource: Resource) -> u32 {
    match resource {
        Resource::Link if tenant.link_share > 0 => tenant.link_share,
        _ => tenant.share,
    }
}

/// Returns the weight that holds for a tenant.
pub fn weight(tenant: &TenantGoal, resource: Resource) -> u32 {
    promise(tenant, resource).and_then(|promise| promise.share).unwrap_or_else(|| share(tenant, resource))
}

/// Returns the part of the machine that a tenant may have at most.
pub fn limit(tenant: &TenantGoal, goals: &Goals, resource: Resource) -> f64 {
    let cores = f64::from(goals.cores.max(1));
    match promise(tenant, resource).and_then(|promise| promise.limit) {
        None => 1.0,
        Some(Rate::CoreThousandths(parts)) => (parts as f64 / 1e3 / cores).min(1.0),
        Some(Rate::PerSecond(units)) => (units as f64 / per_second(goals, resource).max(1.0)).min(1.0),
    }
}

fn promise(tenant: &TenantGoal, resource: Resource) -> Option<&Entitlement> {
    match resource {
        Resource::Link => tenant.at_link.as_ref(),
        _ => tenant.at_cpu.as_ref(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_link_is_divided_only_if_its_rate_is_known_and_the_owner_wants_it() {
        let mut goals = Goals::default();
        for (divides, rate, count) in
            [(Divides::Cpu, 1, 1), (Divides::CpuAndLink, 0, 1), (Divides::CpuAndLink, 1_000, 2)]
        {
            (goals.broker.divides, goals.link_bytes_per_s) = (divides, rate);
            assert_eq!(of(&goals).count(), count, "{divides:?} {rate}");
        }
    }

    #[test]
    fn a_limit_is_a_part_of_what_the_machine_has() {
        let goals = Goals { cores: 2, cycles_per_second: 1_000, link_bytes_per_s: 4_000, ..Goals::default() };
        let promise = |resource, rate| Some(Entitlement { limit: Some(rate), ..Entitlement::none(resource) });
        let tenant = TenantGoal {
            at_cpu: promise(catalogue::Resource::Cpu, Rate::CoreThousandths(500)),
            at_link: promise(catalogue::Resource::NetworkWrite, Rate::PerSecond(1_000)),
            ..TenantGoal::default()
        };
        let limit = |resource| limit(&tenant, &goals, resource);
        assert_eq!((limit(Resource::Cpu), limit(Resource::Link)), (0.25, 0.25));
    }
}
