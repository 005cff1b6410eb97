//! Signals to several processes, and forks that run meanwhile. A child is there when such a signal looks for its
//! targets, and gets it; or it is born after its parent has the signal. Otherwise a process that forks fast enough
//! would outlive `kill(-1, SIGKILL)`.

use crate::{Errno, Process, Thread};
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};

/// The signals to several processes that found one process.
#[derive(Default)]
pub struct Forks {
    /// Counted up under the lock of the tenant's tree.
    found: AtomicU64,
    delivered: AtomicU64,
}

/// The count of such signals at the beginning of a fork.
pub(crate) struct Stamp(u64);

impl Forks {
    /// Returns whether the child of a fork with this stamp may be added to the tree. The tree's lock is held.
    fn agrees(&self, stamp: &Stamp) -> bool {
        self.found.load(Ordering::Acquire) == stamp.0
    }
}

/// Begins a fork.
///
/// # Errors
/// ERESTARTNOINTR: a signal comes first, as on Linux.
pub(crate) fn begin(thread: &Thread) -> Result<Stamp, Errno> {
    let forks = thread.process().forks();
    let delivered = forks.delivered.load(Ordering::Acquire);
    let stamp = Stamp(forks.found.load(Ordering::Acquire));
    match stamp.0 != delivered || thread.must_act() {
        true => Err(Errno::ERESTARTNOINTR),
        false => Ok(stamp),
    }
}

/// Checks, under the tree's lock, that the child of a fork may be added to the tree.
///
/// # Errors
/// ERESTARTNOINTR: its parent ends, or got a signal for several since the fork began.
pub(crate) fn check(parent: &Process, stamp: &Stamp) -> Result<(), Errno> {
    match parent.is_ending() || !parent.forks().agrees(stamp) {
        true => Err(Errno::ERESTARTNOINTR),
        false => Ok(()),
    }
}

/// A signal to several has found this process: until it is dropped, and the signal delivered, no fork begins there.
pub(crate) struct Found(Arc<Process>);

impl Found {
    /// Holds the forks of a process that such a signal has found. The lock of the tenant's tree is held.
    pub(crate) fn new(process: &Arc<Process>) -> Found {
        process.forks().found.fetch_add(1, Ordering::AcqRel);
        Found(process.clone())
    }
}

impl Drop for Found {
    fn drop(&mut self) {
        self.0.forks().delivered.fetch_add(1, Ordering::AcqRel);
    }
}
