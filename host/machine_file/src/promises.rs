//! Whether what a tenant is promised at a resource can be kept by the policy there.

use super::{
    Problem,
    check::Checker,
    part::Part,
    raw::{self, At},
    words,
};
use gyre_contract::{
    boot::{Machine, Tenant},
    catalogue::Resource,
    policy::{Budget, Choice, Entitlement, Metric, Rate, ResourcePolicy},
};
use gyre_schedulers::{POLICIES, list::Promise};

/// Reports entitlements that no policy would keep.
pub(super) fn check(checker: &mut Checker, machine: &Machine, part: &Part) {
    // The system tenant is not in the file.
    for (tenant, raw) in machine.tenants.iter().skip(1).zip(part.tenants()) {
        for (name, raw) in &raw.entitlement {
            let wanted = Resource::find(name.get_ref());
            if let Some(entitlement) = tenant.entitlements.iter().find(|one| Some(one.resource) == wanted) {
                one(checker, machine, tenant, entitlement, (name, raw));
            }
        }
    }
    cpu_suffices(checker, machine, part);
}

fn one(
    checker: &mut Checker,
    machine: &Machine,
    tenant: &Tenant,
    promised: &Entitlement,
    (name, raw): (&At<String>, &raw::Entitlement),
) {
    let known = machine.resources.iter().find(|policy| policy.resource == promised.resource);
    let metric = known.map_or(promised.resource.usual_metric(), |known| known.metric);
    let usual = Choice::default();
    let policy = known.map_or(&usual, |known| at_level(known, tenant, &usual));
    if promised.resource != Resource::Cpu && metric == Metric::Cycles && *policy == usual {
        let message = format!("`{}` has no scheduler of its own: its cycles are shared at `cpu`", name.get_ref());
        let help = format!(
            "promise it with [tenant.entitlement.cpu], or give the resource another policy or metric with [policy.{}]",
            name.get_ref()
        );
        checker.wrong(Problem::new(name.span(), message, "nobody would keep this").help(help));
        return;
    }
    let kept = policy.listed().map_or(&[][..], |listed| listed.keeps);
    needs(checker, raw.limit.as_ref(), Promise::Limit, kept);
    needs(checker, raw.reservation.as_ref(), Promise::Reservation, kept);
    needs(checker, raw.deadline.as_ref(), Promise::Deadline, kept);
    needs(checker, raw.priority.as_ref(), Promise::Priority, kept);
    needs(checker, raw.period.as_ref(), Promise::Budget, kept);
    needs(checker, raw.budget.as_ref(), Promise::Budget, kept);
    budget_fits(checker, promised, raw);
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

/// A budget and its period come together, and the budget of a core's time fits into the period.
fn budget_fits(checker: &mut Checker, promised: &Entitlement, raw: &raw::Entitlement) {
    match (&raw.period, &raw.budget) {
        (Some(period), None) => {
            checker.wrong(Problem::new(
                period.span(),
                "a period needs a budget",
                "add `budget`, what may be used in each",
            ));
        }
        (None, Some(budget)) => {
            checker.wrong(Problem::new(budget.span(), "a budget needs a period", "add `period`, how often it comes"));
        }
        (Some(_), Some(budget)) => {
            let time = if let Some(Budget::Time(ns)) = promised.budget { ns } else { 0 };
            if time > promised.period_ns.unwrap_or(0) {
                checker.wrong(Problem::new(
                    budget.span(),
                    "the budget is longer than the period",
                    "expected at most `period`",
                ));
            }
        }
        (None, None) => {}
    }
}

/// Returns the policy that orders a tenant among its siblings; of siblings below a group the usual one, if no other is named.
fn at_level<'a>(known: &'a ResourcePolicy, tenant: &Tenant, usual: &'a Choice) -> &'a Choice {
    match tenant.parent {
        None => &known.policy.outer,
        Some(_) => known.policy.inner.as_ref().unwrap_or(usual),
    }
}

fn is_more(low: Rate, high: Rate) -> bool {
    match (low, high) {
        (Rate::PerSecond(low), Rate::PerSecond(high)) | (Rate::CoreThousandths(low), Rate::CoreThousandths(high)) => {
            low > high
        }
        _ => false,
    }
}

/// Reports a promise that the policy there does not keep, with those that do.
fn needs<T>(checker: &mut Checker, value: Option<&At<T>>, promise: Promise, kept: &[Promise]) {
    let Some(value) = value.filter(|_| !kept.contains(&promise)) else {
        return;
    };
    let names: Vec<&str> = POLICIES.iter().filter(|one| one.keeps.contains(&promise)).map(|one| one.name).collect();
    let message = format!("`{}` has no meaning under the policy that stands there", words::promise_key(promise));
    let problem = Problem::new(value.span(), message, "nobody would keep this");
    checker.wrong(problem.help(format!("only the policy {} does: set it with [policy.RESOURCE]", names.join(" or "))));
}

/// Reservations of the processor must fit into it.
fn cpu_suffices(checker: &mut Checker, machine: &Machine, part: &Part) {
    let reserved = |tenant: &Tenant| -> u64 {
        let at_cpu = tenant.entitlements.iter().filter(|one| one.resource == Resource::Cpu);
        at_cpu
            .filter_map(|one| one.reservation)
            .map(|rate| if let Rate::CoreThousandths(parts) = rate { parts } else { 0 })
            .sum()
    };
    let sum: u64 = machine.tenants.iter().map(reserved).sum();
    // The rest is for those that have no reservation, the agent among them, and for the kernel's own work.
    let have = u64::from(machine.cores) * 900;
    let last = part
        .tenants()
        .flat_map(|tenant| &tenant.entitlement)
        .filter(|(name, _)| Resource::find(name.get_ref()) == Some(Resource::Cpu));
    if let Some(text) = last.filter_map(|(_, raw)| raw.reservation.as_ref()).last().filter(|_| sum > have) {
        let message = format!("{} % of a core are reserved together, at most {} % can be", sum / 10, have / 10);
        checker.wrong(Problem::new(text.span(), message, "the last of the reservations"));
    }
}
