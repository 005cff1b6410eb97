//! A machine's end in order, with a bound on how long it may take.

use std::{process::ExitStatus, time::Duration};

use gyre_contract::zones::{Command, State, View, Zones};

use super::Running;
use crate::{
    qemu,
    ui::{self, Step},
    zone::{self, wish},
};

/// How long programs have after SIGTERM.
const GRACE: Duration = Duration::from_secs(3);
/// How long the whole may take before the emulator is killed: the kernel's own bounds (grace, 2 s, 30 s) and a little;
/// in time that QEMU had or left unused.
const LIMIT: Duration = Duration::from_secs(37);
const STEP: Duration = Duration::from_millis(10);

impl Running {
    /// Ends the machine in order: its programs, then its file systems, then itself. A part that does not end in time is killed, and a
    /// warning says so.
    pub fn end(&mut self) {
        if self.has_ended() {
            return;
        }
        let step = Step::start("ending");
        self.end_zones();
        let mut span = self.qemu.span();
        // In a thread: a machine of one core may end before it has answered, and what counts is its end.
        let agent = self.agent.clone();
        let asked = std::thread::spawn(move || agent.end(GRACE));
        let mut answer = None;
        let mut asked = Some(asked);
        while span.passed() < LIMIT && !self.has_ended() && !matches!(answer, Some(Err(_))) {
            if asked.as_ref().is_some_and(std::thread::JoinHandle::is_finished) {
                answer = asked.take().and_then(|asked| asked.join().ok());
            }
            std::thread::sleep(STEP);
        }
        if let (Some(Err(failure)), false) = (&answer, self.has_ended()) {
            drop(step);
            let why = &failure.report;
            return ui::warn(&format!(
                "the machine does not end in order, so QEMU is ended; its file systems stay in use: {why}"
            ));
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
                ui::warn(&format!(
                    "the machine did not end in {limit} s, so QEMU is ended; its file systems stay in use"
                ));
            }
        }
    }

    /// Ends all zones in order: their programs, then their file systems. The supervisor does not end before they have.
    fn end_zones(&mut self) {
        let Some(zones) = self.zones() else { return };
        let commands = endings(&zones);
        if commands.is_empty() {
            return;
        }
        let mut span = self.qemu.span();
        let agent = self.agent.clone();
        // In a thread: a supervisor that hangs must not hold up its own end.
        let asked = std::thread::spawn(move || zone::make(&agent, &commands, &zones));
        while span.passed() < LIMIT && !asked.is_finished() && !self.has_ended() {
            std::thread::sleep(STEP);
        }
        let why = match asked.is_finished().then(|| asked.join()) {
            Some(Ok(Ok(()))) => return,
            Some(Ok(Err(failure))) => failure.report.to_string(),
            Some(Err(_)) | None => format!("the supervisor did not answer in {} s", LIMIT.as_secs()),
        };
        ui::warn(&format!("the zones do not end in order; their file systems stay in use: {why}"));
    }

    fn has_ended(&mut self) -> bool {
        !matches!(self.qemu.ended(), Ok(None))
    }
}

/// Returns a command for each zone that runs.
fn endings(zones: &Zones) -> Vec<Command> {
    let runs = |zone: &&View| matches!(zone.state, State::Booting | State::Running);
    let destroy = |zone: &View| Command::Destroy { zone: zone.name.clone(), grace_ms: wish::ms(GRACE) };
    zones.zones.iter().filter(runs).map(destroy).collect()
}

fn odd_end(status: ExitStatus, running: &Running) -> String {
    let sentence = running.qemu.end(status).sentence();
    format!("while it was to end: {sentence}; its console's log is {}", running.console.display())
}
