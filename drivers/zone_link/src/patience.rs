//! How long a peer without room may hold senders back.
//!
//! ```text
//!   prompt --no room--> holding --half of the room is free--> prompt
//!                          | longer than its patience
//!                         late (frames without room are dropped) --half of the room is free--> prompt
//! ```
//! The links of an instance share one gate, so a peer that is late would hold back the frames to all others. Each lapse halves the patience
//! that the peer gets from then on, each second without one doubles it.

use gyre_machine::cycles_per_ms;

/// The longest patience, ms.
const PATIENCE_MS: u64 = 8;
/// Time after which a lapse counts half, ms.
const FORGET_MS: u64 = 1000;
/// Halves that are remembered: the patience ends at nothing.
const LAPSES_MAX: u32 = 16;

/// Whether senders wait for the peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Prompt,
    Holding { since: u64 },
    Late,
}

/// The patience with one peer. Times are in cycles.
#[derive(Debug)]
pub(crate) struct Patience {
    state: State,
    lapses: u32,
    lapsed_at: u64,
}

impl Patience {
    pub(crate) fn new() -> Patience {
        Patience { state: State::Prompt, lapses: 0, lapsed_at: 0 }
    }

    /// There is no room: returns true if senders are to wait, false if their frames are dropped.
    pub(crate) fn holds(&mut self, now: u64) -> bool {
        match self.state {
            State::Prompt if self.patience(now) == 0 => false,
            State::Prompt => {
                self.state = State::Holding { since: now };
                true
            }
            State::Holding { .. } => true,
            State::Late => false,
        }
    }

    /// Half of the room is free.
    pub(crate) fn end(&mut self) {
        self.state = State::Prompt;
    }

    pub(crate) fn is_late(&self) -> bool {
        self.state == State::Late
    }

    pub(crate) fn is_holding(&self) -> bool {
        matches!(self.state, State::Holding { .. })
    }

    /// Looks at the clock; returns true if the peer has become late now.
    pub(crate) fn has_lapsed(&mut self, now: u64) -> bool {
        let State::Holding { since } = self.state else { return false };
        if now.saturating_sub(since) <= self.patience(now) {
            return false;
        }
        self.lapses = self.lapses_at(now).saturating_add(1).min(LAPSES_MAX);
        (self.state, self.lapsed_at) = (State::Late, now);
        true
    }

    fn lapses_at(&self, now: u64) -> u32 {
        let forget = cycles_per_ms().saturating_mul(FORGET_MS).max(1);
        let forgotten = now.saturating_sub(self.lapsed_at).checked_div(forget).unwrap_or(0);
        self.lapses.saturating_sub(u32::try_from(forgotten).unwrap_or(u32::MAX))
    }

    fn patience(&self, now: u64) -> u64 {
        let longest = cycles_per_ms().saturating_mul(PATIENCE_MS);
        // the last half is nothing
        let halves = self.lapses_at(now);
        if halves >= LAPSES_MAX { 0 } else { longest.checked_shr(halves).unwrap_or(0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_is_late_again_and_again_holds_nobody_back() {
        let (mut patience, mut now, mut held) = (Patience::new(), 0, 0);
        let ms = cycles_per_ms();
        for _ in 0..100 {
            assert!(!patience.is_late());
            let begun = now;
            while patience.holds(now) && !patience.has_lapsed(now) {
                now += ms / 64;
            }
            held += now - begun;
            patience.end();
        }
        assert!(held < 2 * PATIENCE_MS * ms + 100 * ms / 16, "{} us", held * 1000 / ms);
        now += 20 * FORGET_MS * ms;
        assert!(patience.holds(now) && !patience.has_lapsed(now + PATIENCE_MS * ms), "it is forgotten");
        assert!(patience.has_lapsed(now + PATIENCE_MS * ms + 1) && patience.is_late());
        assert!(!patience.holds(now));
    }
}
