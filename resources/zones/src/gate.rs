//! A gate that one task passes at a time; the others wait without holding anything.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use gyre_message::WaitQueue;

/// Open, or passed by one task.
#[derive(Default)]
pub(crate) struct Gate {
    is_closed: AtomicBool,
    waiting: AtomicU32,
    opened: WaitQueue,
}

/// The gate is open again once this is dropped, also if its task is given up.
pub(crate) struct Passed<'a>(&'a Gate);

/// A place in the line before a gate.
struct InLine<'a>(&'a Gate);

impl Gate {
    /// Waits until the gate is open, and closes it.
    pub(crate) async fn pass(&self) -> Passed<'_> {
        self.opened.until(|| self.try_pass()).await
    }

    /// As [`Gate::pass`]; `None` at once if so many wait already.
    pub(crate) async fn pass_within(&self, waiting_max: u32) -> Option<Passed<'_>> {
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= waiting_max {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let _place = InLine(self);
        Some(self.pass().await)
    }

    fn try_pass(&self) -> Option<Passed<'_>> {
        // A value that is made and dropped would open the gate.
        let was_closed = self.is_closed.swap(true, Ordering::Acquire);
        (!was_closed).then(|| Passed(self))
    }
}

impl Drop for Passed<'_> {
    fn drop(&mut self) {
        self.0.is_closed.store(false, Ordering::Release);
        self.0.opened.wake_all();
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
    fn a_gate_lets_one_pass_at_a_time_and_only_so_many_wait() {
        block_on(async {
            let gate = Gate::default();
            let first = gate.pass().await;
            assert!(gate.try_pass().is_none());
            assert!(gate.try_pass().is_none(), "a refusal leaves it closed");
            assert!(gate.pass_within(0).await.is_none());
            let waits = select(core::pin::pin!(gate.pass_within(1)), sleep_ns(1_000)).await;
            assert!(matches!(waits, gyre_message::wait::Either::Second(())));
            drop(first);
            assert!(gate.pass_within(1).await.is_some());
        });
    }
}
