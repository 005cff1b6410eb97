//! Needs: what a window showed of a tenant that its function does not know.
//!
//! * A function that was fitted near one point says little of another one. The kernel counts what a tenant uses, and work that comes by a clock
//!   is not done with less.
//! * Work that waits behind earlier work is late whatever the next response takes, until there is time to make up for it.

use super::{KEPT, LEAST, MARGIN, MOST};
use crate::number::within;
use crate::resource::{Parts, RESOURCES, Resource};
use crate::window::Tenant;

/// The time in which waiting work is to be done beside the new one, ms.
const DRAINS_MS: f64 = 1000.0;
/// A tenant keeps this multiple of what it uses.
const ROOM: f64 = 1.08;
/// How far the mean use goes towards that of a window.
const USE_PACE: f64 = 0.4;
/// A window that misses its goal makes the tail longer, one that meets it makes it shorter: in balance one of 25 misses.
const TAIL_GROWS: f64 = 1.05;
const TAIL_FALLS: f64 = 0.998;
/// The longest tail that is believed.
const TAIL_MOST: f64 = 1.6;

/// The findings of the windows so far about a tenant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Need {
    /// How far the slow responses that a goal names lie above the mean ones.
    tail: f64,
    /// The mean of the parts that it used lately.
    used: Parts,
    /// Whether it slept between its beats.
    pace: Pace,
}

/// How a tenant works.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pace {
    /// It sleeps between its beats: it uses what its work needs.
    Sleeps,
    /// It uses whatever it gets.
    Restless,
}

impl Default for Need {
    fn default() -> Need {
        Need { tail: 1.0 / MARGIN, used: [0.0; RESOURCES], pace: Pace::Restless }
    }
}

impl Need {
    /// Takes down a window of `length_ns`.
    pub(super) fn learn(&mut self, tenant: &Tenant<'_>, length_ns: u64) {
        for (mean, used) in self.used.iter_mut().zip(&tenant.seen.used) {
            let used = within(*used, 0.0, 1.0);
            *mean = if *mean > 0.0 { *mean + USE_PACE * (used - *mean) } else { used };
        }
        self.pace = if tenant.sleeps(length_ns) { Pace::Sleeps } else { Pace::Restless };
        let waits = tenant.seen.samples.iter().any(|sample| sample.waits_ms > 0.0);
        if !waits {
            self.learn_tail(tenant);
        }
    }

    /// Takes down whether the goal was met. A window in which work waited shows the queue, not the tail.
    fn learn_tail(&mut self, tenant: &Tenant<'_>) {
        let deadline_ms = tenant.goal.deadline_ms().unwrap_or(0.0);
        let is_measured = tenant.seen.percentile_ms > 0.0 && deadline_ms > 0.0;
        if is_measured {
            let factor = if tenant.seen.percentile_ms > deadline_ms { TAIL_GROWS } else { TAIL_FALLS };
            self.tail = within(self.tail * factor, 1.0 / MARGIN, TAIL_MOST);
        }
    }

    /// Returns the mean response time that keeps a tenant's goal, ms, with the part `margin` of the room that the tail needs.
    fn aimed_ms(self, tenant: &Tenant<'_>, margin: f64) -> f64 {
        let room = 1.0 - 1.0 / self.tail;
        within(tenant.goal.deadline_ms().unwrap_or(0.0) * (1.0 - room * margin), 0.0, MOST)
    }

    /// Returns the response time that a tenant's work is to keep, ms: less while work waits.
    pub(super) fn deadline_ms(self, tenant: &Tenant<'_>, margin: f64) -> f64 {
        let waits_ms = within(tenant.seen.samples.last().map_or(0.0, |sample| sample.waits_ms), 0.0, MOST);
        self.aimed_ms(tenant, margin) * DRAINS_MS / (DRAINS_MS + waits_ms)
    }

