//! A lock that is a queue: held across waits, by many readers or one writer, given in order of arrival.
//!
//! Whoever waits takes the lock itself when it is first in line; whoever leaves (done, or killed while waiting) wakes the first.
//! So a wake-up given to a task that dies is passed on.

use alloc::collections::VecDeque;
use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::{AtomicU64, Ordering, fence};
use core::task::{Context, Poll, Waker};
use gyre_object::TenantLock;

#[derive(Default)]
struct State {
    readers: u32,
    writer: bool,
    next_ticket: u64,
    queue: VecDeque<(u64, Waker)>,
}

/// The lock.
#[derive(Default)]
pub(crate) struct Gate {
    state: TenantLock<State>,
    /// Counts the times that somebody got or gave back the right to change: odd while somebody has it.
    turns: AtomicU64,
}

/// Holds a [`Gate`]; opens it when dropped.
pub(crate) struct Pass<'a> {
    gate: &'a Gate,
    exclusive: bool,
}

impl State {
    fn take(&mut self, exclusive: bool) -> bool {
        let free = !self.writer && (!exclusive || self.readers == 0);
        if free {
            self.writer = exclusive;
            self.readers = self.readers.saturating_add(u32::from(!exclusive));
        }
        free
    }

    fn first(&self) -> Option<Waker> {
        self.queue.front().map(|(_, waker)| waker.clone())
    }
}

impl Gate {
    /// A number for [`Gate::was_calm`], unless somebody changes something now.
    pub(crate) fn calm(&self) -> Option<u64> {
        let turns = self.turns.load(Ordering::Acquire);
        turns.is_multiple_of(2).then_some(turns)
    }

    /// True where nobody had the right to change since [`Gate::calm`] gave this number: what was seen meanwhile belongs together.
    pub(crate) fn was_calm(&self, turns: u64) -> bool {
        fence(Ordering::Acquire);
        self.turns.load(Ordering::Relaxed) == turns
    }

    fn turn(&self, exclusive: bool) {
        if exclusive {
            self.turns.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Waits for the right to read.
    pub(crate) fn shared(&self) -> Entry<'_> {
        Entry { gate: self, exclusive: false, ticket: None }
    }

    /// Waits for the right to change.
    pub(crate) fn exclusive(&self) -> Entry<'_> {
        Entry { gate: self, exclusive: true, ticket: None }
    }

    /// The right to read, if nobody changes or waits to.
    pub(crate) fn try_shared(&self) -> Option<Pass<'_>> {
        let mut state = self.state.lock();
        (state.queue.is_empty() && state.take(false)).then(|| Pass { gate: self, exclusive: false })
    }

    /// Gives back a right to read that was kept.
    pub(crate) fn give_back_shared(&self) {
        self.give_back(false);
    }

    fn give_back(&self, exclusive: bool) {
        let mut state = self.state.lock();
        self.turn(exclusive);
        if exclusive {
            state.writer = false;
        } else {
            state.readers = state.readers.saturating_sub(1);
        }
        let next = state.first();
        drop(state);
        if let Some(waker) = next {
            waker.wake();
        }
    }

    /// The right to change, if nobody holds or waits for the gate.
    pub(crate) fn try_exclusive(&self) -> Option<Pass<'_>> {
        let mut state = self.state.lock();
        (state.queue.is_empty() && state.take(true)).then(|| {
            self.turn(true);
            Pass { gate: self, exclusive: true }
        })
    }
}

/// The future of a [`Pass`].
pub(crate) struct Entry<'a> {
    gate: &'a Gate,
    exclusive: bool,
    ticket: Option<u64>,
}

