//! Signals: sending, blocking, delivering.
//!
//! A signal is sent to a process or to a thread, waits there while it is blocked, and is taken by a thread on its way back
//! to the program. Ignored signals are dropped by their sender. Lock order: tree, process' signals, thread's signals.

pub mod action;
pub mod calls;
pub mod deliver;
pub mod forks;
pub mod frame;
mod hunt;
pub mod info;
pub mod news;
pub mod number;
pub mod pending;
pub mod places;
pub mod protection;
pub mod send;
pub mod set;
pub(crate) mod unhandled;

pub use action::{Action, Actions};
pub use info::SignalInfo;
pub use pending::Pending;
pub use set::{SIGNAL_MAX, SIGNAL_REALTIME, SignalSet};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `stack_t`: the stack of handlers with SA_ONSTACK.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct AltStack {
    /// Its lowest address.
    pub address: u64,
    /// SS_DISABLE, SS_ONSTACK, SS_AUTODISARM.
    pub flags: u32,
    padding: u32,
    /// Its length.
    pub bytes: u64,
}

/// There is no alternative stack.
pub const SS_DISABLE: u32 = 2;
/// The thread runs on it.
pub const SS_ONSTACK: u32 = 1;
/// Forgotten while a handler runs on it.
pub const SS_AUTODISARM: u32 = 1 << 31;

impl Default for AltStack {
    fn default() -> AltStack {
        AltStack { address: 0, flags: SS_DISABLE, padding: 0, bytes: 0 }
    }
}

impl AltStack {
    /// Makes a stack at an address.
    pub fn new(address: u64, bytes: u64, flags: u32) -> AltStack {
        AltStack { address, flags, padding: 0, bytes }
    }

    /// Returns whether a stack pointer lies on it.
    pub fn holds(&self, stack_pointer: u64) -> bool {
        let above = stack_pointer.checked_sub(self.address);
        self.flags & SS_DISABLE == 0 && above.is_some_and(|above| (1..=self.bytes).contains(&above))
    }
}
