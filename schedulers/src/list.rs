//! The list of policies: everything that other crates know of a policy, written once.
//!
//! * A policy is a file of this crate with a [`Listed`], and one line of [`POLICIES`]. Nothing else names it.
//! * The machine file takes names, parameters, units, bounds and defaults from here; so do `gyre check`, `gyre set` and the
//!   table of policies in `docs/guide/machine-file.md`.
//! * `schedulers/README.md` shows what each promises.
//! * The kernel finds the name of a boot module here and calls `build`.
//!
//! A [`Setup`] is what `build` gets: the values that the machine's owner chose, and what the place demands (metric, debt, seed).
use crate::policy::{ClientParams, Metric, Policy};
use crate::{
    earliest_deadline, lottery, reservation, round_robin, strict_priority, token_bucket, weighted_fair, worst_case_fair,
};
use alloc::boxed::Box;

/// Every policy that a machine file may name; the first one stands wherever none is named.
pub const POLICIES: &[&Listed] = &[
    &weighted_fair::LISTED,
    &worst_case_fair::LISTED,
    &round_robin::LISTED,
    &strict_priority::LISTED,
    &earliest_deadline::LISTED,
    &token_bucket::LISTED,
    &reservation::LISTED,
    &lottery::LISTED,
];

/// A policy as the rest of the system knows it.
#[derive(Debug)]
pub struct Listed {
    /// Its name in machine files: small letters and hyphens.
    pub name: &'static str,
    /// Shorter names, as papers have them.
    pub short: &'static [&'static str],
    /// The client that it serves next, in a few words for the guide's table.
    pub about: &'static str,
    /// Its bound over any interval while clients are backlogged: W = service, w = weight, L = largest charge of a client.
    pub promise: &'static str,
    /// Clients that it lets starve.
    pub starves: &'static str,
    /// Times at which it rests while clients wait.
    pub rests: &'static str,
    /// The source of the idea.
    pub source: &'static str,
    /// Its parameters; none has the name of another key of the machine file's `[policy.RESOURCE]`.
    pub parameters: &'static [Parameter],
    /// Promises to single tenants that it keeps.
    pub keeps: &'static [Promise],
    /// Divides a parameter that is for all clients together among those of the top level; `None` if there is no such one.
    pub divide: Option<fn(&Setup, Part) -> ClientParams>,
    /// Makes the policy.
    pub build: fn(&Setup) -> Box<dyn Policy>,
}

/// One parameter of a policy.
#[derive(Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its key in the machine file: small letters and hyphens.
    pub name: &'static str,
    /// Its spelling.
    pub unit: Unit,
    /// Least value.
    pub least: u64,
    /// Largest value.
    pub most: u64,
    /// Its value if none is given.
    pub default: Fallback,
    /// Its effect, in a few words for the guide's table.
    pub about: &'static str,
}

/// The spelling of a parameter in the machine file, and what its value counts then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A rate: units of the policy's metric per second.
    Rate,
    /// An amount of bytes, or of whatever the policy's metric counts.
    Amount,
    /// A time in nanoseconds.
    Time,
    /// A plain number.
    Number,
}

/// The value that holds if a parameter is not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// Nothing: it must be given. The text is an example of it.
    Required(&'static str),
    /// This value, and what it means in words.
    Value(u64, &'static str),
}

/// A promise that a machine file may make one tenant at one resource, beside its share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// An amount per second that is always granted.
    Reservation,
    /// An amount per second that is never exceeded.
    Limit,
    /// A time from becoming ready to being served.
    Deadline,
    /// An urgency.
    Priority,
    /// An amount in each period, on each core.
    Budget,
}

/// The part of one client: `share` of the `whole` that all shares of its level sum to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The client's share.
    pub share: u64,
    /// The sum of the shares.
    pub whole: u64,
}

