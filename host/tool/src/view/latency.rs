//! How long tenants take to answer: from the last segment of a request to the first byte of its answer, as the network path counts it.

use std::collections::BTreeMap;

use gyre_contract::goals::{self, TenantGoal};
use serde::Serialize;

/// Thousandths of the answers.
const MEDIAN: u64 = 500;
const MOST: u64 = 990;

/// The answers of a tenant between two looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Answers {
    /// Answers a second.
    pub per_second: f64,
    /// The time that half of them keep, ms; an eighth too large at most.
    pub median_ms: f64,
    /// The time that 99 of 100 keep, ms.
    pub p99_ms: f64,
}

/// Returns the answers of each tenant that gave any between two looks.
pub fn between(before: &goals::Goals, now: &goals::Goals) -> BTreeMap<String, Answers> {
    let seconds = now.now_ns.saturating_sub(before.now_ns) as f64 / 1e9;
    let of = |tenant: &TenantGoal| {
        let was = before.tenants.iter().find(|one| one.name == tenant.name);
        let was = was.map(|one| one.answers.buckets.as_slice()).unwrap_or_default();
        Some((tenant.name.clone(), answers(was, &tenant.answers.buckets, seconds)?))
    };
    now.tenants.iter().filter_map(of).collect()
}

fn answers(was: &[u64], is: &[u64], seconds: f64) -> Option<Answers> {
    let earlier = was.iter().copied().chain(std::iter::repeat(0));
    let counts: Vec<u64> = is.iter().zip(earlier).map(|(is, was)| is.saturating_sub(was)).collect();
    let ms = |thousandths| goals::percentile_ns(&counts, thousandths).map(|ns| ns as f64 / 1e6);
    let all = counts.iter().fold(0u64, |sum, count| sum.saturating_add(*count));
    Some(Answers { per_second: all as f64 / seconds.max(1e-9), median_ms: ms(MEDIAN)?, p99_ms: ms(MOST)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_those_between_two_looks() {
        let look = |now_ns, fast: u64, slow: u64| {
            let mut buckets = vec![0; goals::BUCKETS];
            buckets[goals::bucket_of(2_000_000)] = fast;
            buckets[goals::bucket_of(50_000_000)] = slow;
            let answers = goals::Answers { sum_ns: 0, buckets };
            let tenants = vec![
                TenantGoal { name: "shop".into(), answers, ..TenantGoal::default() },
                TenantGoal { name: "mute".into(), ..TenantGoal::default() },
            ];
            goals::Goals { now_ns, tenants, ..goals::Goals::default() }
        };
        let (before, now) = (look(1_000_000_000, 1000, 1000), look(3_000_000_000, 1190, 1010));
        let found = between(&before, &now);
        assert_eq!((found.len(), found["shop"].per_second), (1, 100.0));
        assert!((2.0..2.3).contains(&found["shop"].median_ms) && (50.0..57.0).contains(&found["shop"].p99_ms));
        assert!(between(&now, &now).is_empty(), "nobody answered");
    }
}
