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
        let mut state = self.state.lock();
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
        if state.generation != self.seen {
            drop(state);
            return self.end(context);
        }
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
        Poll::Pending
    }
}

impl Wait<'_> {
    /// The task was woken: true, unless this poll has had its turns. Then the task comes again by a message, behind others.
    fn end(&mut self, context: &Context<'_>) -> Poll<()> {
        self.ticket = None;
        if !budget::take_turn_at(gyre_machine::now()) && !self.is_put_off {
            self.is_put_off = true;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(())
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
