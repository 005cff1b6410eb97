//! The time that a core has really had, as far as it shows: a hypervisor may let it stand still.
//!
//! A core shows that it runs when it passes a safe point of its work and when it answers a knock (an NMI). The time from one sign to the
//! next counts as its own, up to [`SIGN_MS`] of it: if more passed, it may have stood still. Knocks that come as often leave no gap.
//!
//! A host that gives a core moments only, or has it wait at each new page, lets it answer all knocks and get on with nothing. So the safe points
//! that the core has passed are counted, too: work without an end passes many.

use core::sync::atomic::{AtomicU64, Ordering};

/// Of the time between two signs so much counts at most, ms.
pub const SIGN_MS: u64 = 10;

/// The own time of a core, in cycles.
#[derive(Default)]
pub struct OwnTime {
    sign_at: AtomicU64,
    ran: AtomicU64,
    /// The time that it had run when it was asked to end its work.
    asked_at: AtomicU64,
    /// Safe points that it has passed since.
    points: AtomicU64,
}

/// The doings of a core since it was asked to end its work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SinceAsked {
    /// The time that it has run, cycles.
    pub ran: u64,
    /// The safe points that it has passed.
    pub points: u64,
}

impl OwnTime {
    /// Makes that of a core that has shown nothing yet.
    pub const fn new() -> OwnTime {
        const ZERO: AtomicU64 = AtomicU64::new(0);
        OwnTime { sign_at: ZERO, ran: ZERO, asked_at: ZERO, points: ZERO }
    }

    /// The core shows that it runs now. Called on that core.
    pub fn sign(&self, now_cycles: u64, cycles_per_ms: u64) {
        let since = now_cycles.saturating_sub(self.sign_at.swap(now_cycles, Ordering::Relaxed));
        self.ran.fetch_add(since.min(SIGN_MS.saturating_mul(cycles_per_ms)), Ordering::Relaxed);
    }

    /// The core is asked to end its work, by any core.
    pub fn ask(&self) {
        self.asked_at.store(self.ran.load(Ordering::Relaxed), Ordering::Relaxed);
        self.points.store(0, Ordering::Relaxed);
    }

    /// The core passes a safe point of work that it was asked to end, and so shows that it runs. Called on that core.
    pub fn pass(&self, now_cycles: u64, cycles_per_ms: u64) -> SinceAsked {
        self.sign(now_cycles, cycles_per_ms);
        let points = self.points.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        SinceAsked { ran: self.since_asked(), points }
    }

    /// Returns how long the core has run since it was asked, cycles.
    pub fn since_asked(&self) -> u64 {
        self.ran.load(Ordering::Relaxed).saturating_sub(self.asked_at.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cycles of a millisecond.
    const MS: u64 = 1000;

    /// Shows signs every so many ms, for a second; says how long the core has run, ms.
    fn ran_ms(every_ms: u64) -> u64 {
        let own = OwnTime::new();
        own.sign(77 * MS, MS);
        own.ask();
        (1..=1000 / every_ms).for_each(|sign| own.sign((77 + sign * every_ms) * MS, MS));
        own.since_asked() / MS
    }

    #[test]
    fn a_core_that_shows_often_that_it_runs_has_all_its_time() {
        assert_eq!((ran_ms(1), ran_ms(SIGN_MS)), (1000, 1000));
    }

    #[test]
    fn a_core_that_stands_still_between_signs_has_had_little() {
        assert_eq!((ran_ms(100), ran_ms(1000)), (10 * SIGN_MS, SIGN_MS));
    }

    #[test]
    fn a_new_question_begins_anew() {
        let own = OwnTime::new();
        (0..100).for_each(|at| own.sign(at * MS, MS));
        own.ask();
        assert_eq!(own.since_asked(), 0);
        own.sign(104 * MS, MS);
        assert_eq!(own.since_asked(), 5 * MS);
        assert_eq!(own.pass(105 * MS, MS), SinceAsked { ran: 6 * MS, points: 1 });
        assert_eq!(own.pass(105 * MS, MS), SinceAsked { ran: 6 * MS, points: 2 });
        own.ask();
        assert_eq!(own.pass(105 * MS, MS), SinceAsked { ran: 0, points: 1 });
    }
}
