//! A thread names the one that runs in its place, as a scheduler of threads does.

use crate::{Arguments, Errno, Outcome, Thread};
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering};
use gyre_message::WaitQueue;

/// The turn of a thread: another one has named it, or not.
#[derive(Default)]
pub struct Turn {
    is_called: AtomicBool,
    called: WaitQueue,
}

impl Turn {
    /// Names its thread. A second call before it has run is the same as the first.
    fn call(&self) {
        self.is_called.store(true, Ordering::Release);
        self.called.wake_all();
    }

    /// Completes when it is called, and takes that.
    async fn taken(&self) {
        self.called.until(|| self.is_called.swap(false, Ordering::AcqRel).then_some(())).await;
    }
}

/// `hand_over(thread)`.
///
/// # Errors
/// ESRCH: no thread of this process. EINTR: a signal came first.
pub(crate) async fn hand_over(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let id = a.int(0);
    if id == thread.id() {
        return Ok(0);
    }
    if id != 0 {
        let next = thread.tenant().tree.lock().thread(id).ok_or(Errno::ESRCH)?;
        if !Arc::ptr_eq(next.process(), thread.process()) {
            return Err(Errno::ESRCH);
        }
        next.turn.call();
    }
    thread.interruptible(thread.turn.taken()).await.map_err(|_| Errno::EINTR)?;
    Ok(0)
}