impl<'a> Future for Entry<'a> {
    type Output = Pass<'a>;
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Pass<'a>> {
        let (gate, exclusive) = (self.gate, self.exclusive);
        let mut state = gate.state.lock();
        let first = state.queue.front().map(|(ticket, _)| *ticket);
        let is_next = first.is_none() || first == self.ticket;
        if is_next && state.take(exclusive) {
            gate.turn(exclusive);
            if self.ticket.take().is_some() {
                state.queue.pop_front();
            }
            // Readers enter together: the next one looks whether it may.
            let next = if exclusive { None } else { state.first() };
            drop(state);
            if let Some(waker) = next {
                waker.wake();
            }
            return Poll::Ready(Pass { gate, exclusive });
        }
        let waker = context.waker().clone();
        match self.ticket {
            Some(own) => {
                state.queue.iter_mut().filter(|(ticket, _)| *ticket == own).for_each(|entry| entry.1 = waker.clone())
            }
            None => {
                let ticket = state.next_ticket;
                state.next_ticket = state.next_ticket.wrapping_add(1);
                state.queue.push_back((ticket, waker));
                drop(state);
                self.ticket = Some(ticket);
            }
        }
        Poll::Pending
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        let Some(own) = self.ticket else { return };
        let mut state = self.gate.state.lock();
        state.queue.retain(|(ticket, _)| *ticket != own);
        let next = state.first();
        drop(state);
        if let Some(waker) = next {
            waker.wake();
        }
    }
}

impl Pass<'_> {
    /// The right stays until [`Gate::give_back_shared`]. For readers only.
    pub(crate) fn keep(self) {
        debug_assert!(!self.exclusive, "who changes waits for nobody");
        core::mem::forget(self);
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        self.gate.give_back(self.exclusive);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::sync::Arc;
    use gyre_message::direct::block_on;
    use gyre_message::{select, sleep_ns, spawn};

    #[test]
    fn who_only_tries_gets_nothing_and_changes_nothing_where_others_are() {
        block_on(async {
            let gate = Gate::default();
            let writer = gate.exclusive().await;
            assert!(gate.try_shared().is_none() && gate.try_exclusive().is_none() && gate.calm().is_none());
            drop(writer);
            let readers = (gate.try_shared(), gate.try_shared());
            assert!(readers.0.is_some() && readers.1.is_some() && gate.try_exclusive().is_none());
            drop(readers);
            let writer = gate.try_exclusive();
            assert!(writer.is_some() && gate.try_shared().is_none() && gate.calm().is_none());
            drop(writer);
            let before = gate.calm();
            drop(gate.shared().await);
            assert!(before.is_some_and(|turns| gate.was_calm(turns)), "who only reads disturbs nobody");
            drop(gate.exclusive().await);
            assert!(before.is_some_and(|turns| !gate.was_calm(turns)));
        });
    }

    #[test]
    fn a_writer_waits_for_readers_and_later_readers_wait_for_it() {
        let gate = Arc::new(Gate::default());
        let log = Arc::new(TenantLock::new(alloc::vec::Vec::new()));
        block_on(async {
            let first = gate.shared().await;
            for (name, exclusive) in [("writer", true), ("reader", false), ("reader", false)] {
                let (gate, log) = (gate.clone(), log.clone());
                spawn(async move {
                    let _pass = if exclusive { gate.exclusive().await } else { gate.shared().await };
                    log.lock().push(name);
                    sleep_ns(10).await;
                });
                sleep_ns(1).await;
            }
            assert!(log.lock().is_empty());
            drop(first);
            sleep_ns(100).await;
            assert_eq!(*log.lock(), ["writer", "reader", "reader"]);
            assert!(gate.try_exclusive().is_some());
        });
    }

    #[test]
    fn one_that_gives_up_waiting_lets_the_next_in() {
        let gate = Gate::default();
        block_on(async {
            let reader = gate.shared().await;
            let impatient = async { drop(gate.exclusive().await) };
            select(impatient, async {
                let second = gate.shared();
                sleep_ns(10).await;
                drop(second);
            })
            .await;
            drop(gate.shared().await);
            drop(reader);
            assert!(gate.try_exclusive().is_some());
        });
    }
}
