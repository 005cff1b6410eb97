//! The schedulers of the resources: from `[policy.NAME]` in the machine file, or from the words of `gyre set`, to a
//! [`Policy`].
//!
//! * The policies, with their parameters, units, bounds and defaults, are those of `schedulers/src/list.rs`. A new
//!   policy needs no line here.
//! * A policy has up to two levels: `outer` orders activities, `inner` those below the chosen one. A parameter belongs
//!   to the level that knows it; one that neither knows is an error, as is a missing one without a default.
//! * A metric is refused if its resource does not count it. A rate that bounds another metric than the one that is
//!   divided is refused too.
//!
//! Protocol of use: [`check`] for a file, which reports through the checker; [`policy_by_name`] for a machine that
//! runs, which answers one error with advice.

use std::collections::BTreeMap;

use super::{
    Problem,
    check::Checker,
    raw::{self, At},
    suggest, units, words,
};
use gyre_contract::catalogue::{Resource, usual_cores};
use gyre_contract::policy::{Choice, Metric, Policy, Rate, ResourcePolicy, Setting, Value};
use gyre_schedulers::{
    Listed, POLICIES,
    list::{self, Fallback, Parameter, Unit},
};

/// Names of the metrics in the machine file.
pub(super) const METRICS: &[(&str, Metric)] = &[
    ("cycles", Metric::Cycles),
    ("bytes", Metric::Bytes),
    ("messages", Metric::Messages),
    ("device-time", Metric::DeviceTime),
];

/// Returns the names of all parameters that a policy of the list has.
#[must_use]
pub fn parameters() -> Vec<&'static str> {
    POLICIES.iter().flat_map(|listed| listed.parameters).map(|parameter| parameter.name).collect()
}

/// Returns the policy of a name, for a machine that runs: `inner` orders the activities below the one that it chooses; each parameter with
/// its value as text.
///
/// # Errors
/// The errors, and advice.
pub fn policy_by_name(name: &str, inner: Option<&str>, given: &[(&str, &str)]) -> Result<Policy, (String, String)> {
    let levels = Levels { outer: find(name)?, inner: inner.map(find).transpose()? };
    for (key, value) in given {
        let parameter = levels.parameter(key).ok_or_else(|| (no_meaning(key), who_has(key)))?;
        read_value(parameter, value).map_err(|expected| (format!("`{value}` makes no sense as {key}"), expected))?;
    }
    if let Some((listed, parameter, example)) = levels.missing(|key| given.iter().any(|(name, _)| *name == key)) {
        let help = format!("for example: policy {} {} \"{example}\"", listed.name, parameter.name);
        return Err((format!("the policy {} needs a {}", listed.name, parameter.name), help));
    }
    Ok(levels.policy(|parameter| {
        let given = given.iter().find(|(name, _)| *name == parameter.name);
        given.and_then(|(_, value)| read_value(parameter, value).ok())
    }))
}

/// Finds a policy by its name or a shorter one, with `-` and `_` alike.
fn find(name: &str) -> Result<&'static Listed, (String, String)> {
    let found = list::find(&name.to_lowercase().replace('_', "-"));
    let help = || suggest::help(name, POLICIES.iter().map(|known| known.name));
    found.ok_or_else(|| (format!("there is no policy `{name}`"), help()))
}

/// The policies of a resource.
struct Levels {
    outer: &'static Listed,
    inner: Option<&'static Listed>,
}

impl Levels {
    fn each(&self) -> impl Iterator<Item = &'static Listed> {
        [Some(self.outer), self.inner].into_iter().flatten()
    }

    /// Finds a parameter that one of the levels has.
    fn parameter(&self, name: &str) -> Option<&'static Parameter> {
        self.each().flat_map(|listed| listed.parameters).find(|parameter| parameter.name == name)
    }

    /// Finds a parameter that must be given and is not, with an example of it.
    fn missing(&self, is_given: impl Fn(&str) -> bool) -> Option<(&'static Listed, &'static Parameter, &'static str)> {
        let all = self.each().flat_map(|listed| listed.parameters.iter().map(move |parameter| (listed, parameter)));
        let mut required = all.filter_map(|(listed, parameter)| match parameter.default {
            Fallback::Required(example) => Some((listed, parameter, example)),
            Fallback::Value(..) => None,
        });
        required.find(|(_, parameter, _)| !is_given(parameter.name))
    }

    fn policy(&self, value: impl Fn(&Parameter) -> Option<Value>) -> Policy {
        let choice = |listed: &'static Listed| {
            let setting =
                |parameter: &Parameter| Some(Setting { parameter: parameter.name.into(), value: value(parameter)? });
            Choice { settings: listed.parameters.iter().filter_map(setting).collect(), ..Choice::of(listed) }
        };
        Policy { outer: choice(self.outer), inner: self.inner.map(choice) }
    }
}

/// Reads a parameter as it is written in a machine file or on a command line.
///
/// # Errors
/// The expectation, in words.
fn read_value(parameter: &Parameter, text: &str) -> Result<Value, String> {
    let value = match parameter.unit {
        Unit::Rate => units::rate(text).map(Value::Rate)?,
        Unit::Amount => units::bytes(text).map(Value::Plain)?,
        Unit::Time => units::nanoseconds(text).map(Value::Plain)?,
        Unit::Number => text.parse().map(Value::Plain).map_err(|_| in_bounds(parameter))?,
    };
    match value {
        Value::Plain(amount) | Value::Rate(Rate::PerSecond(amount) | Rate::CoreThousandths(amount))
            if !(parameter.least..=parameter.most).contains(&amount) =>
        {
            Err(in_bounds(parameter))
        }
        value => Ok(value),
    }
}

