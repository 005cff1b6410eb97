//! The schedulers of the resources.

use std::collections::BTreeMap;

use super::{
    Problem,
    check::Checker,
    raw::{self, At},
    suggest, units, words,
};
use crate::policy::{Metric, Policy, RESOURCES, Rate, ResourcePolicy, counts, usual_cores, usual_metric};

/// Names of the policies in the machine file.
const POLICIES: &[(&str, Name)] = &[
    ("weighted-fair", Name::WeightedFair),
    ("worst-case-fair", Name::WorstCaseFair),
    ("round-robin", Name::RoundRobin),
    ("strict-priority", Name::StrictPriority),
    ("earliest-deadline", Name::EarliestDeadline),
    ("token-bucket", Name::TokenBucket),
    ("reservation-limit-share", Name::ReservationLimitShare),
];

/// Names of the metrics in the machine file.
pub(super) const METRICS: &[(&str, Metric)] = &[
    ("cycles", Metric::Cycles),
    ("bytes", Metric::Bytes),
    ("messages", Metric::Messages),
    ("device-time", Metric::DeviceTime),
];

/// Shorter names, as papers have them.
const SHORT: &[(&str, &str)] = &[
    ("wfq", "weighted-fair"),
    ("wf2q+", "worst-case-fair"),
    ("wf2q", "worst-case-fair"),
    ("rr", "round-robin"),
    ("priority", "strict-priority"),
    ("edf", "earliest-deadline"),
    ("mclock", "reservation-limit-share"),
];

/// The policy of a name, for a machine that runs: `inner` orders the activities below the one that it chooses.
///
/// # Errors
/// What is wrong, and advice.
pub fn policy_by_name(
    name: &str,
    inner: Option<&str>,
    rate: Option<Rate>,
    burst: Option<u64>,
) -> Result<Policy, (String, String)> {
    let names = [Some(find(name)?), inner.map(find).transpose()?];
    let is_bucket = names.contains(&Some(Name::TokenBucket));
    if is_bucket != rate.is_some() || burst.is_some() && !is_bucket {
        let help = "for example: policy token-bucket rate \"10 Mbit/s\"".to_owned();
        return Err(("a token bucket, and no other policy, needs a rate".into(), help));
    }
    let make = |name| build(name, rate.unwrap_or(Rate::PerSecond(0)), burst.unwrap_or(0));
    Ok(match names {
        [Some(outer), Some(inner)] => Policy::Nested { outer: Box::new(make(outer)), inner: Box::new(make(inner)) },
        [outer, _] => make(outer.unwrap_or(Name::WeightedFair)),
    })
}

fn find(name: &str) -> Result<Name, (String, String)> {
    let wanted = name.to_lowercase().replace('_', "-");
    let wanted = SHORT.iter().find(|(short, _)| *short == wanted).map_or(wanted.as_str(), |(_, long)| *long);
    let found = POLICIES.iter().find(|(known, _)| *known == wanted).map(|(_, name)| *name);
    let help = || suggest::help(name, POLICIES.iter().map(|(known, _)| *known));
    found.ok_or_else(|| (format!("there is no policy `{name}`"), help()))
}

#[derive(Clone, Copy, PartialEq)]
enum Name {
    WeightedFair,
    WorstCaseFair,
    RoundRobin,
    StrictPriority,
    EarliestDeadline,
    TokenBucket,
    ReservationLimitShare,
}

pub(super) fn check(checker: &mut Checker, all: &BTreeMap<At<String>, raw::Policy>, cores: u16) -> Vec<ResourcePolicy> {
    all.iter().filter_map(|(name, policy)| one(checker, name, policy, cores)).collect()
}

fn one(checker: &mut Checker, name: &At<String>, raw: &raw::Policy, cores: u16) -> Option<ResourcePolicy> {
    let resource = resource(checker, name);
    let policy = policy(checker, name, raw);
    let metric = raw.metric.as_ref().and_then(|text| checker.name(text, "metric", METRICS));
    let metric = metric.unwrap_or_else(|| usual_metric(&name.get_ref().replace('-', "_")));
    check_counted(checker, resource.as_deref(), metric, raw);
    check_rate(checker, metric, raw);
    Some(ResourcePolicy {
        policy,
        metric,
        batch: checker.number(raw.batch.as_ref(), "the batching factor", 1, 1024, 1) as u16,
        cores: raw.cores.as_ref().map_or_else(|| usual_cores(metric, cores), |list| core_set(checker, list, cores)),
        priority: checker.number(raw.priority.as_ref(), "the priority", 0, 255, 0) as u8,
        queue_depth: checker.number(raw.queue_depth.as_ref(), "the queue depth", 1, 65536, 256) as u32,
        resource: resource?,
    })
}

