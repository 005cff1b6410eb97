//! Work in a file system that is not its tenant's: that of the background, and of whoever asks for memory.
//!
//! It goes on when the tenant's own work is halted, and does again in its own name what was refused in the tenant's. So whoever gives the disk
//! away lets nobody in any more, and waits for those who are inside: each waits for the answers to its requests before it leaves.
//!
//! Work in the tenant's name is not counted: it is halted before. A visit that a failure of the kernel has ended never leaves: then it is not
//! known what still reaches the disk.

use crate::Ext2;
use core::sync::atomic::{AtomicUsize, Ordering};
use gyre_account::{ActivityId, current_activity};
use gyre_message::WaitQueue;

/// Set in the count once nobody comes in any more.
const CLOSED: usize = 1 << (usize::BITS - 1);

/// Those who are inside.
pub(crate) struct Visitors {
    tenant: ActivityId,
    count: AtomicUsize,
    left: WaitQueue,
}

/// One who is inside, until this is dropped; nothing for the tenant itself.
pub(crate) struct Visit<'a>(Option<&'a Visitors>);

impl Visitors {
    /// Makes those of a tenant's file system.
    pub(crate) fn of(tenant: ActivityId) -> Visitors {
        Visitors { tenant, count: AtomicUsize::new(0), left: WaitQueue::new() }
    }

    /// Lets work for a payer in; `None` once it is closed.
    fn enter(&self, payer: ActivityId) -> Option<Visit<'_>> {
        if payer == self.tenant {
            return Some(Visit(None));
        }
        let more = |count: usize| (count & CLOSED == 0).then_some(count.saturating_add(1));
        let entered = self.count.fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        entered.ok().map(|_| Visit(Some(self)))
    }

    /// Lets nobody in any more, and waits for those who are inside.
    async fn close(&self) {
        self.count.fetch_or(CLOSED, Ordering::AcqRel);
        self.left.until(|| (self.count.load(Ordering::Acquire) == CLOSED).then_some(())).await;
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        let Some(visitors) = self.0 else { return };
        visitors.count.fetch_sub(1, Ordering::AcqRel);
        visitors.left.wake_all();
    }
}

impl Ext2 {
    /// Lets the present work in, whoever it is for; `None` once others than the tenant are kept out.
    pub(crate) fn enter(&self) -> Option<Visit<'_>> {
        self.visitors.enter(self.cache.payer_of(current_activity()))
    }

    /// Lets nobody but the tenant work here any more, and waits for those who do. It is unmounted, and the tenant's work is halted: nothing is
    /// asked of its disk from here on.
    pub async fn close_to_others(&self) {
        self.visitors.close().await;
    }
}
