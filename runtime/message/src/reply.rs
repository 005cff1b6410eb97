//! The promise of a reply, and the future that waits for it.

use alloc::sync::Arc;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use gyre_object::SpinLock;

/// Who should have answered is gone: it was killed, its queue was full or it dropped the request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gone;

/// A type that can say "nobody answers any more".
pub trait Answer: Sized {
    /// The value that a dropped reply token sends.
    fn gone() -> Self;
}

impl<T, E: From<Gone>> Answer for Result<T, E> {
    fn gone() -> Self {
        Err(Gone.into())
    }
}

impl Answer for () {
    fn gone() -> Self {}
}

struct State<T> {
    value: Option<T>,
    waiter: Option<Waker>,
    answered: bool,
    abandoned: bool,
}

type Slot<T> = Arc<SpinLock<State<T>>>;

/// Makes a token and the future of its answer.
pub fn reply_pair<T: Answer>() -> (Reply<T>, Call<T>) {
    let slot = Arc::new(SpinLock::new(State {
        value: None,
        waiter: None,
        answered: false,
        abandoned: false,
    }));
    (Reply { slot: slot.clone() }, Call { slot })
}

/// The server's duty to answer once. Dropped unsent it answers [`Gone`].
pub struct Reply<T: Answer> {
    slot: Slot<T>,
}

impl<T: Answer> Reply<T> {
    /// Answers; the caller is resumed by a queued message of its own activity.
    pub fn send(self, value: T) {
        fill(&self.slot, value);
    }

    /// True where the caller has given up; work for it may be dropped.
    pub fn is_abandoned(&self) -> bool {
        self.slot.lock().abandoned
    }
}

impl<T: Answer> Drop for Reply<T> {
    fn drop(&mut self) {
        fill(&self.slot, T::gone());
    }
}

fn fill<T>(slot: &Slot<T>, value: T) {
    let mut state = slot.lock();
    if state.answered {
        return;
    }
    state.answered = true;
    state.value = Some(value);
    let waiter = state.waiter.take();
    drop(state);
    if let Some(waiter) = waiter {
        waiter.wake();
    }
}

/// A request on its way: the future of its reply. Dropping it abandons the request.
#[must_use = "a call that is not awaited is abandoned"]
pub struct Call<T> {
    slot: Slot<T>,
}

impl<T> Future for Call<T> {
    type Output = T;
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let mut state = self.slot.lock();
        if let Some(value) = state.value.take() {
            return Poll::Ready(value);
        }
        state.waiter = Some(context.waker().clone());
        Poll::Pending
    }
}

impl<T> Drop for Call<T> {
    fn drop(&mut self) {
        let mut state = self.slot.lock();
        state.abandoned = true;
        state.waiter = None;
        let value = state.value.take();
        drop(state);
        drop(value);
    }
}
