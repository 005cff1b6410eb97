//! Sessions, process groups and signals of descriptors: the controlling terminal, SIGPIPE, and signals from
//! terminals.

use super::terminal::{GroupSignals, Terminal, TerminalEnd, TerminalSide};
use super::terminal_nodes;
use crate::signal::action::SIG_IGN;
use crate::signal::info::{SI_KERNEL, SI_USER};
use crate::signal::{SignalInfo, forks, number};
use crate::{Errno, Tenant, Thread};
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;

impl Thread {
    /// Returns its session.
    pub(super) fn session(&self) -> i32 {
        let id = self.process().id();
        self.tenant().tree.lock().session_of(id).unwrap_or(0)
    }

    /// Returns its process group.
    pub(super) fn group(&self) -> i32 {
        let id = self.process().id();
        self.tenant().tree.lock().group_of(id).unwrap_or(0)
    }

    /// Makes a terminal the controlling one, if the thread leads a session without one and no other session has it.
    pub(super) fn adopt_terminal(&self, terminal: &Terminal) -> bool {
        let session = self.session();
        let leads = session == self.process().id();
        let has_one = self.process().files().tenant().terminal_of_session(session).is_some();
        if !leads || has_one {
            return false;
        }
        let free = terminal.session.compare_exchange(0, session, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if free {
            terminal.foreground.store(self.group(), Ordering::Release);
        }
        free
    }

    /// Lets the thread read from an end of a terminal, or stops its group (SIGTTIN) if another group has the terminal.
    ///
    /// # Errors
    /// EIO if the signal could not stop it: ignored, blocked, or sent to an orphaned group. ERESTARTSYS once it is sent.
    pub(super) fn may_read(&self, end: &TerminalEnd) -> Result<(), Errno> {
        match self.is_behind(end) {
            true if self.withstands(number::SIGTTIN) => Err(Errno::EIO),
            true => self.stop_group(number::SIGTTIN),
            false => Ok(()),
        }
    }

    /// Lets the thread change a terminal, or stops its group (SIGTTOU) if another group has the terminal. A thread that withstands the signal
    /// may do it.
    ///
    /// # Errors
    /// EIO in an orphaned group. ERESTARTSYS once the signal is sent.
    pub(super) fn may_change(&self, end: &TerminalEnd) -> Result<(), Errno> {
        match self.is_behind(end) && !self.withstands(number::SIGTTOU) {
            true => self.stop_group(number::SIGTTOU),
            false => Ok(()),
        }
    }

    /// As [`Thread::may_change`], of output: only a terminal with TOSTOP minds.
    ///
    /// # Errors
    /// As there.
    pub(super) fn may_write(&self, end: &TerminalEnd) -> Result<(), Errno> {
        match end.side() == TerminalSide::Slave && end.terminal().termios().stops_output() {
            true => self.may_change(end),
            false => Ok(()),
        }
    }

    /// Returns true if the end is the program's end of the session's terminal, and another group has its foreground.
    fn is_behind(&self, end: &TerminalEnd) -> bool {
        let terminal = end.terminal();
        let foreground = terminal.foreground.load(Ordering::Acquire);
        if end.side() == TerminalSide::Master || foreground <= 0 {
            return false;
        }
        let session = terminal.session.load(Ordering::Acquire);
        session == self.session() && foreground != self.group()
    }

    fn withstands(&self, signal: i32) -> bool {
        let blocks = self.signals.lock().blocked.has(signal);
        blocks || self.process().signals.lock().actions.get(signal).handler == SIG_IGN
    }

    fn stop_group(&self, signal: i32) -> Result<(), Errno> {
        let group = self.group();
        let is_orphaned = !self.tenant().tree.lock().orphaned(&BTreeSet::from([group])).is_empty();
        if is_orphaned {
            return Err(Errno::EIO);
        }
        let members = self.tenant().tree.lock().group_members(group);
        for process in members {
            // A standard signal that waits already says the same.
            let _ = process.send(SignalInfo::new(signal, SI_KERNEL));
        }
        Err(Errno::ERESTARTSYS)
    }

    /// Sends SIGPIPE after a write to a pipe or socket without readers.
    pub(super) fn broken_pipe(&self) {
        let info = SignalInfo::sent(number::SIGPIPE, SI_USER, self.process().id(), 0);
        // A standard signal that waits already says the same.
        let _ = self.send(info);
    }
}

impl GroupSignals for Tenant {
    fn master_has_gone(&self, terminal: Arc<Terminal>) {
        terminal_nodes::remove_soon(self.files().tenant(), terminal);
    }

    fn signal_group(&self, group: i32, signal: u32) {
        let (members, _found) = {
            let tree = self.tree.lock();
            let members = tree.group_members(group);
            let found: Vec<_> = members.iter().map(forks::Found::new).collect();
            (members, found)
        };
        for process in members {
            // As above.
            let _ = process.send_from_outside(SignalInfo::new(signal as i32, SI_KERNEL));
        }
    }
}
