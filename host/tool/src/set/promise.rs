//! Promises and goals of `gyre set`: keys of two words.
//!
//! * `RESOURCE.PROMISE`, as the machine file's `[tenant.entitlement.RESOURCE]` has them: [`take`].
//! * `goal.NUMBER`, as its `[tenant.goal]` has them, and `goal none`: [`take_goal`].
//! * `overload.delay`, as its `[tenant.overload]` has it: [`take_delay`].
//! * [`words`] writes both for people, as `gyre set` and `gyre bill --changes` show them.
//!
//! A value is `none`, or it has a unit. Promises at one resource become one wish, so that the kernel sees them together.
//! The kernel checks whether a promise can be kept; here only words are checked.

use std::collections::BTreeMap;

use gyre_contract::{
    bounds::{OVERLOAD_DELAYS_NS, SHARE_MAX},
    catalogue::Resource,
    goals::{Aim, Goal, Measure},
    native::Change,
    policy::{Budget, Rate},
    promise::{Promise, Wish},
};
use gyre_machine_file::units;

use super::{NONE, unknown, wrong};
use crate::failure::Result;

const KEYS: &[&str] = &["share", "priority", "deadline", "reservation", "limit", "period", "budget"];

const DELAY_KEY: &str = "overload.delay";
/// Percentiles of goals, in thousandths.
const PERCENTILES: &[(&str, u16)] = &[("goal.p50", 500), ("goal.p90", 900), ("goal.p95", 950), ("goal.p99", 990)];

/// Returns the keys and values without that of a goal, and the change that it wishes for.
///
/// # Errors
/// When there are several, or the value makes no sense.
pub(super) fn take_goal<'a>(
    tenant: &str,
    pairs: Vec<(&'a str, &'a str)>,
) -> Result<(Vec<(&'a str, &'a str)>, Option<Change>)> {
    let (goals, rest): (Vec<_>, Vec<_>) =
        pairs.into_iter().partition(|(key, _)| *key == "goal" || key.starts_with("goal."));
    let (key, value) = match goals[..] {
        [] => return Ok((rest, None)),
        [one] => one,
        [_, (key, value), ..] => return Err(wrong(key, value, "expected one goal")),
    };
    let aim = match PERCENTILES.iter().find(|(known, _)| *known == key) {
        Some((_, thousandths)) => {
            let target_ns = units::nanoseconds(value).map_err(|expected| wrong(key, value, &expected))?;
            Some(Aim::Response { thousandths: *thousandths, target_ns })
        }
        None if key == "goal.rate" => {
            Some(Aim::Rate(units::beats(value).map_err(|expected| wrong(key, value, &expected))?))
        }
        None if key == "goal" && value == NONE => None,
        None => {
            let known = PERCENTILES.iter().map(|(known, _)| *known).chain(["goal.rate", "goal"]);
            return Err(unknown("goal", key, known));
        }
    };
    let goal = aim.map(|aim| Goal { aim, measure: Measure::Either, penalty: 1 });
    Ok((rest, Some(Change::Goal { tenant: tenant.into(), goal })))
}

/// Returns the keys and values without the delay of the overload controller, and the change that it wishes for.
///
/// # Errors
/// When the value makes no sense, or the controller has no such key.
pub(super) fn take_delay<'a>(
    tenant: &str,
    pairs: Vec<(&'a str, &'a str)>,
) -> Result<(Vec<(&'a str, &'a str)>, Option<Change>)> {
    let (own, rest): (Vec<_>, Vec<_>) = pairs.into_iter().partition(|(key, _)| key.starts_with("overload."));
    let Some((key, value)) = own.last().copied() else { return Ok((rest, None)) };
    if let Some((key, _)) = own.iter().find(|(key, _)| *key != DELAY_KEY) {
        return Err(unknown("key of the overload controller", key, [DELAY_KEY].into_iter()));
    }
    let delay_ns = units::nanoseconds(value).map_err(|expected| wrong(key, value, &expected))?;
    if !OVERLOAD_DELAYS_NS.contains(&delay_ns) {
        return Err(wrong(key, value, "expected 1 ms to 10 s"));
    }
    Ok((rest, Some(Change::Overload { tenant: tenant.into(), delay_ns })))
}

/// Returns the keys and values without those of promises, and what these wish for, one for each resource.
///
/// # Errors
/// When there is no such resource, no such promise, or the value makes no sense.
pub(super) fn take<'a>(
    tenant: &str,
    pairs: Vec<(&'a str, &'a str)>,
) -> Result<(Vec<(&'a str, &'a str)>, Vec<Promise>)> {
    let mut promises: BTreeMap<usize, Promise> = BTreeMap::new();
    let mut rest = vec![];
    for (key, value) in pairs {
        let Some((resource, promise)) = key.split_once('.') else {
            rest.push((key, value));
            continue;
        };
        let resource = find(resource)?;
        let wish = promises.entry(resource.index()).or_insert_with(|| Promise::none(tenant, resource));
        set(wish, promise, key, value)?;
    }
    Ok((rest, promises.into_values().collect()))
}

fn find(name: &str) -> Result<Resource> {
    let wanted = name.replace('_', "-");
    let found = Resource::all().find(|resource| resource.file_name() == wanted);
    found.ok_or_else(|| unknown("resource", name, Resource::all().map(Resource::file_name)))
}

fn set(wish: &mut Promise, promise: &str, key: &str, value: &str) -> Result<()> {
    match promise {
        "share" => wish.share = be(key, value, |text| number(text, 1, SHARE_MAX))?,
        "priority" => {
            let priority = |text: &str| number(text, 0, 255).map(|number| number as u8);
            wish.priority = be(key, value, priority)?;
        }
        "deadline" => wish.deadline_ns = be(key, value, units::nanoseconds)?,
        "reservation" => wish.reservation = be(key, value, units::rate)?,
        "limit" => wish.limit = be(key, value, units::rate)?,
        "period" => wish.period_ns = be(key, value, units::nanoseconds)?,
        "budget" => wish.budget = be(key, value, units::budget)?,
        _ => return Err(unknown("promise", promise, KEYS.iter().copied())),
    }
    Ok(())
}

