//! A machine's end in order, with a bound on how long it may take.

use std::{
    process::ExitStatus,
    time::{Duration, Instant},
};

use super::Running;
use crate::{
    qemu,
    ui::{self, Step},
};

/// How long programs have after SIGTERM.
const GRACE: Duration = Duration::from_secs(3);
/// How long the whole may take before the emulator is killed: the kernel's own bounds (grace, 2 s, 30 s) and a little.
const LIMIT: Duration = Duration::from_secs(37);
const STEP: Duration = Duration::from_millis(10);

impl Running {
    /// Ends the machine in order: its programs, then its file systems, then itself. What does not end in time is killed, and a
    /// warning says so.
    pub fn end(&mut self) {
        if self.has_ended() {
            return;
        }
        let step = Step::start("ending");
        let started = Instant::now();
        if let Err(failure) = self.agent.end(GRACE) {
            drop(step);
            return ui::warn(&format!("the machine is killed, its file systems stay in use: {}", failure.report));
        }
        while started.elapsed() < LIMIT && !self.has_ended() {
            std::thread::sleep(STEP);
        }
        match self.qemu.ended() {
            Ok(Some(status)) if qemu::is_orderly(status) => step.done(),
            Ok(Some(status)) => {
                drop(step);
                ui::warn(&odd_end(status, self));
            }
            _ => {
                drop(step);
                let limit = LIMIT.as_secs();
                ui::warn(&format!("the machine did not end in {limit} s: it is killed, its file systems stay in use"));
            }
        }
    }

    fn has_ended(&mut self) -> bool {
        !matches!(self.qemu.ended(), Ok(None))
    }
}

fn odd_end(status: ExitStatus, running: &Running) -> String {
    format!("the machine ended, but not in order ({status}); its console's log is {}", running.console.display())
}
