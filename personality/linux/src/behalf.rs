//! A thread that works on behalf of another tenant: a service that pays for a request with what its client granted.
//!
//! [`on_behalf`] begins it, with the [`Grant`] that the peer of a channel gave. The program's time goes to the payer in the engine
//! (`gyre_engine`'s `compute::run_for`), the time of its calls by marks: taken where a poll of the thread begins or its payer changes, settled before
//! the program runs on and where the poll ends.
//!
//! States of a thread: its own (no grant), on behalf (a grant). Only the thread's own task changes it. Calls by which a thread waits for
//! the next request end it ([`is_ended_by`]), so that a forgetful service pays for its waiting.

use crate::file::calls::channel::end_of;
use crate::file::object::Object;
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use gyre_account::Grant;
use gyre_contract::native;
use gyre_object::TenantLock;

/// See the module.
#[derive(Default)]
pub struct Behalf {
    /// There is a grant: looked at before each stay of the program.
    is_on: AtomicBool,
    grant: TenantLock<Option<Arc<Grant>>>,
    mark: AtomicU64,
    /// The rest of the grant when it began, cycles.
    begun: AtomicU64,
}

impl Behalf {
    /// Returns the grant by which it works, if any.
    #[inline]
    pub(crate) fn grant(&self) -> Option<Arc<Grant>> {
        match self.is_on.load(Ordering::Relaxed) {
            false => None,
            true => self.grant.lock().clone(),
        }
    }

    /// A poll of the thread begins.
    #[inline]
    pub(crate) fn begin_poll(&self, thread: &Thread) {
        if self.is_on.load(Ordering::Relaxed) {
            self.mark.store(thread.tenant().kernel().mark(), Ordering::Relaxed);
        }
    }

    /// Has the payer pay for the calls since the mark.
    #[inline]
    pub(crate) fn settle(&self, thread: &Thread) {
        if self.is_on.load(Ordering::Relaxed) {
            self.settle_now(thread);
        }
    }

    #[cold]
    #[inline(never)]
    fn settle_now(&self, thread: &Thread) {
        if let Some(grant) = self.grant() {
            let mark = thread.tenant().kernel().settle(self.mark.load(Ordering::Relaxed), &grant);
            self.mark.store(mark, Ordering::Relaxed);
        }
    }

    fn begin(&self, thread: &Thread, grant: Arc<Grant>) {
        self.begun.store(grant.left(), Ordering::Relaxed);
        *self.grant.lock() = Some(grant);
        self.is_on.store(true, Ordering::Relaxed);
        self.begin_poll(thread);
    }

    /// From here on it works for itself; answers the cycles that it took from the grant's rest meanwhile, other threads' included.
    pub(crate) fn end(&self, thread: &Thread) -> u64 {
        self.settle(thread);
        self.is_on.store(false, Ordering::Relaxed);
        let grant = self.grant.lock().take();
        grant.map_or(0, |grant| self.begun.load(Ordering::Relaxed).saturating_sub(grant.left()))
    }
}

/// `on_behalf(channel) -> ns`.
///
/// # Errors
/// See `gyre_contract::native::ON_BEHALF`.
pub(crate) fn on_behalf(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    if a.int(0) == -1 {
        return Ok(ns(thread.behalf.end(thread)));
    }
    let end = end_of(thread, a.int(0))?;
    let grant = end.grant().ok_or(if end.is_alone() { Errno::EPIPE } else { Errno::EACCES })?;
    let left = grant.left();
    if left == 0 {
        return Err(Errno::EDQUOT);
    }
    thread.behalf.end(thread);
    thread.behalf.begin(thread, grant);
    Ok(ns(left))
}

/// Returns the time of cycles, ns.
pub(crate) fn ns(cycles: u64) -> u64 {
    let ns = u128::from(cycles).saturating_mul(1_000_000).checked_div(u128::from(gyre_machine::cycles_per_ms()));
    ns.and_then(|ns| u64::try_from(ns).ok()).unwrap_or(u64::MAX)
}

/// Returns the cycles of a time, ns.
pub(crate) fn cycles(ns: u64) -> u64 {
    let cycles = u128::from(ns).saturating_mul(u128::from(gyre_machine::cycles_per_ms())) / 1_000_000;
    u64::try_from(cycles).unwrap_or(u64::MAX)
}

/// Calls by which a thread waits for news: poll, select, epoll_wait, pselect6, ppoll, epoll_pwait, epoll_pwait2.
const WAITS: [u64; 7] = [7, 23, 232, 270, 271, 281, 441];
/// `read` and `readv`, which wait for news if the file is a channel.
const READS: [u64; 2] = [0, 19];

/// Returns whether the thread works on behalf of somebody and this call ends that.
#[inline]
pub(crate) fn is_ended_by(thread: &Thread, number: u64, a: Arguments) -> bool {
    thread.behalf.is_on.load(Ordering::Relaxed) && waits_for_news(thread, number, a)
}

#[cold]
#[inline(never)]
fn waits_for_news(thread: &Thread, number: u64, a: Arguments) -> bool {
    let is_channel = || {
        let file = thread.process().files().table().get(a.int(0));
        file.is_ok_and(|file| matches!(file.object(), Object::Channel(_)))
    };
    let by_number = [native::CHANNEL_READ, native::CHANNEL_ACCEPT].contains(&number) || WAITS.contains(&number);
    by_number || (READS.contains(&number) && is_channel())
}
