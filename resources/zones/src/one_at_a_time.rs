//! Work that one task does at a time; the others wait without holding anything.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use gyre_message::WaitQueue;

/// Free, or taken by one task.
#[derive(Default)]
pub(crate) struct OneAtATime {
    is_taken: AtomicBool,
    waiting: AtomicU32,
    freed: WaitQueue,
}

/// The next task may begin once this is dropped, also if its own is given up.
pub(crate) struct Alone<'a>(&'a OneAtATime);

/// A place in the line of those who wait.
struct InLine<'a>(&'a OneAtATime);

impl OneAtATime {
    /// Waits until no other task is at it.
    pub(crate) async fn begin(&self) -> Alone<'_> {
        self.freed.until(|| self.try_begin()).await
    }

    /// As [`OneAtATime::begin`]; `None` at once if so many wait already.
    pub(crate) async fn begin_within(&self, waiting_max: u32) -> Option<Alone<'_>> {
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= waiting_max {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let _place = InLine(self);
        Some(self.begin().await)
    }

    fn try_begin(&self) -> Option<Alone<'_>> {
        // A value that is made and dropped would let the next one begin.
        let was_taken = self.is_taken.swap(true, Ordering::Acquire);
        (!was_taken).then(|| Alone(self))
    }
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        self.0.is_taken.store(false, Ordering::Release);
        self.0.freed.wake_all();
    }
}

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gyre_message::direct::block_on;
    use gyre_message::{select, sleep_ns};

    #[test]
    fn one_task_is_at_it_at_a_time_and_only_so_many_wait() {
        block_on(async {
            let work = OneAtATime::default();
            let first = work.begin().await;
            assert!(work.try_begin().is_none());
            assert!(work.try_begin().is_none(), "a refusal leaves it taken");
            assert!(work.begin_within(0).await.is_none());
            let waits = select(core::pin::pin!(work.begin_within(1)), sleep_ns(1_000)).await;
            assert!(matches!(waits, gyre_message::wait::Either::Second(())));
            drop(first);
            assert!(work.begin_within(1).await.is_some());
        });
    }
}