fn in_bounds(parameter: &Parameter) -> String {
    match parameter.most {
        u64::MAX => format!("expected {} or more", parameter.least),
        most => format!("expected {} to {most}", parameter.least),
    }
}

fn no_meaning(key: &str) -> String {
    format!("`{key}` has no meaning here")
}

fn who_has(key: &str) -> String {
    let has = |listed: &&&Listed| listed.parameters.iter().any(|parameter| parameter.name == key);
    let names: Vec<String> = POLICIES.iter().filter(has).map(|listed| format!("\"{}\"", listed.name)).collect();
    format!("only the policy {} has it", names.join(" or "))
}

pub(super) fn check(checker: &mut Checker, all: &BTreeMap<At<String>, raw::Policy>, cores: u16) -> Vec<ResourcePolicy> {
    all.iter().filter_map(|(name, policy)| one(checker, name, policy, cores)).collect()
}

fn one(checker: &mut Checker, name: &At<String>, raw: &raw::Policy, cores: u16) -> Option<ResourcePolicy> {
    let resource = resource(checker, name);
    let policy = policy(checker, name, raw);
    let metric = raw.metric.as_ref().and_then(|text| checker.name(text, "metric", METRICS));
    let metric = metric.unwrap_or_else(|| resource.map_or(Metric::Cycles, Resource::usual_metric));
    check_counted(checker, resource, metric, raw);
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

/// No resource would keep a metric that it does not tell.
fn check_counted(checker: &mut Checker, resource: Option<Resource>, metric: Metric, raw: &raw::Policy) {
    let (Some(resource), Some(asked)) = (resource, &raw.metric) else {
        return;
    };
    if !resource.counts(metric) {
        let message = format!("`{}` does not count {}", resource.file_name(), asked.get_ref());
        let problem = Problem::new(asked.span(), message, "nobody would keep this");
        let help = Resource::all().filter(|known| known.counts(metric)).map(Resource::file_name);
        checker.wrong(problem.help(format!("{} do", help.collect::<Vec<_>>().join(", "))));
    }
}

/// A rate of bytes bounds bytes, a percentage cycles: of another metric it would bound something else than was meant.
fn check_rate(checker: &mut Checker, metric: Metric, raw: &raw::Policy) {
    let rates = POLICIES.iter().flat_map(|listed| listed.parameters).filter(|parameter| parameter.unit == Unit::Rate);
    for rate in rates.filter_map(|parameter| raw.parameters.get(parameter.name)) {
        check_one_rate(checker, metric, rate);
    }
}

fn check_one_rate(checker: &mut Checker, metric: Metric, rate: &At<raw::Scalar>) {
    let meant = match rate.get_ref().text().as_str() {
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
pub(super) fn resource(checker: &mut Checker, name: &At<String>) -> Option<Resource> {
    let found = Resource::find(name.get_ref());
    if found.is_some() {
        return found;
    }
    let help = suggest::help(name.get_ref(), Resource::all().map(Resource::file_name));
    let message = format!("there is no resource `{}`", name.get_ref());
    checker.wrong(Problem::new(name.span(), message, "unknown resource").help(help));
    None
}

fn policy(checker: &mut Checker, name: &At<String>, raw: &raw::Policy) -> Policy {
    let outer = raw.policy.as_ref().and_then(|text| listed(checker, text)).unwrap_or_else(list::usual);
    let levels = Levels { outer, inner: raw.inner.as_ref().and_then(|text| listed(checker, text)) };
    let mut values: BTreeMap<&str, Value> = BTreeMap::new();
    for (key, value) in &raw.parameters {
        let Some(parameter) = levels.parameter(key) else {
            let problem = Problem::new(value.span(), no_meaning(key), format!("not of {}", levels.outer.name));
            checker.wrong(problem.help(who_has(key)));
            continue;
        };
        let text = value.get_ref().text();
        match read_value(parameter, &text) {
            Ok(value) => drop(values.insert(parameter.name, value)),
            Err(expected) => {
                checker.wrong(Problem::new(value.span(), format!("`{text}` cannot be read"), expected));
            }
        }
    }
    if let Some((listed, parameter, example)) = levels.missing(|key| raw.parameters.contains_key(key)) {
        let label = format!("add `{} = \"...\"`", parameter.name);
        let problem =
            Problem::new(name.span(), format!("the policy {} needs a {}", listed.name, parameter.name), label);
        checker.wrong(problem.help(format!("for example {} = \"{example}\"", parameter.name)));
    }
    levels.policy(|parameter| values.get(parameter.name).copied())
}

/// Returns the policy of a name in the file.
fn listed(checker: &mut Checker, text: &At<String>) -> Option<&'static Listed> {
    find(text.get_ref())
        .map_err(|(message, help)| checker.wrong(Problem::new(text.span(), message, "unknown policy").help(help)))
        .ok()
}

pub(super) fn core_set(checker: &mut Checker, list: &At<Vec<At<i64>>>, cores: u16) -> u64 {
    if list.get_ref().is_empty() {
        checker.wrong(Problem::new(list.span(), "a resource needs at least one core", "empty"));
    }
    let last = i64::from(cores) - 1;
    list.get_ref().iter().fold(0, |set, core| {
        let core = checker.number(Some(core), "a core of this machine", 0, last, 0);
        set | 1 << core
    })
}
