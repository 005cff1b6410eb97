//! A thread: one async task, which runs the program and serves its calls.

use crate::{Errno, Process, Tenant};
use alloc::sync::Arc;
use core::future::Future;
use core::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use gyre_address_space::AddressSpace;
use gyre_message::wait::Either;
use gyre_message::{WaitQueue, select, sleep_until};

/// A thread of a process. What other threads may look at is here; registers live in its task.
pub struct Thread {
    id: AtomicI32,
    process: Arc<Process>,
    /// True while a signal waits that this thread must act on.
    attention: AtomicBool,
    /// Woken with `attention`.
    arrived: WaitQueue,
}

impl Thread {
    /// A thread that does not run yet.
    pub fn new(id: i32, process: Arc<Process>) -> Arc<Thread> {
        Arc::new(Thread {
            id: AtomicI32::new(id),
            process,
            attention: AtomicBool::new(false),
            arrived: WaitQueue::new(),
        })
    }

    /// Its number, unique in the tenant.
    pub fn id(&self) -> i32 {
        self.id.load(Ordering::Acquire)
    }

    /// The process it belongs to.
    pub fn process(&self) -> &Arc<Process> {
        &self.process
    }

    /// The tenant it belongs to.
    pub fn tenant(&self) -> &Arc<Tenant> {
        self.process.tenant()
    }

    /// The memory of its process.
    pub fn space(&self) -> Arc<AddressSpace> {
        self.process.space()
    }

    /// True while a signal waits that this thread must act on.
    pub fn has_signal(&self) -> bool {
        self.attention.load(Ordering::Acquire)
    }

    /// Waits for `future` unless a signal comes first. A future that is ready wins over a signal.
    ///
    /// The future is dropped when a signal comes: what it has done so far must not be lost by that (keep partial counts
    /// outside, and answer them in place of the error).
    ///
    /// # Errors
    /// ERESTARTSYS: the call is repeated or answers EINTR, as the signal's action says. Calls with a timeout turn it into EINTR.
    pub async fn interruptible<T>(&self, future: impl Future<Output = T>) -> Result<T, Errno> {
        match select(future, self.signal_arrival()).await {
            Either::First(value) => Ok(value),
            Either::Second(()) => Err(Errno::ERESTARTSYS),
        }
    }

    /// The same until the time stamp counter reaches `deadline_cycles`; `None` where that comes first, or for ever without one.
    ///
    /// # Errors
    /// ERESTARTSYS.
    pub async fn interruptible_until<T>(
        &self,
        deadline_cycles: Option<u64>,
        future: impl Future<Output = T>,
    ) -> Result<Option<T>, Errno> {
        let Some(deadline) = deadline_cycles else {
            return self.interruptible(future).await.map(Some);
        };
        match self
            .interruptible(select(future, sleep_until(deadline)))
            .await?
        {
            Either::First(value) => Ok(Some(value)),
            Either::Second(()) => Ok(None),
        }
    }

    /// Completes when there is a signal that this thread must act on.
    async fn signal_arrival(&self) {
        self.arrived.until(|| self.has_signal().then_some(())).await;
    }
}
