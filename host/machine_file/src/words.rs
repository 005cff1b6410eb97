//! A checked machine in the words of its file.

use super::policies::METRICS;
use gyre_contract::policy::{Metric, Policy};
use gyre_schedulers::{
    POLICIES,
    list::{Fallback, Promise},
};

/// Returns the name of a policy in the machine file; that of nested ones with the inner one behind it.
#[must_use]
pub fn policy(policy: &Policy) -> String {
    match &policy.inner {
        Some(inner) => format!("{}, inner {}", policy.outer.name, inner.name),
        None => policy.outer.name.clone(),
    }
}

/// Returns the list of policies and that of their parameters, as tables in Markdown: docs/guide/machine-file.md shows them.
#[must_use]
pub fn policy_tables() -> String {
    let mut text = "| policy | short | whom it serves next | keeps |\n|---|---|---|---|\n".to_owned();
    for listed in POLICIES {
        let short: Vec<String> = listed.short.iter().map(|name| format!("`{name}`")).collect();
        let keeps: Vec<&str> = listed.keeps.iter().map(|promise| promise_key(*promise)).collect();
        text += &format!("| `{}` | {} | {} | {} |\n", listed.name, short.join(", "), listed.about, keeps.join(", "));
    }
    text += "\n| parameter | of | meaning | default |\n|---|---|---|---|\n";
    for (listed, parameter) in POLICIES.iter().flat_map(|one| one.parameters.iter().map(move |each| (one, each))) {
        let default = match parameter.default {
            Fallback::Required(example) => format!("none: for example `\"{example}\"`"),
            Fallback::Value(_, words) => words.to_owned(),
        };
        text += &format!("| `{}` | `{}` | {} | {default} |\n", parameter.name, listed.name, parameter.about);
    }
    text
}

/// Returns the key of a promise in the machine file.
pub(super) fn promise_key(promise: Promise) -> &'static str {
    match promise {
        Promise::Reservation => "reservation",
        Promise::Limit => "limit",
        Promise::Deadline => "deadline",
        Promise::Priority => "priority",
        Promise::Budget => "budget",
    }
}

/// Returns the name of a metric in the machine file.
#[must_use]
pub fn metric(metric: Metric) -> &'static str {
    METRICS.iter().find(|(_, known)| *known == metric).map_or("", |(name, _)| name)
}

/// Rust's names of what a value is, and what people call it.
const TYPES: [(&str, &str); 10] = [
    ("i64", "a whole number"),
    ("u32", "a whole number"),
    ("a sequence", "a list in brackets"),
    ("sequence", "list in brackets"),
    ("a string", "a text in quotes"),
    ("string", "text in quotes"),
    ("a boolean", "true or false"),
    ("boolean", "true or false:"),
    ("integer", "whole number"),
    ("floating point", "number with a point"),
];

/// Returns a message of the reader, "invalid type: string "2", expected i64", for people; what was written, and what was expected.
pub(super) fn mismatch(message: &str) -> Option<(String, String)> {
    let (found, expected) = message.strip_prefix("invalid type: ")?.split_once(", expected ")?;
    let known = TYPES.iter().find_map(|(name, words)| Some((*words, found.strip_prefix(name)?)));
    let (words, value) = known.unwrap_or((found, ""));
    let wanted = TYPES.iter().find(|(name, _)| *name == expected).map_or(expected, |(_, words)| words);
    let value = value.trim().trim_matches(['`', '"']);
    let what = if value.is_empty() { words.to_owned() } else { format!("{words} `{value}`") };
    Some((format!("{what} cannot stand here"), format!("expected {wanted}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy_by_name;

    #[test]
    fn every_policy_is_shown_by_the_name_that_makes_it() {
        for listed in POLICIES {
            let given: Vec<(&str, &str)> = (listed.parameters.iter())
                .filter_map(|one| match one.default {
                    Fallback::Required(example) => Some((one.name, example)),
                    Fallback::Value(..) => None,
                })
                .collect();
            for name in listed.short.iter().chain([&listed.name]) {
                assert_eq!(policy(&policy_by_name(name, None, &given).unwrap()), listed.name);
            }
        }
        let bucket = policy_by_name("token-bucket", Some("rr"), &[("rate", "1 /s")]).unwrap();
        assert_eq!(policy(&bucket), "token-bucket, inner round-robin");
        assert_eq!((metric(Metric::DeviceTime), metric(Metric::Bytes)), ("device-time", "bytes"));
    }

    #[test]
    fn a_value_of_another_type_is_told_in_words() {
        let of = |message| mismatch(message).unwrap();
        assert_eq!(
            of("invalid type: string \"two\", expected i64"),
            ("text in quotes `two` cannot stand here".into(), "expected a whole number".into())
        );
        assert_eq!(of("invalid type: integer `3`, expected a string").0, "whole number `3` cannot stand here");
        assert_eq!(of("invalid type: integer `3`, expected a sequence").1, "expected a list in brackets");
        assert!(mismatch("unknown field `x`").is_none());
    }
}
