//! Measures of a window: differences of the totals that the kernel tells.
//!
//! A page of heartbeats is its program's: it may count backwards, overflow or hold nonsense. A counter that goes back, or that grows by more
//! than [`BEATS_PER_S_MAX`], gives no beats in that window, and the line of the report says so. Numbers that the kernel counts itself are
//! believed.

use std::collections::BTreeMap;

use gyre_contract::goals::{Aim, Answers, BUCKETS, Beats, Goals, Measure, TenantGoal, percentile_ns};

/// Beats a second that are believed of one page.
pub const BEATS_PER_S_MAX: u64 = 10_000_000;

/// Returns the goal that holds for a tenant: the owner's, else its program's own.
#[must_use]
pub fn aim(tenant: &TenantGoal) -> Option<Aim> {
    tenant.goal.map(|goal| goal.aim).or_else(|| tenant.pages.iter().find_map(|page| page.aim))
}

/// The percentile that is shown for tenants whose goal names none.
const USUAL_THOUSANDTHS: u16 = 990;

/// Returns the percentile that a goal names, or the usual one, in thousandths.
#[must_use]
pub fn thousandths(aim: Option<Aim>) -> u16 {
    match aim {
        Some(Aim::Response { thousandths, .. }) => thousandths,
        Some(Aim::Rate(_)) | None => USUAL_THOUSANDTHS,
    }
}

/// The measures of one tenant over some time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// Beats or answers.
    pub beats: u64,
    /// Their times by bucket; empty without times.
    pub buckets: Vec<u64>,
    /// Sum of their times, ns.
    pub sum_ns: u64,
    /// Cycles that it used.
    pub cycles: u64,
    /// Time in which its threads were ready and had no core, ns.
    pub stalled_ns: u64,
    /// Bytes that it sent on the link.
    pub link_bytes: u64,
    /// Connections that its overload controller refused.
    pub refused: u64,
    /// Pages of heartbeats that beat; 0 if answers of the network path were counted.
    pub loops: u32,
    /// Anything strange; empty if nothing was.
    pub strange: String,
}

impl Measured {
    /// Returns the measures of a tenant between two looks.
    #[must_use]
    pub fn between(before: &TenantGoal, after: &TenantGoal, seconds: f64) -> Measured {
        let measure = after.goal.map_or(Measure::Either, |goal| goal.measure);
        let has_pages = !after.pages.is_empty();
        let mut measured = match measure {
            Measure::Beats => of_pages(&before.pages, &after.pages, seconds),
            Measure::Either if has_pages => of_pages(&before.pages, &after.pages, seconds),
            Measure::Either | Measure::Tcp => of_answers(&before.answers, &after.answers),
        };
        measured.cycles = after.cycles.saturating_sub(before.cycles);
        measured.stalled_ns = after.stalled_ns.saturating_sub(before.stalled_ns);
        measured.link_bytes = after.link_bytes.saturating_sub(before.link_bytes);
        measured.refused = after.overload_refused.saturating_sub(before.overload_refused);
        measured
    }

    /// Adds what came after it.
    pub fn add(&mut self, next: &Measured) {
        self.beats = self.beats.saturating_add(next.beats);
        self.sum_ns = self.sum_ns.saturating_add(next.sum_ns);
        self.cycles = self.cycles.saturating_add(next.cycles);
        self.stalled_ns = self.stalled_ns.saturating_add(next.stalled_ns);
        self.link_bytes = self.link_bytes.saturating_add(next.link_bytes);
        self.refused = self.refused.saturating_add(next.refused);
        self.loops = self.loops.saturating_add(next.loops);
        if self.buckets.is_empty() {
            self.buckets.clone_from(&next.buckets);
        } else {
            self.buckets.iter_mut().zip(&next.buckets).for_each(|(sum, count)| *sum = sum.saturating_add(*count));
        }
        if !next.strange.is_empty() {
            self.strange.clone_from(&next.strange);
        }
    }

    /// Returns the time that so many thousandths keep, ms.
    #[must_use]
    pub fn percentile_ms(&self, thousandths: u16) -> Option<f64> {
        percentile_ns(&self.buckets, u64::from(thousandths)).map(|ns| ns as f64 / 1e6)
    }

    /// Returns the mean time, ms.
    #[must_use]
    pub fn mean_ms(&self) -> Option<f64> {
        let count = self.buckets.iter().fold(0u64, |sum, count| sum.saturating_add(*count));
        (count > 0).then(|| self.sum_ns as f64 / count as f64 / 1e6)
    }
}

/// Counts that only grow; what went back counts as nothing.
fn grown(before: &[u64], after: &[u64]) -> Vec<u64> {
    let before = before.iter().chain(std::iter::repeat(&0));
    after.iter().zip(before).map(|(after, before)| after.saturating_sub(*before)).collect()
}