    /// Returns the least part of a tenant that holds `part`.
    pub(super) fn least(self, tenant: &Tenant<'_>, resource: Resource, part: f64, margin: f64) -> f64 {
        let aimed_ms = self.aimed_ms(tenant, margin);
        if aimed_ms <= 0.0 {
            return LEAST;
        }
        let used = self.used[resource.index()];
        let kept = if used > 0.0 { self.enough(tenant, used, part, aimed_ms) } else { part * KEPT };
        kept.clamp(LEAST, part.max(LEAST))
    }

    /// Returns the part that is enough for what was seen. Schedulers serve who wakes before the others, so response times hardly depend on what
    /// a tenant holds until that is less than its work: who sleeps between its beats keeps what it uses. A tenant that never sleeps uses
    /// whatever it gets; its response times fall in proportion to that.
    fn enough(&self, tenant: &Tenant<'_>, used: f64, part: f64, aimed_ms: f64) -> f64 {
        let (sum_ms, count) = tenant.answers_ms();
        let hurry = if count > 0.0 { sum_ms / count / aimed_ms } else { 1.0 };
        let scale = if self.pace == Pace::Sleeps { 1.0 } else { hurry.min(1.0) };
        (part * hurry).max(used * ROOM * scale)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::window::{Goal, Observation, Sample};

    const GOAL: Goal = Goal::Response { percentile: 90.0, target_ms: 100.0 };

    fn seen(samples: &[Sample], used: f64) -> Tenant<'_> {
        let seen = Observation { beats: 1, used: [used; RESOURCES], percentile_ms: 0.0, stalled: 0.0, samples };
        Tenant { goal: GOAL, seen, ..Tenant::default() }
    }

    /// The least part of a tenant that holds 20 %, after a window of `length_ns` with one beat.
    fn least(response_ms: f64, used: f64, length_ns: u64) -> f64 {
        let sample = [Sample { response_ms, ..Sample::default() }];
        let tenant = seen(&sample, used);
        let mut need = Need::default();
        need.learn(&tenant, length_ns);
        need.least(&tenant, Resource::Cpu, 0.2, 1.0)
    }

    #[test]
    fn who_never_sleeps_keeps_what_its_work_needs_and_never_gains_by_it() {
        let least = |response_ms, used| least(response_ms, used, 1);
        assert_eq!(least(85.0, 0.1), 0.2, "it needs all of its time");
        assert!((least(42.5, 0.1) - 0.1).abs() < 1e-9, "half of its part is enough");
        assert_eq!(least(1e9, 1.0), 0.2, "whatever it says it uses");
        assert!((least(42.5, 0.0) - 0.2 * KEPT).abs() < 1e-9, "nobody counts its use");
    }

    #[test]
    fn who_sleeps_keeps_what_it_uses_however_fast_it_answers() {
        assert!((least(1.0, 0.1, 1_000_000_000) - 0.1 * ROOM).abs() < 1e-9);
        assert_eq!(least(1.0, 0.5, 1_000_000_000), 0.2, "but never gains by it");
    }

    #[test]
    fn waiting_work_shortens_the_deadline_and_is_bounded() {
        let waits = |waits_ms| Sample { response_ms: 50.0, waits_ms, ..Sample::default() };
        let deadline = |waits_ms| Need::default().deadline_ms(&seen(&[waits(waits_ms)], 0.1), 1.0);
        assert!((deadline(0.0) - 85.0).abs() < 1e-9 && (deadline(DRAINS_MS) - 42.5).abs() < 1e-9);
        assert!((deadline(f64::NAN) - 85.0).abs() < 1e-9 && deadline(f64::INFINITY) > 0.0);
    }

    #[test]
    fn windows_that_miss_the_goal_lengthen_the_tail_up_to_a_bound() {
        let mut need = Need::default();
        let mut tenant = seen(&[], 0.1);
        tenant.seen.percentile_ms = 200.0;
        (0..100).for_each(|_| need.learn(&tenant, 1));
        assert_eq!(need.tail, TAIL_MOST);
        tenant.seen.percentile_ms = 90.0;
        (0..1000).for_each(|_| need.learn(&tenant, 1));
        assert_eq!(need.tail, 1.0 / MARGIN);
    }
}
