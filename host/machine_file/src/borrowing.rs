//! `borrows-from` of a zone: its broker borrows cores of another zone while its service is late.

use gyre_contract::goals::{Borrowing, BrokerPolicy};

use super::{
    Problem,
    check::Checker,
    part::Part,
    raw::{self, At},
    suggest,
};

/// Reads of whom a part's zone borrows; reports what would make it borrow nothing.
pub(super) fn check(checker: &mut Checker, part: &Part<'_>) -> Option<Borrowing> {
    let zone = part.zone?;
    let lender = zone.borrows_from.as_ref()?;
    let problem = lending(part, zone, lender).or_else(|| growing(part, zone, lender)).or_else(|| aiming(part, lender));
    if let Some(problem) = problem {
        checker.wrong(problem);
        return None;
    }
    looking(part, lender).into_iter().for_each(|problem| checker.odd(problem));
    Some(Borrowing { lender: lender.get_ref().clone(), cores: part.cores, cores_max: part.cores_max })
}

/// Returns the problem if the lender is no other zone that lends to this one.
fn lending(part: &Part<'_>, zone: &raw::Zone, lender: &At<String>) -> Option<Problem> {
    let (own, name) = (zone.name.get_ref(), lender.get_ref());
    let others = || part.file.zone.iter().filter(|other| other.name.get_ref() != own);
    let Some(other) = others().find(|other| other.name.get_ref() == name) else {
        let problem = Problem::new(lender.span(), format!("zone `{own}` cannot borrow from `{name}`"), "no other zone");
        return Some(problem.help(suggest::help(name, others().map(|other| other.name.get_ref().as_str()))));
    };
    let lends = other.lends_to.iter().any(|borrower| borrower.get_ref() == own);
    let problem = || {
        let message = format!("zone `{name}` does not lend to `{own}`");
        let problem =
            Problem::new(lender.span(), message, "its owner has not said so").and(other.name.span(), "this zone");
        problem.help(format!("it lends with lends-to = [\"{own}\"]"))
    };
    (!lends).then(problem)
}

/// Returns the problem if the zone has all cores already that it may have.
fn growing(part: &Part<'_>, zone: &raw::Zone, lender: &At<String>) -> Option<Problem> {
    let problem = || {
        let message = format!("zone `{}` cannot have more cores than it begins with", zone.name.get_ref());
        Problem::new(lender.span(), message, "it could borrow none")
            .help(format!("for example cores-max = {}", part.cores + 1))
    };
    (part.cores_max <= part.cores).then(problem)
}

/// Returns the problem if nothing says when it is late.
fn aiming(part: &Part<'_>, lender: &At<String>) -> Option<Problem> {
    let has_response = |goal: &raw::Goal| [&goal.p50, &goal.p90, &goal.p95, &goal.p99].iter().any(|one| one.is_some());
    let aims =
        part.tenants().filter(|tenant| tenant.goal.as_ref().is_some_and(|goal| has_response(goal.get_ref()))).count();
    let problem = || {
        let message = format!("{aims} tenants of the zone have a response time as their goal");
        let problem = Problem::new(lender.span(), message, "expected one: it says when a core is wanted");
        problem.help("for example [tenant.goal] with p99 = \"200 ms\"")
    };
    (aims != 1).then(problem)
}

/// Returns what is odd if nobody looks.
fn looking(part: &Part<'_>, lender: &At<String>) -> Option<Problem> {
    let policy = part.file.broker.policy.as_ref()?;
    let problem = || {
        let message = format!("the policy `{}` borrows no cores", policy.get_ref());
        let problem = Problem::new(policy.span(), message, "of [broker]").and(lender.span(), "the zone that borrows");
        problem.help(
            "take policy = \"threshold\", or leave it out; `gyre broker --zone ZONE --policy threshold` begins later",
        )
    };
    (policy.get_ref() != BrokerPolicy::Threshold.name()).then(problem)
}