fn of_answers(before: &Answers, after: &Answers) -> Measured {
    let buckets = grown(&before.buckets, &after.buckets);
    let beats = buckets.iter().fold(0u64, |sum, count| sum.saturating_add(*count));
    Measured { beats, buckets, sum_ns: after.sum_ns.saturating_sub(before.sum_ns), ..Measured::default() }
}

fn of_pages(before: &[Beats], after: &[Beats], seconds: f64) -> Measured {
    let known: BTreeMap<u64, &Beats> = before.iter().map(|page| (page.id, page)).collect();
    let mut sum = Measured::default();
    for page in after {
        // A page that was not there at the last look begins now: its total may come from long ago.
        if let Some(before) = known.get(&page.id) {
            sum.add(&of_page(before, page, seconds));
        }
    }
    sum
}

fn of_page(before: &Beats, after: &Beats, seconds: f64) -> Measured {
    let most = (seconds * BEATS_PER_S_MAX as f64) as u64;
    let strange = |why: &str| Measured { strange: format!("heartbeats `{}` {why}", after.name), ..Measured::default() };
    let Some(beats) = after.beats.checked_sub(before.beats) else {
        return strange("went back: they count for nothing in this window");
    };
    if beats > most {
        return strange("are more than can be: they count for nothing in this window");
    }
    let buckets = grown(&before.buckets, &after.buckets);
    let counted = buckets.iter().fold(0u64, |sum, count| sum.saturating_add(*count));
    // Times that are not of these beats say nothing.
    let buckets = if counted <= beats && buckets.len() == BUCKETS { buckets } else { Vec::new() };
    let loops = u32::from(beats > 0);
    Measured { beats, buckets, sum_ns: after.sum_ns.saturating_sub(before.sum_ns), loops, ..Measured::default() }
}

/// Returns the measures of all tenants between two looks, in the order of the second.
#[must_use]
pub fn all(before: &Goals, after: &Goals) -> Vec<Measured> {
    let seconds = after.now_ns.saturating_sub(before.now_ns) as f64 / 1e9;
    let of = |tenant: &TenantGoal| {
        let before = before.tenants.iter().find(|one| one.name == tenant.name);
        before.map_or_else(Measured::default, |before| Measured::between(before, tenant, seconds))
    };
    after.tenants.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use gyre_contract::goals::bucket_of;

    use super::*;

    fn page(beats: u64) -> Beats {
        Beats { id: 1, name: "frames".into(), beats, buckets: vec![0; BUCKETS], ..Beats::default() }
    }

    fn between(before: Beats, after: Beats) -> Measured {
        let tenant = |page| TenantGoal { pages: vec![page], ..TenantGoal::default() };
        Measured::between(&tenant(before), &tenant(after), 1.0)
    }

    #[test]
    fn beats_are_differences() {
        assert_eq!(between(page(100), page(130)).beats, 30);
        assert_eq!(between(page(5), Beats { id: 2, ..page(1_000_000) }).beats, 0, "a new page begins now");
    }

    #[test]
    fn heartbeats_that_go_back_or_overflow_count_for_nothing_and_are_told() {
        for (before, after) in [(100, 99), (u64::MAX - 1, 3), (0, u64::MAX), (0, BEATS_PER_S_MAX + 1)] {
            let measured = between(page(before), page(after));
            assert_eq!(measured.beats, 0, "{before} {after}");
            assert!(measured.strange.contains("frames"), "{measured:?}");
        }
    }

    #[test]
    fn times_that_are_not_of_the_beats_are_left_out() {
        let mut after = page(10);
        after.buckets[bucket_of(5_000_000)] = 11;
        assert_eq!(between(page(0), after.clone()).percentile_ms(990), None);
        after.beats = 11;
        let p99 = between(page(0), after).percentile_ms(990).unwrap();
        assert!((5.0..5.7).contains(&p99), "{p99}");
    }

    #[test]
    fn the_owner_says_what_is_measured() {
        use gyre_contract::goals::Goal;
        let answers = |count| Answers { sum_ns: count, buckets: vec![count; 1] };
        let tenant = |count, measure| TenantGoal {
            goal: Some(Goal { aim: Aim::Rate(1), measure, penalty: 1 }),
            pages: vec![page(count * 2)],
            answers: answers(count),
            ..TenantGoal::default()
        };
        let beats = |measure| Measured::between(&tenant(0, measure), &tenant(7, measure), 1.0).beats;
        assert_eq!((beats(Measure::Tcp), beats(Measure::Beats), beats(Measure::Either)), (7, 14, 14));
    }
}