/// Reads a value, or `none`.
fn be<T>(key: &str, value: &str, read: impl Fn(&str) -> std::result::Result<T, String>) -> Result<Wish<T>> {
    if value == NONE {
        return Ok(Wish::Clear);
    }
    read(value).map(Wish::Be).map_err(|expected| wrong(key, value, &expected))
}

/// Returns a promise in words; nothing for other changes.
pub fn words(change: &Change) -> Option<String> {
    let promise = match change {
        Change::Goal { tenant, goal } => {
            let goal = goal.as_ref().map_or(NONE.to_owned(), |goal| goal.aim.to_string());
            return Some(format!("{tenant}: goal {goal}"));
        }
        Change::Overload { tenant, delay_ns } => {
            return Some(format!("{tenant}: overload delay {} us", delay_ns / 1000));
        }
        Change::Promise(promise) => promise,
        _ => return None,
    };
    let Promise { tenant, resource, share, priority, deadline_ns, reservation, limit, period_ns, budget } = promise;
    let ns = |ns: u64| format!("{} us", ns / 1000);
    let values = [
        word("share", share, |share| share.to_string()),
        word("priority", priority, |priority| priority.to_string()),
        word("deadline", deadline_ns, ns),
        word("reservation", reservation, rate),
        word("limit", limit, rate),
        word("period", period_ns, ns),
        word("budget", budget, |budget| match budget {
            Budget::Time(time) => ns(time),
            Budget::Amount(bytes) => units::show_bytes(bytes),
        }),
    ];
    let values: Vec<String> = values.into_iter().flatten().collect();
    Some(format!("{tenant} at {}: {}", resource.file_name(), values.join(", ")))
}

fn word<T: Copy>(key: &str, wish: &Wish<T>, show: impl Fn(T) -> String) -> Option<String> {
    match wish {
        Wish::Keep => None,
        Wish::Clear => Some(format!("{key} {NONE}")),
        Wish::Be(value) => Some(format!("{key} {}", show(*value))),
    }
}

fn rate(rate: Rate) -> String {
    match rate {
        Rate::CoreThousandths(parts) => format!("{}.{} % of a core", parts / 10, parts % 10),
        Rate::PerSecond(units) => format!("{}/s", units::show_bytes(units)),
    }
}

fn number(text: &str, least: u32, most: u32) -> std::result::Result<u32, String> {
    let number = text.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("expected a number of {least} to {most}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_promises_at_a_resource_are_one_wish() {
        let pairs = vec![
            ("share", "3"),
            ("cpu.reservation", "20 %"),
            ("cpu.limit", "none"),
            ("network-write.limit", "8 Mbit/s"),
            ("cpu.period", "20 ms"),
            ("cpu.budget", "5 ms"),
        ];
        let (rest, promises) = take("gold", pairs).unwrap();
        assert_eq!(rest, [("share", "3")]);
        let [cpu, network] = &promises[..] else { panic!("{promises:?}") };
        assert_eq!((cpu.reservation, cpu.limit), (Wish::Be(Rate::CoreThousandths(200)), Wish::Clear));
        assert_eq!((cpu.period_ns, cpu.budget), (Wish::Be(20_000_000), Wish::Be(Budget::Time(5_000_000))));
        assert_eq!(network.limit, Wish::Be(Rate::PerSecond(1_000_000)));
    }

    #[test]
    fn a_goal_is_one_change_beside_others() {
        let (rest, goal) = take_goal("gold", vec![("share", "3"), ("goal.p99", "200 ms")]).unwrap();
        assert_eq!(rest, [("share", "3")]);
        assert_eq!(words(&goal.unwrap()).unwrap(), "gold: goal 99 % in 200 ms");
        let (_, none) = take_goal("gold", vec![("goal", "none")]).unwrap();
        assert_eq!(none, Some(Change::Goal { tenant: "gold".into(), goal: None }));
        assert!(
            take_goal("gold", vec![("goal.p98", "1 ms")]).is_err()
                && take_goal("gold", vec![("goal.rate", "1")]).is_err()
        );
        assert!(take_goal("gold", vec![("goal.p99", "1 ms"), ("goal.rate", "1/s")]).is_err());
    }

    #[test]
    fn the_delay_of_an_overload_controller_is_one_change_beside_others() {
        let (rest, delay) = take_delay("gold", vec![("share", "3"), ("overload.delay", "20 ms")]).unwrap();
        assert_eq!(rest, [("share", "3")]);
        assert_eq!(words(&delay.unwrap()).unwrap(), "gold: overload delay 20000 us");
        assert_eq!(take_delay("gold", vec![("share", "3")]).unwrap().1, None);
        for (key, value) in [("overload.delay", "20"), ("overload.delay", "11 s"), ("overload.refuse", "reset")] {
            assert!(take_delay("gold", vec![(key, value)]).is_err(), "{key} {value}");
        }
    }

    #[test]
    fn unknown_words_are_refused_with_advice() {
        let text = |key, value| format!("{:?}", take("gold", vec![(key, value)]).unwrap_err().report);
        assert!(text("cpo.limit", "1 %").contains("did you mean `cpu`?"));
        assert!(text("cpu.limits", "1 %").contains("did you mean `limit`?"));
        assert!(text("cpu.limit", "much").contains("makes no sense"));
        assert!(text("cpu.priority", "256").contains("0 to 255"));
    }
}
