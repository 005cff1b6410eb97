//! How long a core waits for a lock before it takes the wait for one without an end.
//!
//! Two cores that wait for each other notice nothing, and no other core watches them on a machine of two cores. The patience counts time
//! that this core has had, look by look, and only as far as the holder has shown meanwhile that it runs, too: it is knocked at. So a
//! hypervisor that lets one of the two stand still ends nothing. A holder that answers no knock at all is waited for longer.

/// Time after which a lock is taken for one that never opens, ms. The longest work under a lock takes some milliseconds.
pub const PATIENCE_MS: u64 = 5_000;
/// Time after which it is if its holder shows no sign, ms: as long as cores that watch each other wait for one that answers nothing.
pub const SILENCE_MS: u64 = 120_000;
/// A holder that has shown no sign for so long excuses this core's own wait, ms.
const EXCUSE_MS: u64 = 500;
/// Most that counts between two looks at the clock, ms.
const LOOK_MS: u64 = 1;
/// A wait of less than this knocks at nobody, ms.
const QUIET_MS: u64 = 100;
/// Time between two knocks, and the most that counts for an answer, ms.
const KNOCK_MS: u64 = 10;
/// Rounds of waiting from one look at the clock to the next.
const ROUNDS: u32 = 1 << 10;

/// The state of a wait for a lock. Times are in cycles, and this core's own.
#[derive(Default)]
pub(crate) struct Patience {
    rounds: u32,
    looked_at: u64,
    /// The time that both this core and the holder had.
    waited: u64,
    /// The time since the holder's last sign.
    silent: u64,
    /// The time since the last knock.
    quiet: u64,
    /// Knocks that the holder had answered at its last sign.
    answers: u64,
}

/// The next step of a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Next {
    Wait,
    Knock,
    GiveUp,
}

impl Patience {
    pub(crate) fn new() -> Patience {
        Patience { looked_at: gyre_machine::now(), ..Patience::default() }
    }

    /// One more round of a wait for a core; true once the wait has taken too long.
    #[inline]
    pub(crate) fn is_over(&mut self, holder: u32) -> bool {
        self.rounds = self.rounds.wrapping_add(1);
        self.rounds.is_multiple_of(ROUNDS) && self.is_over_now(holder as usize)
    }

    #[cold]
    fn is_over_now(&mut self, holder: usize) -> bool {
        let now = gyre_machine::now();
        let next = self.look(now, gyre_machine::knocks_answered_by(holder));
        if next == Next::Knock {
            gyre_machine::knock(holder);
        }
        if self.silent >= cycles(EXCUSE_MS) {
            // Cores that watch this one see that it has not hung: it waits for one that the host holds back.
            gyre_machine::mark_work(now);
        }
        next == Next::GiveUp
    }

    fn look(&mut self, now: u64, answers: u64) -> Next {
        let since = now.saturating_sub(core::mem::replace(&mut self.looked_at, now)).min(cycles(LOOK_MS));
        self.silent = self.silent.saturating_add(since);
        self.quiet = self.quiet.saturating_add(since);
        let knocks = self.waited >= cycles(QUIET_MS);
        if !knocks || answers != self.answers {
            self.answers = answers;
            let had = core::mem::take(&mut self.silent).min(cycles(KNOCK_MS));
            self.waited = self.waited.saturating_add(had);
        }
        if self.waited >= cycles(PATIENCE_MS) || self.silent >= cycles(SILENCE_MS) {
            return Next::GiveUp;
        }
        if knocks && self.quiet >= cycles(KNOCK_MS) {
            self.quiet = 0;
            return Next::Knock;
        }
        Next::Wait
    }
}

fn cycles(ms: u64) -> u64 {
    ms.saturating_mul(gyre_machine::cycles_per_ms())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The doings of the core that holds the lock.
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Holder {
        Runs,
        /// It stands still, or takes no NMI.
        Nothing,
        /// It gets its core for a moment each second of the waiter.
        Seldom,
    }

    /// Looks so many ms apart until the wait is over; says after how many looks it was.
    fn looks_until_over(holder: Holder, every_ms: u64) -> u64 {
        let mut patience = Patience::default();
        let (mut answers, mut is_knocked) = (7, false);
        let step = every_ms * gyre_machine::cycles_per_ms();
        let over = |look: &u64| {
            let may_answer = holder == Holder::Runs || holder == Holder::Seldom && look.is_multiple_of(1000);
            if may_answer && core::mem::take(&mut is_knocked) {
                answers += 1;
            }
            let next = patience.look(look * step, answers);
            is_knocked |= next == Next::Knock;
            next == Next::GiveUp
        };
        (1..).find(over).unwrap()
    }

    #[test]
    fn a_wait_for_a_core_that_runs_is_over_after_its_time() {
        let looks = looks_until_over(Holder::Runs, 1);
        assert!((PATIENCE_MS..PATIENCE_MS + PATIENCE_MS / 5).contains(&looks), "{looks}");
    }

    #[test]
    fn a_pause_of_the_machine_is_no_wait() {
        let looks = looks_until_over(Holder::Runs, 60_000);
        assert!((PATIENCE_MS..PATIENCE_MS + PATIENCE_MS / 5).contains(&looks), "{looks}");
    }

    #[test]
    fn a_holder_that_shows_no_sign_is_waited_for_longer() {
        let looks = looks_until_over(Holder::Nothing, 1);
        assert!((SILENCE_MS..SILENCE_MS + 2 * QUIET_MS).contains(&looks), "{looks}");
    }

    #[test]
    fn a_holder_that_stands_still_again_and_again_is_waited_for_much_longer() {
        let looks = looks_until_over(Holder::Seldom, 1);
        assert!(looks > 60 * PATIENCE_MS, "{looks}");
    }

    #[test]
    fn a_short_wait_never_looks_at_the_clock() {
        let mut patience = Patience::new();
        assert!((1..ROUNDS).all(|_| !patience.is_over(0)));
    }
}
