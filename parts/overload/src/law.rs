//! The law: a limit that falls with the load level and rises by itself while there is no load.

use crate::Sight;

/// The level of the target delay; all levels are in thousandths of it.
pub const HIGH: u32 = 1000;
/// Below this level a limit that is used may rise.
pub const LOW: u32 = 700;
/// The least limit: some flows are always served, else nothing could be learnt.
pub const LIMIT_MIN: u32 = 8;
/// The largest limit.
pub const LIMIT_MAX: u32 = 100_000;
/// The limit before anything is known.
const LIMIT_FIRST: u32 = 16;
/// Bounds of the part of the limit that one look leaves, thousandths: least and most.
const DOWN: core::ops::RangeInclusive<u32> = 700..=980;
/// Looks at high water after which flows may be ended.
const HOT_LOOKS: u32 = 10;
/// The shortest target delay, ns: below it clocks and turns are all that is measured.
const DELAY_NS_MIN: u64 = 1_000_000;

/// The means that the owner of the queues allows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Means {
    /// New flows are refused.
    Refuse,
    /// New flows are refused, and if that is too slow, young ones are ended with what they have got.
    RefuseAndEnd,
}

/// The state of the law.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// The delay is below high water, and was below low water since it was last above.
    Calm,
    /// The delay was above high water and has not been below low water since.
    Refusing,
    /// As [`State::Refusing`], and flows end too slowly: so many of the youngest must be ended now.
    Ending(u32),
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Law {
    delay_ns: u64,
    means: Means,
    state: State,
    limit: u32,
    level: u32,
    looked_ns: u64,
    hot: Hot,
}

/// Looks at high water since the law was last calm or ended flows, and what ended in them.
#[derive(Clone, Copy, Default, Debug)]
struct Hot {
    looks: u32,
    ended: u32,
}

impl Law {
    /// Makes a law for a target delay, ns, that begins to look at `now_ns`.
    #[must_use]
    pub fn new(delay_ns: u64, means: Means, now_ns: u64) -> Law {
        Law {
            delay_ns: delay_ns.max(DELAY_NS_MIN),
            means,
            state: State::Calm,
            limit: LIMIT_FIRST,
            level: 0,
            looked_ns: now_ns,
            hot: Hot::default(),
        }
    }

    /// Keeps another target delay, ns, from now on. Level and limit move with the next look.
    pub fn set_delay(&mut self, delay_ns: u64) {
        self.delay_ns = delay_ns.max(DELAY_NS_MIN);
    }

    /// Returns the target delay, ns.
    #[must_use]
    pub fn delay_ns(&self) -> u64 {
        self.delay_ns
    }

    /// Returns how many flows may be open.
    #[must_use]
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// Returns the load level of the last look: delay by target delay, in thousandths.
    #[must_use]
    pub fn level(&self) -> u32 {
        self.level
    }

    /// Returns the state after the last look.
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// Takes what was seen since the look before, and moves level, limit and state. A look at no later time than the one before changes
    /// nothing, and asks for nothing to be ended.
    pub fn look(&mut self, seen: &Sight, now_ns: u64) -> State {
        let passed_ns = now_ns.saturating_sub(self.looked_ns);
        if passed_ns == 0 {
            if let State::Ending(_) = self.state {
                self.state = State::Refusing;
            }
            return self.state;
        }
        self.looked_ns = now_ns;
        self.level = level(seen.delay_ns(passed_ns), self.delay_ns);
        self.move_limit(seen.open);
        self.state = self.next_state(seen);
        self.state
    }

    fn move_limit(&mut self, open: u32) {
        if self.level > HIGH {
            let kept = per_thousand_of_inverse(self.level).clamp(*DOWN.start(), *DOWN.end());
            self.limit = thousandths(self.limit.min(open), kept);
        } else if self.level < LOW && is_used(open, self.limit) {
            self.limit = self.limit.saturating_add((self.limit / 20).max(2));
        }
        self.limit = self.limit.clamp(LIMIT_MIN, LIMIT_MAX);
    }

    fn next_state(&mut self, seen: &Sight) -> State {
        if self.level < LOW || (self.state == State::Calm && self.level <= HIGH) {
            self.hot = Hot::default();
            return State::Calm;
        }
        if self.level > HIGH {
            self.hot.looks = self.hot.looks.saturating_add(1);
            self.hot.ended = self.hot.ended.saturating_add(seen.ended);
        }
        match self.must_end(seen.open) {
            true => {
                self.hot = Hot::default();
                State::Ending((seen.open / 10).max(1))
            }
            false => State::Refusing,
        }
    }

    /// True if refusing did not help: more than [`HOT_LOOKS`] looks in which less than a twentieth of the flows ended.
    fn must_end(&self, open: u32) -> bool {
        let is_slow = u64::from(self.hot.ended).saturating_mul(20) < u64::from(open);
        self.means == Means::RefuseAndEnd && self.hot.looks > HOT_LOOKS && is_slow
    }
}

/// True if at least nine tenths of a limit are open: only then is it what holds flows back.
fn is_used(open: u32, limit: u32) -> bool {
    u64::from(open).saturating_mul(10) >= u64::from(limit).saturating_mul(9)
}

/// A delay in thousandths of its target.
fn level(delay_ns: u64, target_ns: u64) -> u32 {
    let level = u128::from(delay_ns).saturating_mul(u128::from(HIGH)).checked_div(u128::from(target_ns));
    level.and_then(|level| u32::try_from(level).ok()).unwrap_or(u32::MAX)
}

/// 1 / level, both in thousandths.
fn per_thousand_of_inverse(level: u32) -> u32 {
    (HIGH.saturating_mul(HIGH)).checked_div(level).unwrap_or(u32::MAX)
}

fn thousandths(count: u32, kept: u32) -> u32 {
    u32::try_from(u64::from(count).saturating_mul(u64::from(kept)) / 1000).unwrap_or(u32::MAX)
}
