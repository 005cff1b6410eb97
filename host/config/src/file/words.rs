//! A checked machine in the words of its file.

use super::policies::METRICS;
use crate::policy::{Metric, Policy};

/// The name of a policy in the machine file; that of nested ones with the inner one behind it.
#[must_use]
pub fn policy(policy: &Policy) -> String {
    match policy {
        Policy::WeightedFair => "weighted-fair".into(),
        Policy::WorstCaseFair => "worst-case-fair".into(),
        Policy::RoundRobin => "round-robin".into(),
        Policy::StrictPriority => "strict-priority".into(),
        Policy::EarliestDeadline => "earliest-deadline".into(),
        Policy::TokenBucket { .. } => "token-bucket".into(),
        Policy::ReservationLimitShare => "reservation-limit-share".into(),
        Policy::Nested { outer, inner } => format!("{}, inner {}", self::policy(outer), self::policy(inner)),
    }
}

/// The name of a metric in the machine file.
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

/// A message of the reader, "invalid type: string "2", expected i64", for people; what was written, and what was expected.
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
    use super::super::policy_by_name;
    use super::*;
    use crate::policy::Rate;

    #[test]
    fn every_policy_is_shown_by_the_name_that_makes_it() {
        for name in ["weighted-fair", "worst-case-fair", "round-robin", "strict-priority", "earliest-deadline"] {
            assert_eq!(policy(&policy_by_name(name, None, None, None).unwrap()), name);
        }
        let bucket = policy_by_name("token-bucket", Some("rr"), Some(Rate::PerSecond(1)), None).unwrap();
        assert_eq!(policy(&bucket), "token-bucket, inner round-robin");
        let mclock = policy_by_name("mclock", None, None, None).unwrap();
        assert_eq!(policy(&mclock), "reservation-limit-share");
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
