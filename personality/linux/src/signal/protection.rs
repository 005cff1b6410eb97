//! The protection of a tenant's first process: a signal of its own tenant that it does not handle does not reach it, SIGKILL and SIGSTOP
//! included (pid_namespaces(7); Linux: SIGNAL_UNKILLABLE). Its own faults end it, and so does who ends the tenant from outside.

use super::action::SIG_DFL;
use super::number::{self, Default as DefaultAction};
use crate::process::ProcessSignals;

/// The number of a tenant's first process.
pub const FIRST: i32 = 1;

/// The protection of a process from what signals do by default.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Protection {
    /// They do.
    #[default]
    None,
    /// They are dropped.
    First,
}

impl Protection {
    /// Returns the protection with which the process of this number begins.
    pub fn of(process: i32) -> Protection {
        if process == FIRST { Protection::First } else { Protection::None }
    }
}

impl ProcessSignals {
    /// True if the signal would do what it does by default, and may not.
    pub(crate) fn protects_from(&self, signal: i32) -> bool {
        self.protection == Protection::First && self.actions.get(signal).handler == SIG_DFL
    }

    /// True if the signal has no effect at all.
    pub(crate) fn ignores(&self, signal: i32) -> bool {
        self.actions.get(signal).ignores(signal) || self.protects_from(signal)
    }

    /// Somebody outside of the tenant sends it: if it ends processes by default, it may end this one.
    pub(crate) fn admit_from_outside(&mut self, signal: i32) {
        if number::default_of(signal) == DefaultAction::End {
            self.admit(signal);
        }
    }

    /// An instruction of its own caused it.
    pub(crate) fn admit(&mut self, signal: i32) {
        if self.protects_from(signal) {
            self.protection = Protection::None;
        }
    }
}
