//! Whether a machine answers: its agent is asked each second. Time that the host did not give to QEMU does not count.

use std::time::Duration;

use crate::qemu::{Qemu, Span};

/// Silence of which the owner is told.
const TOLD_AFTER: Duration = Duration::from_secs(10);

/// The news of a machine's silence.
#[derive(Debug, PartialEq, Eq)]
pub enum Silence {
    /// It answers, or has not been silent for long, or that was told.
    Nothing,
    /// It has been silent for so long; told once.
    Long(Duration),
    /// It has been silent for longer than its owner waits.
    TooLong(Duration),
}

/// Counts how long a machine has been silent.
pub struct Pulse {
    patience: Option<Duration>,
    span: Span,
    /// The span's time at the last look.
    passed: Duration,
    silent: Duration,
    answers: u64,
    is_told: bool,
}

impl Pulse {
    /// Begins; without patience nothing is ever too long.
    pub fn new(patience: Option<Duration>, qemu: &Qemu) -> Self {
        Self::with(patience, qemu.span())
    }

    fn with(patience: Option<Duration>, span: Span) -> Self {
        Self { patience, span, passed: Duration::ZERO, silent: Duration::ZERO, answers: 0, is_told: false }
    }

    /// Looks once more; `answers` is how many there have been so far.
    pub fn look(&mut self, answers: u64) -> Silence {
        let passed = self.span.passed();
        let step = passed.saturating_sub(self.passed);
        self.passed = passed;
        self.count(answers, step)
    }

    fn count(&mut self, answers: u64, passed: Duration) -> Silence {
        if answers != self.answers {
            (self.answers, self.silent, self.is_told) = (answers, Duration::ZERO, false);
            return Silence::Nothing;
        }
        self.silent += passed;
        if self.patience.is_some_and(|patience| self.silent >= patience) {
            return Silence::TooLong(self.silent);
        }
        if self.silent >= TOLD_AFTER && !std::mem::replace(&mut self.is_told, true) {
            return Silence::Long(self.silent);
        }
        Silence::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_told_once_and_ends_the_run_when_it_is_too_long() {
        let second = Duration::from_secs(1);
        let mut pulse = Pulse::with(Some(second * 20), Span::of(None));
        let said: Vec<Silence> = (0..20).map(|_| pulse.count(0, second)).collect();
        assert_eq!(said.iter().filter(|one| **one != Silence::Nothing).count(), 2);
        assert_eq!((&said[9], &said[19]), (&Silence::Long(second * 10), &Silence::TooLong(second * 20)));
        assert_eq!(pulse.count(1, second), Silence::Nothing, "it answers again");
        assert_eq!(pulse.count(1, second), Silence::Nothing);
        let mut patient = Pulse::with(None, Span::of(None));
        assert!((0..1000).all(|_| !matches!(patient.count(0, second), Silence::TooLong(_))));
    }
}
