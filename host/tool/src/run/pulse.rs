//! Whether a machine answers: its agent is asked each second. Time that the host did not give to QEMU does not count.

use std::time::{Duration, Instant};

use crate::qemu::Qemu;

/// Silence of which the owner is told.
const TOLD_AFTER: Duration = Duration::from_secs(10);
/// Steps longer than this are those of a host that had no time for us either.
const STEP_MAX: Duration = Duration::from_secs(2);

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
    silent: Duration,
    answers: u64,
    looked: Instant,
    cpu_s: f64,
    is_told: bool,
}

impl Pulse {
    /// Begins; without patience nothing is ever too long.
    pub fn new(patience: Option<Duration>) -> Self {
        Self { patience, silent: Duration::ZERO, answers: 0, looked: Instant::now(), cpu_s: 0.0, is_told: false }
    }

    /// Looks once more; `answers` is how many there have been so far.
    pub fn look(&mut self, answers: u64, qemu: &Qemu) -> Silence {
        let passed = self.looked.elapsed();
        self.looked = Instant::now();
        let cpu_s = qemu.cpu_seconds();
        let had = Duration::from_secs_f64((cpu_s - self.cpu_s).max(0.0));
        self.cpu_s = cpu_s;
        // One that wants to run and gets no time cannot answer; one that is stopped or waits could.
        let counted = if qemu.wants_to_run() { passed.min(had) } else { passed };
        self.count(answers, counted.min(STEP_MAX))
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
        let mut pulse = Pulse::new(Some(second * 20));
        let said: Vec<Silence> = (0..20).map(|_| pulse.count(0, second)).collect();
        assert_eq!(said.iter().filter(|one| **one != Silence::Nothing).count(), 2);
        assert_eq!((&said[9], &said[19]), (&Silence::Long(second * 10), &Silence::TooLong(second * 20)));
        assert_eq!(pulse.count(1, second), Silence::Nothing, "it answers again");
        assert_eq!(pulse.count(1, second), Silence::Nothing);
        let mut patient = Pulse::new(None);
        assert!((0..1000).all(|_| !matches!(patient.count(0, second), Silence::TooLong(_))));
    }
}
