//! The action of a process for each signal.

use super::number::{self, Default as DefaultAction};
use super::set::{SIGNAL_MAX, SignalSet};
use linux_raw_sys::general as raw;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The default action.
pub const SIG_DFL: u64 = 0;
/// To ignore the signal.
pub const SIG_IGN: u64 = 1;

/// `struct sigaction` of the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Action {
    /// The handler's address, SIG_DFL or SIG_IGN.
    pub handler: u64,
    /// SA_RESTART and so on.
    pub flags: u64,
    /// The address that the handler returns to.
    pub restorer: u64,
    /// Blocked while the handler runs.
    pub mask: SignalSet,
}

impl Action {
    /// Returns whether one of Linux's SA_ flags is set.
    pub fn has(&self, flag: u32) -> bool {
        self.flags & u64::from(flag) != 0
    }

    /// Returns whether the signal has no effect at all.
    pub fn ignores(&self, signal: i32) -> bool {
        match self.handler {
            SIG_IGN => true,
            SIG_DFL => number::default_of(signal) == DefaultAction::Ignore,
            _ => false,
        }
    }
}

/// The actions of a process, by signal.
#[derive(Clone)]
pub struct Actions([Action; SIGNAL_MAX as usize]);

impl Default for Actions {
    fn default() -> Actions {
        Actions([Action::default(); SIGNAL_MAX as usize])
    }
}

impl Actions {
    /// Returns the action of a signal; the default for numbers that are none.
    pub fn get(&self, signal: i32) -> Action {
        let index = usize::try_from(signal.wrapping_sub(1)).unwrap_or(usize::MAX);
        self.0.get(index).copied().unwrap_or_default()
    }

    /// Sets it.
    pub fn set(&mut self, signal: i32, action: Action) {
        let index = usize::try_from(signal.wrapping_sub(1)).unwrap_or(usize::MAX);
        if let Some(slot) = self.0.get_mut(index) {
            *slot = action;
        }
    }

    /// Returns the signals that are ignored by SIG_IGN, and those that have a handler.
    pub fn handled(&self) -> (SignalSet, SignalSet) {
        let of = |wanted: fn(u64) -> bool| {
            let bits = (0u64..).zip(&self.0).filter(|(_, action)| wanted(action.handler));
            SignalSet(bits.fold(0, |set, (index, _)| set | 1 << index))
        };
        (of(|handler| handler == SIG_IGN), of(|handler| handler != SIG_IGN && handler != SIG_DFL))
    }

    /// Resets them for execve: ignored signals stay ignored, handlers are gone.
    pub fn reset_for_new_program(&mut self) {
        for action in &mut self.0 {
            let handler = if action.handler == SIG_IGN { SIG_IGN } else { SIG_DFL };
            *action = Action { handler, ..Action::default() };
        }
    }
}

/// Flags of sigaction that are known and kept.
pub const FLAGS_KNOWN: u64 = (raw::SA_NOCLDSTOP
    | raw::SA_NOCLDWAIT
    | raw::SA_SIGINFO
    | raw::SA_ONSTACK
    | raw::SA_RESTART
    | raw::SA_NODEFER
    | raw::SA_RESETHAND
    | raw::SA_RESTORER) as u64;
