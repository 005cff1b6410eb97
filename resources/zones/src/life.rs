//! When a zone stands, has ended, or counts as dead; and when it is made again.

use crate::instances::Life;
use gyre_contract::zones::{Cause, Restart, State};
use gyre_machine::ZoneLife;

/// How long a zone may boot, ns, if its patience is not longer.
pub(crate) const BOOT_NS_MAX: u64 = 5_000_000_000;
/// Looks without a sign before a zone counts as hung, however late they come.
const LOOKS_MIN: u64 = 4;
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
    /// When it was looked at last, or made, ns.
    looked_ns: u64,
    /// How long it has given no sign, ns: each look counts a part of the patience at most, since the host may have let the whole machine stand
    /// still before it.
    silent_ns: u64,
    stands: bool,
}

impl Signs {
    /// The signs of an instance that starts now.
    pub(crate) fn new(now_ns: u64) -> Signs {
        Signs { beats: 0, looked_ns: now_ns, silent_ns: 0, stands: false }
    }

    /// Looks at a zone. All that `life` says may be a lie: a zone that lies about its life ends or lives on as it says, and no other one
    /// notices.
    pub(crate) fn look(&mut self, life: Life, patience_ns: u64, now_ns: u64) -> Verdict {
        match life.state {
            ZoneLife::ENDED => return Verdict::Ended(life.code as u8),
            ZoneLife::PANICKED => return Verdict::Dead(Cause::Panic),
            _ => {}
        }
        let patience_ns = self.patience_ns(patience_ns);
        let since_ns = now_ns.saturating_sub(self.looked_ns).min(patience_ns / LOOKS_MIN);
        (self.looked_ns, self.silent_ns) = (now_ns, self.silent_ns.saturating_add(since_ns));
        // Beats of a zone that does not stand count for nothing: it has its time to boot, and no more.
        if life.beats != self.beats && self.stands {
            self.silent_ns = 0;
        }
        self.beats = life.beats;
        if life.state == ZoneLife::STANDING && !self.stands {
            (self.stands, self.silent_ns) = (true, 0);
            return Verdict::Stood;
        }
        match self.silent_ns >= patience_ns {
            true => Verdict::Dead(Cause::Silence),
            false => Verdict::Same,
        }
    }

    /// When it counts as hung if it gives no sign until then, and is looked at often enough.
    pub(crate) fn silent_at(&self, patience_ns: u64) -> u64 {
        self.looked_ns.saturating_add(self.patience_ns(patience_ns).saturating_sub(self.silent_ns))
    }

    /// A kernel that boots does not beat.
    fn patience_ns(&self, wished_ns: u64) -> u64 {
        if self.stands { wished_ns } else { wished_ns.max(BOOT_NS_MAX) }
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

    /// Looks at a zone in this state each 10 ms, up to a time; the answer that is not `Same`, and its time, ms.
    fn watch(signs: &mut Signs, life: Life, from_ms: u64, to_ms: u64) -> Option<(u64, Verdict)> {
        let mut looks = (from_ms..=to_ms).step_by(10).map(|ms| (ms, signs.look(life, 100 * MS, ms * MS)));
        looks.find(|(_, verdict)| *verdict != Verdict::Same)
    }

    #[test]
    fn a_zone_that_boots_has_more_patience_than_one_that_stands() {
        let mut signs = Signs::new(0);
        assert_eq!(watch(&mut signs, life(ZoneLife::BOOTING, 0), 0, 4_990), None);
        assert_eq!(signs.look(life(ZoneLife::STANDING, 1), 100 * MS, 4_990 * MS), Verdict::Stood);
        assert_eq!(watch(&mut signs, life(ZoneLife::STANDING, 1), 4_990, 5_080), None);
        assert_eq!(signs.look(life(ZoneLife::STANDING, 2), 100 * MS, 5_080 * MS), Verdict::Same);
        let silent = Some((5_180, Verdict::Dead(Cause::Silence)));
        assert_eq!(watch(&mut signs, life(ZoneLife::STANDING, 2), 5_080, 6_000), silent);
    }

    #[test]
    fn a_zone_that_never_stands_is_dead_after_five_seconds_whatever_it_beats() {
        let silent = Some((5_000, Verdict::Dead(Cause::Silence)));
        assert_eq!(watch(&mut Signs::new(0), life(ZoneLife::BOOTING, 0), 0, 6_000), silent);
        assert_eq!(watch(&mut Signs::new(0), life(u32::MAX, 0), 0, 6_000), silent);
        let mut beating = Signs::new(0);
        for second in 1..50 {
            assert_eq!(beating.look(life(ZoneLife::BOOTING, second), 100 * MS, second * 100 * MS), Verdict::Same);
        }
        assert_eq!(beating.look(life(ZoneLife::BOOTING, 5), 100 * MS, 5_000 * MS), Verdict::Dead(Cause::Silence));
    }

    #[test]
    fn a_pause_of_the_whole_machine_is_no_silence_of_a_zone() {
        let mut signs = Signs::new(0);
        assert_eq!(signs.look(life(ZoneLife::STANDING, 1), 100 * MS, MS), Verdict::Stood);
        // The supervisor looks before the zone beats, each time.
        assert_eq!(signs.look(life(ZoneLife::STANDING, 1), 100 * MS, 20_000 * MS), Verdict::Same);
        assert_eq!(signs.look(life(ZoneLife::STANDING, 1), 100 * MS, 40_000 * MS), Verdict::Same);
        assert_eq!(signs.look(life(ZoneLife::STANDING, 2), 100 * MS, 40_001 * MS), Verdict::Same);
        assert_eq!(signs.look(life(ZoneLife::STANDING, 2), 100 * MS, 60_000 * MS), Verdict::Same);
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
