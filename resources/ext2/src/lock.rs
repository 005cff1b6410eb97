//! A readers-writer lock that may be held across waits: many readers or one writer, in order of arrival.
//!
//! A waiting task takes the lock itself when it is first in line. A task that leaves (done, or killed while waiting)
//! wakes the first. So a wake-up given to a task that dies is passed on.
//!
//! Readers without the lock ask for [`AsyncRwLock::version`] before they look, and [`AsyncRwLock::is_unchanged`]
//! afterwards. (1) A writer counts the version up, to an odd number, under the inner lock when it gets the right; (2)
//! it changes data; (3) it counts up again, to an even number, when it gives the right back. A reader that sees the
//! same even number before and after has seen no change.

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
pub(crate) struct AsyncRwLock {
    state: TenantLock<State>,
    /// Counted up whenever the right to change is given or given back: odd while a task has it.
    version: AtomicU64,
}

/// Holds a [`AsyncRwLock`]; opens it when dropped.
pub(crate) struct LockGuard<'a> {
    lock: &'a AsyncRwLock,
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

impl AsyncRwLock {
    /// Returns the version, unless a task has the right to change now.
    pub(crate) fn version(&self) -> Option<u64> {
        let version = self.version.load(Ordering::Acquire);
        version.is_multiple_of(2).then_some(version)
    }

    /// Returns whether no task had the right to change since [`AsyncRwLock::version`] gave this number, so that all
    /// data seen meanwhile belongs together.
    pub(crate) fn is_unchanged(&self, version: u64) -> bool {
        fence(Ordering::Acquire);
        self.version.load(Ordering::Relaxed) == version
    }

    fn count_change(&self, exclusive: bool) {
        if exclusive {
            self.version.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Waits for the right to read.
    pub(crate) fn shared(&self) -> Acquire<'_> {
        Acquire { lock: self, exclusive: false, ticket: None }
    }

    /// Waits for the right to change.
    pub(crate) fn exclusive(&self) -> Acquire<'_> {
        Acquire { lock: self, exclusive: true, ticket: None }
    }

    /// Returns the right to read, unless a task changes or waits.
    pub(crate) fn try_shared(&self) -> Option<LockGuard<'_>> {
        let mut state = self.state.lock();
        (state.queue.is_empty() && state.take(false)).then(|| LockGuard { lock: self, exclusive: false })
    }

    /// Gives back a right to read that was kept.
    pub(crate) fn give_back_shared(&self) {
        self.give_back(false);
    }

    fn give_back(&self, exclusive: bool) {
        let mut state = self.state.lock();
        self.count_change(exclusive);
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

    /// Returns the right to change, if the lock is free and no task waits.
    pub(crate) fn try_exclusive(&self) -> Option<LockGuard<'_>> {
        let mut state = self.state.lock();
        (state.queue.is_empty() && state.take(true)).then(|| {
            self.count_change(true);
            LockGuard { lock: self, exclusive: true }
        })
    }
}

/// The future of a [`LockGuard`].
pub(crate) struct Acquire<'a> {
    lock: &'a AsyncRwLock,
    exclusive: bool,
    ticket: Option<u64>,
}

impl<'a> Future for Acquire<'a> {
    type Output = LockGuard<'a>;
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<LockGuard<'a>> {
        let (lock, exclusive) = (self.lock, self.exclusive);
        let mut state = lock.state.lock();
        let first = state.queue.front().map(|(ticket, _)| *ticket);
        let is_next = first.is_none() || first == self.ticket;
        if is_next && state.take(exclusive) {
            lock.count_change(exclusive);
            if self.ticket.take().is_some() {
                state.queue.pop_front();
            }
            // Readers enter together: the next one looks whether it may.
            let next = if exclusive { None } else { state.first() };
            drop(state);
            if let Some(waker) = next {
                waker.wake();
            }
            return Poll::Ready(LockGuard { lock, exclusive });
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

impl Drop for Acquire<'_> {
    fn drop(&mut self) {
        let Some(own) = self.ticket else { return };
        let mut state = self.lock.state.lock();
        state.queue.retain(|(ticket, _)| *ticket != own);
        let next = state.first();
        drop(state);
        if let Some(waker) = next {
            waker.wake();
        }
    }
}

impl LockGuard<'_> {
    /// Keeps the right after the guard is gone, until [`AsyncRwLock::give_back_shared`]. For readers only.
    pub(crate) fn keep(self) {
        debug_assert!(!self.exclusive, "who changes waits for nobody");
        core::mem::forget(self);
    }
}

impl Drop for LockGuard<'_> {
    fn drop(&mut self) {
        self.lock.give_back(self.exclusive);
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
            let lock = AsyncRwLock::default();
            let writer = lock.exclusive().await;
            assert!(lock.try_shared().is_none() && lock.try_exclusive().is_none() && lock.version().is_none());
            drop(writer);
            let readers = (lock.try_shared(), lock.try_shared());
            assert!(readers.0.is_some() && readers.1.is_some() && lock.try_exclusive().is_none());
            drop(readers);
            let writer = lock.try_exclusive();
            assert!(writer.is_some() && lock.try_shared().is_none() && lock.version().is_none());
            drop(writer);
            let before = lock.version();
            drop(lock.shared().await);
            assert!(before.is_some_and(|version| lock.is_unchanged(version)), "who only reads disturbs nobody");
            drop(lock.exclusive().await);
            assert!(before.is_some_and(|version| !lock.is_unchanged(version)));
        });
    }

    #[test]
    fn a_writer_waits_for_readers_and_later_readers_wait_for_it() {
        let lock = Arc::new(AsyncRwLock::default());
        let log = Arc::new(TenantLock::new(alloc::vec::Vec::new()));
        block_on(async {
            let first = lock.shared().await;
            for (name, exclusive) in [("writer", true), ("reader", false), ("reader", false)] {
                let (lock, log) = (lock.clone(), log.clone());
                spawn(async move {
                    let _guard = if exclusive { lock.exclusive().await } else { lock.shared().await };
                    log.lock().push(name);
                    sleep_ns(10).await;
                });
                sleep_ns(1).await;
            }
            assert!(log.lock().is_empty());
            drop(first);
            sleep_ns(100).await;
            assert_eq!(*log.lock(), ["writer", "reader", "reader"]);
            assert!(lock.try_exclusive().is_some());
        });
    }

    #[test]
    fn one_that_gives_up_waiting_lets_the_next_in() {
        let lock = AsyncRwLock::default();
        block_on(async {
            let reader = lock.shared().await;
            let impatient = async { drop(lock.exclusive().await) };
            select(impatient, async {
                let second = lock.shared();
                sleep_ns(10).await;
                drop(second);
            })
            .await;
            drop(lock.shared().await);
            drop(reader);
            assert!(lock.try_exclusive().is_some());
        });
    }
}
