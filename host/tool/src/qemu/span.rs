//! Time that counts against a machine: what its QEMU had of the host, or could have had.
//!
//! A limit in this time does not depend on the host's speed: one that wants to run and gets no time cannot answer, and
//! one that is stopped or waits could.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use super::process;

/// Steps longer than this are those of a host that had no time for us either.
const STEP_MAX: Duration = Duration::from_secs(2);
/// Time between two looks at least: the host counts CPU time in hundredths of a second.
const STEP_MIN: Duration = Duration::from_millis(100);

/// Counts such time.
pub struct Span {
    /// QEMU's process; without one all time counts.
    process: Option<u32>,
    looked: Instant,
    cpu_s: f64,
    passed: Duration,
}

impl Span {
    /// Begins to count the time of a process; all time if none is known.
    pub fn of(process: Option<u32>) -> Self {
        let cpu_s = process.map_or(0.0, process::cpu_seconds);
        Self { process, looked: Instant::now(), cpu_s, passed: Duration::ZERO }
    }

    /// Begins to count the time of the machine that runs in this folder, whichever process runs it.
    pub fn of_machine(folder: &Path) -> Self {
        Self::of(process::of_machine(folder))
    }

    /// Begins to count the time of the machine that this process runs; of the first if there are several.
    pub fn of_own() -> Self {
        Self::of(process::child_of(std::process::id()))
    }

    /// Returns how much has passed so far. It is to be asked more often than each two seconds, as a step counts no more.
    pub fn passed(&mut self) -> Duration {
        let step = self.looked.elapsed();
        if step >= STEP_MIN {
            self.looked += step;
            let counted = self.counted(step);
            self.passed += counted;
        }
        self.passed
    }

    /// Begins anew.
    pub fn restart(&mut self) {
        *self = Self::of(self.process);
    }

    fn counted(&mut self, step: Duration) -> Duration {
        let Some(process) = self.process else { return step.min(STEP_MAX) };
        let cpu_s = process::cpu_seconds(process);
        let had = Duration::from_secs_f64((cpu_s - self.cpu_s).max(0.0));
        self.cpu_s = cpu_s;
        counted(step, process::wants_to_run(process).then_some(had))
    }
}

/// Returns what counts of a step; `had` is what a QEMU that wants to run got of it, none for one that does not want to.
fn counted(step: Duration, had: Option<Duration>) -> Duration {
    had.map_or(step, |had| had.min(step)).min(STEP_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_time_that_a_machine_had_or_left_unused_counts() {
        let ms = Duration::from_millis;
        assert_eq!(counted(ms(1000), Some(ms(0))), ms(0), "it wants to run and gets nothing");
        assert_eq!(counted(ms(1000), Some(ms(300))), ms(300));
        assert_eq!(counted(ms(1000), Some(ms(1900))), ms(1000), "two of its threads ran");
        assert_eq!(counted(ms(1000), None), ms(1000), "it waits, or is stopped");
        assert_eq!(counted(ms(9000), None), STEP_MAX, "the host had no time for us either");
        assert_eq!(counted(ms(9000), Some(ms(9000))), STEP_MAX);
    }

    #[test]
    fn all_time_counts_where_no_machine_is_known() {
        let mut span = Span::of(None);
        std::thread::sleep(STEP_MIN);
        assert!(span.passed() >= STEP_MIN);
        span.restart();
        assert!(span.passed() < STEP_MIN);
    }
}
