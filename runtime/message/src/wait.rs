//! Waiting for something to change, without losing a wake-up.

use alloc::vec::Vec;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use gyre_object::{SpinLock, budget};

#[derive(Default)]
struct State {
    /// Counts wake-ups, so that one between looking and waiting is seen.
    generation: u64,
    next_ticket: u64,
    waiters: Waiters,
}

/// A waiter's ticket and how to wake it.
type Waiter = (u64, Waker);

/// The waiters of a queue. Most queues have one waiter at a time: that one takes no memory.
#[derive(Default)]
struct Waiters {
    first: Option<Waiter>,
    others: Vec<Waiter>,
}

impl Waiters {
    const fn new() -> Waiters {
        Waiters { first: None, others: Vec::new() }
    }

    fn add(&mut self, waiter: Waiter) {
        match self.first {
            None => self.first = Some(waiter),
            Some(_) => self.others.push(waiter),
        }
    }

    fn replace(&mut self, ticket: u64, waker: Waker) {
        if let Some(entry) = self.first.iter_mut().chain(&mut self.others).find(|entry| entry.0 == ticket) {
            entry.1 = waker;
        }
    }

    fn remove(&mut self, ticket: u64) {
        if self.first.take_if(|entry| entry.0 == ticket).is_none() {
            self.others.retain(|entry| entry.0 != ticket);
        }
    }

    fn is_empty(&self) -> bool {
        self.first.is_none() && self.others.is_empty()
    }
}

/// Tasks that wait until a change is announced.
///
/// The pattern: take [`WaitQueue::wait`] first, look at the state, then await it; a wake-up in between completes it.
#[derive(Default)]
pub struct WaitQueue {
    state: SpinLock<State>,
}

impl WaitQueue {
    /// Makes an empty queue.
    pub const fn new() -> WaitQueue {
        WaitQueue { state: SpinLock::new(State { generation: 0, next_ticket: 0, waiters: Waiters::new() }) }
    }

    /// Returns a future that completes at the next wake-up after this call.
    pub fn wait(&self) -> Wait<'_> {
        let seen = self.state.lock().generation;
        Wait { queue: self, seen, ticket: None, is_put_off: false }
    }

    /// Wakes all who wait, and all who have taken [`WaitQueue::wait`] but not awaited it yet.
    pub fn wake_all(&self) {
        self.wake_all_with(|| {});
    }

    /// As [`WaitQueue::wake_all`]; does something short before, in one step with it: whoever waits anew after that is woken by nothing of this.
    pub fn wake_all_with(&self, first: impl FnOnce()) {
        let mut state = self.state.lock();
        first();
        state.generation += 1;
        let waiters = core::mem::take(&mut state.waiters);
        drop(state);
        waiters.first.into_iter().chain(waiters.others).for_each(|(_, waker)| waker.wake());
    }

    /// Returns true if no task is queued.
    pub fn is_empty(&self) -> bool {
        self.state.lock().waiters.is_empty()
    }

    /// Waits until `ready` gives a value; looks once at first and again after each wake-up.
    pub async fn until<T>(&self, mut ready: impl FnMut() -> Option<T>) -> T {
        loop {
            let wait = self.wait();
            if let Some(value) = ready() {
                return value;
            }
            wait.await;
        }
    }
}

/// The future of [`WaitQueue::wait`]. Dropping it leaves the queue.
#[must_use = "waits only when awaited"]
pub struct Wait<'a> {
    queue: &'a WaitQueue,
    seen: u64,
    ticket: Option<u64>,
    /// It was woken, and its poll had no turn left: the next one ends it, so that no other future of the task is always before it.
    is_put_off: bool,
}

impl Future for Wait<'_> {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let queue = self.queue;
        let mut state = queue.state.lock();
        let is_woken = state.generation != self.seen;
        // The wake-up has taken the waiter out of the queue, but for one that was put off and waits again.
        if let Some(ticket) = self.ticket.take_if(|_| is_woken)
            && self.is_put_off
        {
            state.waiters.remove(ticket);
        }
        if is_woken && self.may_end() {
            return Poll::Ready(());
        }
        // One that is put off waits on, too: if the task does not come again for that, since it goes on with a program in this poll, the next
        // wake-up must find it.
        let waker = context.waker().clone();
        match self.ticket {
            Some(ticket) => {
                state.waiters.replace(ticket, waker);
            }
            None => {
                let ticket = state.next_ticket;
                state.next_ticket += 1;
                state.waiters.add((ticket, waker));
                self.ticket = Some(ticket);
            }
        }
        drop(state);
        if is_woken {
            self.is_put_off = true;
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

impl Wait<'_> {
    /// Returns whether a task that was woken goes on at once: unless this poll has had its turns. Then it comes again by a message, behind
    /// others, and goes on in any case.
    fn may_end(&self) -> bool {
        budget::take_turn_at(gyre_machine::now()) || self.is_put_off
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.queue.state.lock().waiters.remove(ticket);
        }
    }
}

/// Which of two futures finished first.
pub enum Either<A, B> {
    /// The first.
    First(A),
    /// The second.
    Second(B),
}

/// Waits for whichever finishes first and drops the other; the first wins if both are ready. A large future is given pinned: it has room
/// here as it came and as it is waited for.
pub async fn select<A: Future, B: Future>(first: A, second: B) -> Either<A::Output, B::Output> {
    let mut first = core::pin::pin!(first);
    let mut second = core::pin::pin!(second);
    core::future::poll_fn(|context| {
        if let Poll::Ready(value) = first.as_mut().poll(context) {
            return Poll::Ready(Either::First(value));
        }
        second.as_mut().poll(context).map(Either::Second)
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::sync::Arc;
    use alloc::task::Wake;
    use core::sync::atomic::{AtomicU32, Ordering};

    #[derive(Default)]
    struct Wakes(AtomicU32);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn one_that_is_put_off_is_found_by_the_next_wake_up() {
        let (queue, wakes) = (WaitQueue::new(), Arc::new(Wakes::default()));
        let waker = Waker::from(wakes.clone());
        let mut context = Context::from_waker(&waker);
        let count = || wakes.0.load(Ordering::Relaxed);
        let mut wait = core::pin::pin!(queue.wait());
        budget::begin(1);
        assert!(wait.as_mut().poll(&mut context).is_pending());
        queue.wake_all();
        while budget::take_turn() {}
        assert!(wait.as_mut().poll(&mut context).is_pending(), "there is no turn left");
        assert_eq!(count(), 2, "its task comes again");
        // The task goes on with its program instead, and waits for something else then.
        queue.wake_all();
        assert_eq!(count(), 3);
        budget::begin(1);
        assert!(wait.as_mut().poll(&mut context).is_ready());
        assert!(queue.is_empty());
    }

    #[test]
    fn one_that_is_put_off_ends_at_the_next_poll_and_leaves_nothing() {
        let queue = WaitQueue::new();
        let mut context = Context::from_waker(Waker::noop());
        let mut wait = core::pin::pin!(queue.wait());
        queue.wake_all();
        budget::begin(1);
        while budget::take_turn() {}
        assert!(wait.as_mut().poll(&mut context).is_pending());
        assert!(wait.as_mut().poll(&mut context).is_ready(), "also without a turn");
        assert!(queue.is_empty());
    }
}
