//! Signals to several processes, and forks that run meanwhile: a child is there when such a signal looks for its targets and gets
//! it, or is born after its parent has it. Otherwise who forks faster than others look for it outlives `kill(-1, SIGKILL)`.

use crate::{Errno, Process, Thread};
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};

/// Of one process, the signals to several that found it.
#[derive(Default)]
pub struct Births {
    /// Counted up under the lock of the tenant's tree.
    found: AtomicU64,
    delivered: AtomicU64,
}

/// What a fork began with.
pub(crate) struct Stamp(u64);

impl Births {
    /// Whether a child may be added to the tree that a fork with this stamp made. The tree's lock is held.
    fn agrees(&self, stamp: &Stamp) -> bool {
        self.found.load(Ordering::Acquire) == stamp.0
    }
}

/// A fork begins.
///
/// # Errors
/// ERESTARTNOINTR: a signal comes first, as on Linux.
pub(crate) fn begin(thread: &Thread) -> Result<Stamp, Errno> {
    let births = thread.process().births();
    let delivered = births.delivered.load(Ordering::Acquire);
    let stamp = Stamp(births.found.load(Ordering::Acquire));
    match stamp.0 != delivered || thread.must_act() {
        true => Err(Errno::ERESTARTNOINTR),
        false => Ok(stamp),
    }
}

/// The child of a fork is about to be added to the tree, whose lock is held.
///
/// # Errors
/// ERESTARTNOINTR: its parent ends, or got a signal for several since the fork began.
pub(crate) fn check(parent: &Process, stamp: &Stamp) -> Result<(), Errno> {
    match parent.is_ending() || !parent.births().agrees(stamp) {
        true => Err(Errno::ERESTARTNOINTR),
        false => Ok(()),
    }
}

/// A signal to several has found this process: until it is dropped, and the signal delivered, no fork begins there.
pub(crate) struct Found(Arc<Process>);

impl Found {
    /// The lock of the tenant's tree is held.
    pub(crate) fn new(process: &Arc<Process>) -> Found {
        process.births().found.fetch_add(1, Ordering::AcqRel);
        Found(process.clone())
    }
}

impl Drop for Found {
    fn drop(&mut self) {
        self.0.births().delivered.fetch_add(1, Ordering::AcqRel);
    }
}
