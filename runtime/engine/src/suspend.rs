//! Back-pressure (V10): a resource that cannot take a request holds back all that follow, without loss and without spinning.

use crate::engine::Engine;
use crate::inbox::Message;
use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::Ordering;
use core::task::{Context, Poll};
use gyre_account::ResourceId;
use gyre_machine::core_index;

/// A resource's handle on its own queues, for drivers.
#[derive(Clone, Copy)]
pub struct ResourceHandle {
    engine: &'static Engine,
    resource: ResourceId,
}

impl Engine {
    /// Returns the handle of a resource.
    pub fn handle(&'static self, resource: ResourceId) -> ResourceHandle {
        ResourceHandle { engine: self, resource }
    }

    pub(crate) fn resume_here(&self, resource: ResourceId) {
        let now_ns = self.ns(self.line().last());
        self.state.here().borrow_mut().resume(resource, now_ns);
    }
}

impl ResourceHandle {
    /// Returns the resource.
    pub fn id(self) -> ResourceId {
        self.resource
    }

    /// Tries until the device takes it. While it does not, the resource is suspended on this core: its queues wait, this
    /// request at their front, until [`ResourceHandle::resume`]. `attempt` must be repeatable; it is called once more after
    /// the suspension is announced, so that a completion in between is not missed.
    ///
    /// Tasks that the resource spawned itself go on: one of them may be the one that resumes.
    pub fn until_accepted<T, A: FnMut() -> Option<T> + Unpin>(self, attempt: A) -> UntilAccepted<A> {
        UntilAccepted { handle: self, attempt }
    }

    /// Holds back the resource's queues on this core.
    pub fn suspend(self) {
        let Some(known) = self.engine.resources.get(self.resource.index()) else {
            return;
        };
        known.suspended_cores.fetch_or(1 << core_index(), Ordering::SeqCst);
        known.suspensions.fetch_add(1, Ordering::Relaxed);
        let now_ns = self.engine.ns(self.engine.line().last());
        self.engine.state.here().borrow_mut().suspend(self.resource, now_ns);
    }

    /// Lets the resource's queues go on, on all cores that hold them back. Cheap if none does: call it at each completion.
    pub fn resume(self) {
        let Some(known) = self.engine.resources.get(self.resource.index()) else {
            return;
        };
        if known.suspended_cores.load(Ordering::SeqCst) == 0 {
            return;
        }
        for core in crate::bits::ones(known.suspended_cores.swap(0, Ordering::SeqCst)) {
            match core as usize == core_index() {
                true => self.engine.resume_here(self.resource),
                false => {
                    self.engine.post(core as usize, Message::Resume(self.resource));
                }
            }
        }
    }

    /// Returns true if some core holds it back: a task waits for [`ResourceHandle::resume`].
    pub fn is_waited_for(self) -> bool {
        let known = self.engine.resources.get(self.resource.index());
        known.is_some_and(|known| known.suspended_cores.load(Ordering::SeqCst) != 0)
    }

    /// Returns true if it is held back on this core.
    pub fn is_suspended(self) -> bool {
        self.engine.state.here().borrow().is_suspended(self.resource)
    }
}

/// The future of [`ResourceHandle::until_accepted`].
#[must_use = "tries only when awaited"]
pub struct UntilAccepted<A> {
    handle: ResourceHandle,
    attempt: A,
}

impl<T, A: FnMut() -> Option<T> + Unpin> Future for UntilAccepted<A> {
    type Output = T;
    fn poll(mut self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<T> {
        if let Some(value) = (self.attempt)() {
            return Poll::Ready(value);
        }
        let handle = self.handle;
        handle.suspend();
        if let Some(value) = (self.attempt)() {
            handle.resume();
            return Poll::Ready(value);
        }
        // Back to the front of the queue, which is served again after `resume`.
        handle.engine.requeue_running(true);
        Poll::Pending
    }
}
