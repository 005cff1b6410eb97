//! The delay that an overload controller keeps, from the goal of its tenant's answers.
//!
//! The controller (Vortex 2003, section "overload control") lets in as many as wait no longer than a delay. Its owner wants answers within a time,
//! which the delay is only a part of. So the delay follows what is measured: shorter while answers are late, longer while they have time to spare
//! and somebody is refused. It never exceeds the goal. Within one window it changes by a factor of [`STEPS`].

use core::ops::RangeInclusive;

use crate::number::positive;

/// The factor of one window.
pub const STEPS: RangeInclusive<f64> = 0.7..=1.1;
/// Answers below this part of their goal have time to spare.
pub const SPARE: f64 = 0.8;
/// Answers without which a percentile says nothing.
pub const ANSWERS_MIN: u64 = 20;
/// The shortest delay, ms: below it clocks and turns are all that is measured.
pub const DELAY_MS_MIN: f64 = 1.0;

/// A window of a tenant with an overload controller.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen {
    /// The delay that the controller keeps, ms.
    pub delay_ms: f64,
    /// The time of the goal, ms.
    pub target_ms: f64,
    /// The time that the goal's percentile of the answers took, ms; not a number if none is known.
    pub percentile_ms: f64,
    /// Answers.
    pub answers: u64,
    /// Connections that were refused.
    pub refused: u64,
}

/// Returns the delay from now on, ms.
pub fn delay_ms(seen: &Seen) -> f64 {
    let (Some(target_ms), Some(percentile_ms)) = (positive(seen.target_ms), positive(seen.percentile_ms)) else {
        return seen.delay_ms;
    };
    if seen.answers < ANSWERS_MIN {
        return seen.delay_ms;
    }
    let factor = if percentile_ms > target_ms {
        (target_ms / percentile_ms).max(*STEPS.start())
    } else if percentile_ms < SPARE * target_ms && seen.refused > 0 {
        *STEPS.end()
    } else {
        1.0
    };
    (seen.delay_ms * factor).clamp(DELAY_MS_MIN, target_ms.max(DELAY_MS_MIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEEN: Seen = Seen { delay_ms: 100.0, target_ms: 200.0, percentile_ms: 150.0, answers: 100, refused: 0 };

    #[test]
    fn late_answers_shorten_the_delay_in_proportion_and_by_no_more_than_a_step() {
        assert!((delay_ms(&Seen { percentile_ms: 220.0, ..SEEN }) - 100.0 * 200.0 / 220.0).abs() < 1e-9);
        assert_eq!(delay_ms(&Seen { percentile_ms: 1e9, ..SEEN }), 70.0);
        assert_eq!(delay_ms(&Seen { percentile_ms: 1e9, delay_ms: 1.1, ..SEEN }), DELAY_MS_MIN);
    }

    #[test]
    fn time_to_spare_lets_more_in_only_if_somebody_is_refused_and_within_the_goal() {
        assert_eq!(delay_ms(&Seen { percentile_ms: 50.0, ..SEEN }), 100.0);
        assert!((delay_ms(&Seen { percentile_ms: 50.0, refused: 1, ..SEEN }) - 110.0).abs() < 1e-9);
        assert_eq!(delay_ms(&Seen { percentile_ms: 50.0, refused: 1, delay_ms: 195.0, ..SEEN }), 200.0);
        assert_eq!(delay_ms(&Seen { percentile_ms: 170.0, refused: 1, ..SEEN }), 100.0, "in time, and none to spare");
    }

    #[test]
    fn what_is_not_known_changes_nothing() {
        for percentile_ms in [f64::NAN, f64::INFINITY, -1.0, 0.0] {
            assert_eq!(delay_ms(&Seen { percentile_ms, refused: 9, ..SEEN }), 100.0, "{percentile_ms}");
        }
        assert_eq!(delay_ms(&Seen { percentile_ms: 900.0, answers: ANSWERS_MIN - 1, ..SEEN }), 100.0);
        assert_eq!(delay_ms(&Seen { target_ms: f64::NAN, ..SEEN }), 100.0);
    }

    #[test]
    fn a_server_whose_answers_follow_the_delay_ends_near_its_goal() {
        // Answers take the delay, and 60 ms of their own.
        let mut seen = Seen { refused: 1, ..SEEN };
        for _ in 0..100 {
            seen.percentile_ms = seen.delay_ms + 60.0;
            seen.delay_ms = delay_ms(&seen);
        }
        assert!((100.0..=140.0).contains(&seen.delay_ms), "{seen:?}");
    }
}
