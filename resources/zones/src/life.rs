//! When a zone stands, has ended, or counts as dead; and when it is made again.

use crate::instances::Life;
use gyre_contract::zones::{Cause, Restart, State};
use gyre_machine::ZoneLife;

/// How long a zone may boot, ns, if its patience is not longer.
pub(crate) const BOOT_NS_MAX: u64 = 5_000_000_000;
/// A zone that stood for so long did not crash at once, ns.
const CALM_NS: u64 = 1_000_000_000;
/// First pause before a zone that crashed at once is made again, ns.
const PAUSE_NS_MIN: u64 = 1_000_000_000;
/// Longest such pause, ns.
const PAUSE_NS_MAX: u64 = 60_000_000_000;

/// The result of a look at a zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// Nothing new.
    Same,
    /// It stands now.
    Stood,
    /// It has ended in order.
    Ended(u8),
    /// It is dead.
    Dead(Cause),
}

/// The signs of a zone's life, as they were last seen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signs {
    beats: u64,
    /// When its beats last differed, or it was made, ns.
    seen_ns: u64,
    stands: bool,
}

impl Signs {
    /// The signs of an instance that starts now.
    pub(crate) fn new(now_ns: u64) -> Signs {
        Signs { beats: 0, seen_ns: now_ns, stands: false }
    }

    /// Looks at a zone. All that `life` says may be a lie: a zone that lies about its life ends or lives on as it says, and no other one
    /// notices.
    pub(crate) fn look(&mut self, life: Life, patience_ns: u64, now_ns: u64) -> Verdict {
        match life.state {
            ZoneLife::ENDED => return Verdict::Ended(life.code as u8),
            ZoneLife::PANICKED => return Verdict::Dead(Cause::Panic),
            _ => {}
        }
        // Beats of a zone that does not stand count for nothing: it has its time to boot, and no more.
        if life.beats != self.beats && self.stands {
            self.seen_ns = now_ns;
        }
        self.beats = life.beats;
        if life.state == ZoneLife::STANDING && !self.stands {
            (self.stands, self.seen_ns) = (true, now_ns);
            return Verdict::Stood;
        }
        match now_ns >= self.silent_at(patience_ns) {
            true => Verdict::Dead(Cause::Silence),
            false => Verdict::Same,
        }
    }

    /// When it counts as hung if it gives no sign until then. A kernel that boots does not beat.
    pub(crate) fn silent_at(&self, patience_ns: u64) -> u64 {
        self.seen_ns.saturating_add(if self.stands { patience_ns } else { patience_ns.max(BOOT_NS_MAX) })
    }
}

/// How often a zone crashed at once, one time after the other.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Backoff {
    crashes: u32,
}

impl Backoff {
    /// Notes the end of an instance that stood for `stood_ns`; answers the pause before the next one, ns.
    pub(crate) fn pause_ns(&mut self, stood_ns: u64) -> u64 {
        if stood_ns >= CALM_NS {
            self.crashes = 0;
            return 0;
        }
        let doublings = self.crashes.min(PAUSE_NS_MAX.ilog2());
        self.crashes = self.crashes.saturating_add(1);
        PAUSE_NS_MIN.saturating_mul(1 << doublings).min(PAUSE_NS_MAX)
    }

    /// Forgets the past: the owner wants it to run.
    pub(crate) fn forget(&mut self) {
        self.crashes = 0;
    }
}

/// Returns true if a zone with this rule is made again after it came into this state by itself.
pub(crate) fn is_made_again(rule: Restart, state: &State) -> bool {
    match state {
        State::Crashed { .. } => rule != Restart::Never,
        State::Ended { .. } => rule == Restart::Always,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn life(state: u32, beats: u64) -> Life {
        Life { state, beats, ..Life::default() }
    }

    #[test]
    fn a_zone_that_boots_has_more_patience_than_one_that_stands() {
        let mut signs = Signs::new(0);
        assert_eq!(signs.look(life(ZoneLife::BOOTING, 0), 100 * MS, 4_999 * MS), Verdict::Same);
        assert_eq!(signs.look(life(ZoneLife::STANDING, 1), 100 * MS, 4_999 * MS), Verdict::Stood);
        assert_eq!(signs.look(life(ZoneLife::STANDING, 1), 100 * MS, 5_098 * MS), Verdict::Same);
        assert_eq!(signs.look(life(ZoneLife::STANDING, 2), 100 * MS, 5_098 * MS), Verdict::Same);
        assert_eq!(signs.look(life(ZoneLife::STANDING, 2), 100 * MS, 5_197 * MS), Verdict::Same);
        assert_eq!(signs.look(life(ZoneLife::STANDING, 2), 100 * MS, 5_198 * MS), Verdict::Dead(Cause::Silence));
    }

    #[test]
    fn a_zone_that_never_stands_is_dead_after_five_seconds_whatever_it_beats() {
        let mut signs = Signs::new(0);
        assert_eq!(signs.look(life(ZoneLife::BOOTING, 0), 100 * MS, 5_000 * MS), Verdict::Dead(Cause::Silence));
        let mut beating = Signs::new(0);
        for second in 1..5 {
            assert_eq!(beating.look(life(ZoneLife::BOOTING, second), 100 * MS, second * 1_000 * MS), Verdict::Same);
        }
        assert_eq!(beating.look(life(ZoneLife::BOOTING, 5), 100 * MS, 5_000 * MS), Verdict::Dead(Cause::Silence));
        let mut wild = Signs::new(0);
        assert_eq!(wild.look(life(u32::MAX, 0), 100 * MS, 5_000 * MS), Verdict::Dead(Cause::Silence));
    }

    #[test]
    fn a_zone_tells_its_end() {
        let mut signs = Signs::new(0);
        assert_eq!(signs.look(Life { code: 0x104, ..life(ZoneLife::ENDED, 0) }, MS, 1), Verdict::Ended(4));
        assert_eq!(signs.look(life(ZoneLife::PANICKED, 0), MS, 1), Verdict::Dead(Cause::Panic));
    }

    #[test]
    fn pauses_double_up_to_a_minute_and_end_with_a_calm_life() {
        let mut backoff = Backoff::default();
        let pauses: std::vec::Vec<u64> = (0..8).map(|_| backoff.pause_ns(0) / PAUSE_NS_MIN).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(backoff.pause_ns(CALM_NS), 0);
        assert_eq!(backoff.pause_ns(CALM_NS - 1), PAUSE_NS_MIN);
        (0..100).for_each(|_| assert!(backoff.pause_ns(0) <= PAUSE_NS_MAX));
    }

    #[test]
    fn the_rule_of_restart_is_the_descriptions() {
        let (ended, crashed) = (State::Ended { code: 0 }, State::Crashed { cause: Cause::Panic });
        let again = |rule| (is_made_again(rule, &ended), is_made_again(rule, &crashed));
        assert_eq!(again(Restart::Never), (false, false));
        assert_eq!(again(Restart::OnCrash), (false, true));
        assert_eq!(again(Restart::Always), (true, true));
        assert!(!is_made_again(Restart::Always, &State::Absent));
    }
}
