//! Whether what a tenant is promised at a resource can be kept by the policy there.

use super::{
    Problem,
    check::Checker,
    raw::{self, At},
};
use crate::{
    boot::{Machine, Tenant},
    policy::{CPU, Entitlement, Metric, Policy, Rate, ResourcePolicy, usual_metric},
};

/// Reports entitlements that nobody would keep.
pub(super) fn check(checker: &mut Checker, machine: &Machine, file: &raw::File) {
    // The system tenant is not in the file.
    for (tenant, raw) in machine.tenants.iter().skip(1).zip(&file.tenant) {
        for (name, raw) in &raw.entitlement {
            let wanted = name.get_ref().replace('-', "_");
            if let Some(entitlement) = tenant.entitlements.iter().find(|one| one.resource == wanted) {
                one(checker, machine, tenant, entitlement, (name, raw));
            }
        }
    }
    cpu_suffices(checker, machine, file);
}

fn one(
    checker: &mut Checker,
    machine: &Machine,
    tenant: &Tenant,
    promised: &Entitlement,
    (name, raw): (&At<String>, &raw::Entitlement),
) {
    let known = machine.resources.iter().find(|policy| policy.resource == promised.resource);
    let metric = known.map_or(usual_metric(&promised.resource), |known| known.metric);
    let policy = known.map_or(&Policy::WeightedFair, |known| at_level(known, tenant));
    if promised.resource != CPU && metric == Metric::Cycles && *policy == Policy::WeightedFair {
        let message = format!("`{}` has no scheduler of its own: its cycles are shared at `cpu`", name.get_ref());
        let help = format!(
            "promise it with [tenant.entitlement.cpu], or give the resource another policy or metric with [policy.{}]",
            name.get_ref()
        );
        checker.wrong(Problem::new(name.span(), message, "nobody would keep this").help(help));
        return;
    }
    let buckets = [("token-bucket", is_bucket(policy)), ("reservation-limit-share", is_reserving(policy))];
    needs(checker, raw.limit.as_ref(), "limit", &buckets);
    needs(checker, raw.reservation.as_ref(), "reservation", &buckets[1..]);
    needs(checker, raw.deadline.as_ref(), "deadline", &[("earliest-deadline", *policy == Policy::EarliestDeadline)]);
    needs(checker, raw.priority.as_ref(), "priority", &[("strict-priority", *policy == Policy::StrictPriority)]);
    for (text, rate) in [(&raw.limit, promised.limit), (&raw.reservation, promised.reservation)] {
        if let (Some(text), Some(Rate::CoreThousandths(_))) = (text, rate)
            && metric != Metric::Cycles
        {
            let problem =
                Problem::new(text.span(), format!("`{}` is a part of a core", text.get_ref()), "not cycles here");
            checker.wrong(problem.help("write an amount per second, such as \"10 Mbit/s\""));
        }
    }
    if let (Some(low), Some(high), Some(text)) = (promised.reservation, promised.limit, &raw.reservation)
        && is_more(low, high)
    {
        checker.wrong(Problem::new(text.span(), "the reservation is above the limit", "more than `limit`"));
    }
}

/// The policy that orders a tenant among its siblings.
fn at_level<'a>(known: &'a ResourcePolicy, tenant: &Tenant) -> &'a Policy {
    match (&known.policy, tenant.parent) {
        (Policy::Nested { outer, .. }, None) => outer,
        (Policy::Nested { inner, .. }, Some(_)) => inner,
        (_, Some(_)) => &Policy::WeightedFair,
        (policy, None) => policy,
    }
}

fn is_bucket(policy: &Policy) -> bool {
    matches!(policy, Policy::TokenBucket { .. })
}

fn is_reserving(policy: &Policy) -> bool {
    matches!(policy, Policy::ReservationLimitShare)
}

fn is_more(low: Rate, high: Rate) -> bool {
    match (low, high) {
        (Rate::PerSecond(low), Rate::PerSecond(high)) | (Rate::CoreThousandths(low), Rate::CoreThousandths(high)) => {
            low > high
        }
        _ => false,
    }
}

/// Reports a promise that only certain policies keep; each with whether it stands there.
fn needs<T>(checker: &mut Checker, value: Option<&At<T>>, key: &str, policies: &[(&str, bool)]) {
    let Some(value) = value.filter(|_| !policies.iter().any(|(_, is_there)| *is_there)) else {
        return;
    };
    let names: Vec<&str> = policies.iter().map(|(name, _)| *name).collect();
    let message = format!("`{key}` has no meaning under the policy that stands there");
    let problem = Problem::new(value.span(), message, "nobody would keep this");
    checker.wrong(problem.help(format!("only the policy {} does: set it with [policy.RESOURCE]", names.join(" or "))));
}

/// Reservations of the processor must fit into it.
fn cpu_suffices(checker: &mut Checker, machine: &Machine, file: &raw::File) {
    let reserved = |tenant: &Tenant| -> u64 {
        let at_cpu = tenant.entitlements.iter().filter(|one| one.resource == CPU);
        at_cpu
            .filter_map(|one| one.reservation)
            .map(|rate| if let Rate::CoreThousandths(parts) = rate { parts } else { 0 })
            .sum()
    };
    let sum: u64 = machine.tenants.iter().map(reserved).sum();
    // The rest is for those that have no reservation, the agent among them, and for the kernel's own work.
    let have = u64::from(machine.cores) * 900;
    let last = file.tenant.iter().flat_map(|tenant| &tenant.entitlement).filter(|(name, _)| name.get_ref() == CPU);
    if let Some(text) = last.filter_map(|(_, raw)| raw.reservation.as_ref()).last().filter(|_| sum > have) {
        let message = format!("{} % of a core are reserved together, at most {} % can be", sum / 10, have / 10);
        checker.wrong(Problem::new(text.span(), message, "the last of the reservations"));
    }
}
