//! Wishes of a thread that it may read back, and that its children inherit: the policies of processor, disk and memory (sched(7), ioprio_set(2),
//! set_mempolicy(2)).
//!
//! They order the threads of one program for a kernel that has nobody else's shares to keep. Here the shares of tenants and processes decide, and
//! there is one node of memory, so that a wish is checked, kept and told, and divides nothing. Only SCHED_IDLE does: see
//! [`super::schedule::sched_setscheduler`].

use crate::Thread;
use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, Ordering};

/// The wishes.
#[derive(Default)]
pub struct Preferences {
    /// SCHED_*.
    pub policy: AtomicU8,
    /// IOPRIO_*: class and level.
    pub io: AtomicU16,
    /// MPOL_*, with its flags.
    pub memory: AtomicU32,
    /// The nodes of that policy, a bit each.
    pub memory_nodes: AtomicU8,
}

impl Preferences {
    /// Takes over what a maker wished.
    pub fn inherit(&self, from: &Thread) {
        let from = &from.preferences;
        self.policy.store(from.policy.load(Ordering::Relaxed), Ordering::Relaxed);
        self.io.store(from.io.load(Ordering::Relaxed), Ordering::Relaxed);
        self.memory.store(from.memory.load(Ordering::Relaxed), Ordering::Relaxed);
        self.memory_nodes.store(from.memory_nodes.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}
