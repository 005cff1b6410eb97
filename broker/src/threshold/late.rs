//! The load at which a service was late: what a law remembers of its last step to the service.
//!
//! A percentile tells that a service has more than it needs. It does not tell what a step less does: one core may be late
//! from a load on at which two are early. The last step to the service tells: before it, so many answers were late. A
//! step back that would leave no more for about as many answers is not made.
//!
//! Services become faster, and a window may be late for another reason than its load. A service that was early for
//! [`TRIAL_TURNS`] turns gives the step back as a trial, and what was remembered is forgotten. A trial that fails costs
//! about a turn of late windows, so nine of ten windows are in time even if each one does. Each doubles the time to the
//! next.

use crate::number::positive;

/// Turns for which a service is early before the first trial.
const TRIAL_TURNS: u64 = 10;
/// Turns before a trial after others that failed, at most.
const TRIAL_TURNS_MAX: u64 = 160;
/// The answers must have fallen by this part of the part of its holding that the service would give: 15 % for one core of two.
const FALL: f64 = 0.3;
/// A trial fails if the service is late at fewer answers than those at which it was late before, divided by this.
const SAME: f64 = 0.85;

/// A step back that an early window offers.
#[derive(Clone, Copy)]
pub struct Offer {
    /// Answers in the window.
    pub beats: u64,
    /// The part that the service holds, above 0.
    pub held: f64,
    /// The part that it would give, at most all of it.
    pub step: f64,
    /// Time since the window before, in nanoseconds.
    pub passed_ns: u64,
    /// Least time between a step and one back, in nanoseconds.
    pub turn_ns: u64,
}

/// The answer to an offer.
#[derive(Clone, Copy)]
pub enum Verdict {
    /// Nothing speaks against it.
    Free,
    /// The rest was late at so many answers.
    Needed { late_at: u64 },
    /// The rest was late at so many answers, but the service was early for so long that it is tried.
    Trial { late_at: u64, early_ns: u64 },
}

/// The memory of a law.
#[derive(Clone, Copy, Debug)]
pub struct Late {
    /// Answers at which the service was late, divided by the part that it held.
    per_part: Option<f64>,
    /// Those before the last trial.
    tried: Option<f64>,
    /// How long the service was early although it needed its part, in nanoseconds.
    early_ns: u64,
    /// Turns after which there is a trial.
    trial_turns: u64,
}

impl Late {
    /// Nothing yet.
    pub const NEVER: Late = Late { per_part: None, tried: None, early_ns: 0, trial_turns: TRIAL_TURNS };

    /// Judges a step back, and counts the time for which the service was early.
    pub fn judge(&mut self, offer: &Offer) -> Verdict {
        let Offer { beats, held, step, passed_ns, turn_ns } = *offer;
        let Some(per_part) = self.per_part else { return Verdict::Free };
        let late_at = per_part * (held - step);
        if beats as f64 <= late_at * (1.0 - FALL * step / held) {
            return Verdict::Free;
        }
        self.early_ns = self.early_ns.saturating_add(passed_ns);
        let (late_at, early_ns) = ((late_at + 0.5) as u64, self.early_ns);
        if early_ns < turn_ns.saturating_mul(self.trial_turns) {
            Verdict::Needed { late_at }
        } else {
            Verdict::Trial { late_at, early_ns }
        }
    }

    /// A late service that held this part takes a step.
    pub fn takes(&mut self, beats: u64, held: f64) {
        let now = positive(beats as f64 / held);
        let has_failed = self.tried.zip(now).is_some_and(|(tried, now)| now * SAME <= tried);
        let trial_turns = if has_failed { self.trial_turns.saturating_mul(2) } else { TRIAL_TURNS };
        *self = Late { per_part: now, trial_turns: trial_turns.min(TRIAL_TURNS_MAX), ..Late::NEVER };
    }

    /// The service gives a step back because its load has fallen.
    pub fn gives(&mut self) {
        self.early_ns = 0;
    }

    /// The service gives a step back as a trial.
    pub fn tries(&mut self) {
        *self = Late { tried: self.per_part, trial_turns: self.trial_turns, ..Late::NEVER };
    }
}