impl Part {
    /// Returns this part of an amount; nothing of no whole.
    pub fn of(self, amount: u64) -> u64 {
        let product = u128::from(amount) * u128::from(self.share);
        let part = product.checked_div(u128::from(self.whole)).unwrap_or(0);
        u64::try_from(part).unwrap_or(u64::MAX)
    }
}

/// The setup from which a policy is made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setup<'a> {
    /// The quantity that it counts.
    pub metric: Metric,
    /// Largest amount that service elsewhere may put a client ahead; 0 = any.
    pub debt_max: u64,
    /// Largest amount that a waking client may be behind the others and catch up.
    pub credit_max: u64,
    /// Randomness of the place: another one at each resource of each machine, the same one in each run of a simulation.
    pub seed: u64,
    /// Values of parameters that were given, by their names.
    pub values: &'a [(&'a str, u64)],
}

impl Setup<'_> {
    /// Returns the value of a parameter: the given one, or its default.
    pub fn value(&self, parameter: &Parameter) -> u64 {
        let given = self.values.iter().find(|(name, _)| *name == parameter.name).map(|(_, value)| *value);
        given.unwrap_or(match parameter.default {
            Fallback::Value(value, _) => value,
            Fallback::Required(_) => parameter.least,
        })
    }
}

/// Finds a policy by its name or a shorter one.
pub fn find(name: &str) -> Option<&'static Listed> {
    POLICIES.iter().find(|listed| listed.name == name || listed.short.contains(&name)).copied()
}

/// Returns the policy that stands wherever none is named.
pub fn usual() -> &'static Listed {
    &weighted_fair::LISTED
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;

    #[test]
    fn names_are_words_of_a_machine_file_and_each_stands_once() {
        let is_word =
            |name: &str| name.bytes().all(|byte| byte.is_ascii_lowercase() || b"-0123456789+".contains(&byte));
        let mut seen = BTreeSet::new();
        for listed in POLICIES {
            let names = [listed.name].into_iter().chain(listed.short.iter().copied());
            for name in names {
                assert!(is_word(name) && seen.insert(name), "{name}");
            }
            for parameter in listed.parameters {
                assert!(is_word(parameter.name), "{}", parameter.name);
                let in_bounds = |value| (parameter.least..=parameter.most).contains(&value);
                assert!(
                    matches!(parameter.default, Fallback::Required(_)) || in_bounds(Setup::default().value(parameter))
                );
            }
        }
        assert_eq!(POLICIES.first().map(|listed| listed.name), Some(usual().name));
    }

    #[test]
    fn every_policy_is_made_and_bears_its_name() {
        for listed in POLICIES {
            assert_eq!((listed.build)(&Setup::default()).name(), listed.name);
            assert_eq!(find(listed.name).map(|found| found.name), Some(listed.name));
        }
        assert!(find("random").is_none());
    }

    #[test]
    fn a_value_is_the_given_one_or_the_default() {
        let given = Setup { values: &[("seed", 7)], ..Setup::default() };
        assert_eq!((given.value(&lottery::SEED), Setup::default().value(&lottery::SEED)), (7, 0));
        assert_eq!(given.value(&token_bucket::BURST), 0);
    }

    #[test]
    fn a_part_is_in_proportion_and_none_of_nothing() {
        assert_eq!(Part { share: 1, whole: 4 }.of(u64::MAX), u64::MAX / 4);
        assert_eq!(Part { share: 1, whole: 0 }.of(100), 0);
    }

    /// A file that has a `LISTED` and is not on the list would be known to nobody.
    #[test]
    fn every_policy_of_the_crate_is_on_the_list() {
        let root = include_str!("lib.rs");
        let modules = root.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'));
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
        let is_policy = |name: &&str| {
            std::fs::read_to_string(std::format!("{folder}/{name}.rs"))
                .is_ok_and(|text| text.lines().any(|line| line.starts_with("pub const LISTED: Listed")))
        };
        let found = modules.filter(is_policy).count();
        assert_eq!(found, POLICIES.len());
    }
}