/// A metric that the resource does not tell would be kept by nobody.
fn check_counted(checker: &mut Checker, resource: Option<&str>, metric: Metric, raw: &raw::Policy) {
    let (Some(resource), Some(asked)) = (resource, &raw.metric) else {
        return;
    };
    if !counts(resource, metric) {
        let message = format!("`{}` does not count {}", resource.replace('_', "-"), asked.get_ref());
        let problem = Problem::new(asked.span(), message, "nobody would keep this");
        let help = RESOURCES.iter().filter(|known| counts(known, metric)).map(|known| known.replace('_', "-"));
        checker.wrong(problem.help(format!("{} do", help.collect::<Vec<_>>().join(", "))));
    }
}

/// A rate of bytes bounds bytes, a percentage cycles: of another metric it would bound something else than was meant.
fn check_rate(checker: &mut Checker, metric: Metric, raw: &raw::Policy) {
    let Some(rate) = &raw.rate else { return };
    let meant = match rate.get_ref() {
        text if units::bits_per_second(text).is_ok() => Metric::Bytes,
        text if units::percent(text).is_ok() => Metric::Cycles,
        _ => return,
    };
    if meant != metric {
        let message = format!("a rate of {} does not bound {}", words::metric(meant), words::metric(metric));
        let problem = Problem::new(rate.span(), message, "another metric is divided here");
        checker.wrong(
            problem.help(format!("add `metric = \"{}\"`, or write a rate such as \"1000 /s\"", words::metric(meant))),
        );
    }
}

/// Finds a resource by its name in the machine file.
pub(super) fn resource(checker: &mut Checker, name: &At<String>) -> Option<String> {
    let wanted = name.get_ref().replace('-', "_");
    if RESOURCES.contains(&wanted.as_str()) {
        return Some(wanted);
    }
    let help = suggest::help(name.get_ref(), RESOURCES.iter().copied()).replace('_', "-");
    let message = format!("there is no resource `{}`", name.get_ref());
    checker.wrong(Problem::new(name.span(), message, "unknown resource").help(help));
    None
}

fn policy(checker: &mut Checker, name: &At<String>, raw: &raw::Policy) -> Policy {
    let outer = raw.policy.as_ref().and_then(|text| checker.name(text, "policy", POLICIES));
    let inner = raw.inner.as_ref().and_then(|text| checker.name(text, "policy", POLICIES));
    let bucket = [outer, inner].contains(&Some(Name::TokenBucket));
    for (key, value) in [("rate", &raw.rate), ("burst", &raw.burst)] {
        if let Some(value) = value.as_ref().filter(|_| !bucket) {
            let problem = Problem::new(value.span(), format!("`{key}` has no meaning here"), "not a token bucket");
            checker.wrong(problem.help("only the policy \"token-bucket\" has it"));
        }
    }
    if bucket && raw.rate.is_none() {
        let problem = Problem::new(name.span(), "a token bucket needs a rate", "add `rate = \"...\"`");
        checker.wrong(problem.help("for example rate = \"10 Mbit/s\" with metric = \"bytes\""));
    }
    let rate = checker.unit(raw.rate.as_ref(), Rate::PerSecond(0), units::rate);
    let burst = checker.unit(raw.burst.as_ref(), 0, units::bytes);
    let make = |name| build(name, rate, burst);
    let outer = make(outer.unwrap_or(Name::WeightedFair));
    match inner {
        Some(inner) => Policy::Nested { outer: Box::new(outer), inner: Box::new(make(inner)) },
        None => outer,
    }
}

fn build(name: Name, rate: Rate, burst: u64) -> Policy {
    match name {
        Name::WeightedFair => Policy::WeightedFair,
        Name::WorstCaseFair => Policy::WorstCaseFair,
        Name::RoundRobin => Policy::RoundRobin,
        Name::StrictPriority => Policy::StrictPriority,
        Name::EarliestDeadline => Policy::EarliestDeadline,
        Name::TokenBucket => Policy::TokenBucket { rate, burst },
        Name::ReservationLimitShare => Policy::ReservationLimitShare,
    }
}

fn core_set(checker: &mut Checker, list: &At<Vec<At<i64>>>, cores: u16) -> u64 {
    if list.get_ref().is_empty() {
        checker.wrong(Problem::new(list.span(), "a resource needs at least one core", "empty"));
    }
    let last = i64::from(cores) - 1;
    list.get_ref().iter().fold(0, |set, core| {
        let core = checker.number(Some(core), "a core of this machine", 0, last, 0);
        set | 1 << core
    })
}
