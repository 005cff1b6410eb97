//! A thread that waits until another one has done its operation, or the object is gone.

use crate::{Errno, Thread};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::future::Future;
use core::pin::Pin;
use gyre_account::ActivityId;
use gyre_message::WaitQueue;
use gyre_object::ObjectLock;

/// The answer that a waiter waits for, and how to wake it.
pub(super) struct Waiter<T> {
    answer: ObjectLock<Option<Result<T, Errno>>>,
    wake: WaitQueue,
}

impl<T> Waiter<T> {
    /// Makes one that has no answer yet.
    pub(super) fn new() -> Arc<Waiter<T>> {
        Arc::new(Waiter { answer: ObjectLock::new(None), wake: WaitQueue::new() })
    }

    /// Gives the answer. Call it without the lock of the object that is waited for.
    pub(super) fn answer(&self, answer: Result<T, Errno>) {
        *self.answer.lock() = Some(answer);
        self.wake.wake_all();
    }

    /// Takes the answer, if there is one.
    pub(super) fn taken(&self) -> Option<Result<T, Errno>> {
        self.answer.lock().take()
    }

    /// Waits for the answer. At a signal or the deadline `leave` takes the waiter out of its line; if it is out already,
    /// its answer is on the way and is waited for.
    ///
    /// # Errors
    /// ERESTARTSYS; `late` after the deadline; what was answered.
    pub(super) async fn wait(
        &self,
        thread: &Thread,
        deadline_cycles: Option<u64>,
        late: Errno,
        leave: impl FnOnce() -> Left,
    ) -> Result<T, Errno> {
        let waited = thread.interruptible_until(deadline_cycles, self.wake.until(|| self.taken())).await;
        let error = match waited {
            Ok(Some(answer)) => return answer,
            Ok(None) => late,
            Err(error) => error,
        };
        match leave() {
            Left::InTime => Err(error),
            Left::TooLate => self.wake.until(|| self.taken()).await,
        }
    }
}

/// The state of the line when a waiter leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Left {
    /// It was; nobody answers it any more.
    InTime,
    /// Somebody has taken it out to answer it.
    TooLate,
}

impl Left {
    /// Tells by what was found in the line.
    pub(super) fn by<T>(found: &Option<T>) -> Left {
        if found.is_some() { Left::InTime } else { Left::TooLate }
    }
}

/// Goes on with long work in the name of a tenant: who began it may end meanwhile.
pub(crate) fn go_on(activity: ActivityId, work: impl Future<Output = ()> + Send + 'static) {
    let make = move || -> Pin<Box<dyn Future<Output = ()>>> { Box::pin(work) };
    gyre_message::spawn_on(gyre_machine::core_index(), activity, Box::new(make));
}
