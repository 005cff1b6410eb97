//! What descriptors need of threads and processes.

use super::terminal::{GroupSignals, Terminal};
use crate::signal::info::{SI_KERNEL, SI_USER};
use crate::signal::{SignalInfo, births, number};
use crate::{Tenant, Thread};
use alloc::vec::Vec;
use core::sync::atomic::Ordering;

impl Thread {
    /// Its session.
    pub(super) fn session(&self) -> i32 {
        let id = self.process().id();
        self.tenant().tree.lock().session_of(id).unwrap_or(0)
    }

    /// Its process group.
    pub(super) fn group(&self) -> i32 {
        let id = self.process().id();
        self.tenant().tree.lock().group_of(id).unwrap_or(0)
    }

    /// Makes a terminal the controlling one, where the thread leads a session without one and nobody else has it.
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

    /// It wrote to a pipe or socket that nobody reads.
    pub(super) fn broken_pipe(&self) {
        let info = SignalInfo::sent(number::SIGPIPE, SI_USER, self.process().id(), 0);
        // A standard signal that waits already says the same.
        let _ = self.send(info);
    }
}

impl GroupSignals for Tenant {
    fn signal_group(&self, group: i32, signal: u32) {
        let (members, _found) = {
            let tree = self.tree.lock();
            let members = tree.group_members(group);
            let found: Vec<_> = members.iter().map(births::Found::new).collect();
            (members, found)
        };
        for process in members {
            // As above.
            let _ = process.send(SignalInfo::new(signal as i32, SI_KERNEL));
        }
    }
}
