//! Open ends of a terminal: the program's and the typist's.

use super::Terminal;
use crate::Errno;
use alloc::sync::Arc;
use gyre_interface::{Readiness, Ready};
use linux_raw_sys::general as raw;

/// Which end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TerminalSide {
    /// The program's.
    Slave,
    /// The typist's.
    Master,
}

/// An open end of a terminal.
pub struct TerminalEnd {
    pub(super) terminal: Arc<Terminal>,
    pub(super) side: TerminalSide,
}

impl TerminalEnd {
    /// Returns the terminal.
    pub fn terminal(&self) -> &Arc<Terminal> {
        &self.terminal
    }

    /// Returns its side.
    pub fn side(&self) -> TerminalSide {
        self.side
    }

    /// Returns its readiness.
    pub fn readiness(&self) -> &Arc<Readiness> {
        match self.side {
            TerminalSide::Slave => &self.terminal.slave,
            TerminalSide::Master => &self.terminal.master,
        }
    }

    /// Returns how long a read waits at most, ns; none if it waits until there is something.
    pub fn read_wait_ns(&self) -> Option<u64> {
        match self.side {
            TerminalSide::Slave => self.terminal.termios().read_wait_ns(),
            TerminalSide::Master => None,
        }
    }

    /// Reads cooked or output bytes, as its side says.
    ///
    /// # Errors
    /// EAGAIN; EIO after the other end has gone.
    pub fn read(&self, into: &mut [u8]) -> Result<usize, Errno> {
        match self.side {
            TerminalSide::Slave => self.terminal.read_slave(into),
            TerminalSide::Master => self.terminal.read_master(into),
        }
    }

    /// Writes typed or output bytes, as its side says.
    ///
    /// # Errors
    /// EAGAIN; ENOMEM; EIO after the other end has gone.
    pub fn write(&self, data: &[u8]) -> Result<usize, Errno> {
        match self.side {
            TerminalSide::Slave => self.terminal.write_slave(data),
            TerminalSide::Master => self.terminal.input(data),
        }
    }
}

impl Drop for TerminalEnd {
    fn drop(&mut self) {
        let terminal = &self.terminal;
        let mut state = terminal.state.lock();
        match self.side {
            TerminalSide::Slave => {
                state.slaves = state.slaves.saturating_sub(1);
                if state.slaves == 0 {
                    terminal.master.set(Ready::HANG_UP);
                }
            }
            TerminalSide::Master => {
                state.master_open = false;
                terminal.publish(&state);
                drop(state);
                terminal.signal(raw::SIGHUP);
                terminal.signal(raw::SIGCONT);
                terminal.signals.master_has_gone(terminal.clone());
            }
        }
    }
}
