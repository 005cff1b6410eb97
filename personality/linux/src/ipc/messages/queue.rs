//! One queue, and the calls on it.
//!
//! * A line is walked from its start when something has changed for it: the receivers when a message has come, the
//!   senders when there is more room. A walk that is long goes on in a task of the tenant.
//! * A caller that waits holds a [`Wait`]: dropping it leaves the line.
//! * Rights that IPC_SET has changed are asked for again, as on Linux: a receiver's at once, a sender's when there is room for it.
//! * A removed queue is taken apart in pieces; whoever waits is answered EIDRM.
//! * The tenant's sums follow each change.
//!
//! Waiters are told without the lock.

use super::super::message::Message;
use super::super::now_s;
use super::super::permission::Permission;
use super::super::waiting::{Left, Waiter, go_on};
use super::super::{READ, WRITE};
use super::Totals;
use super::state::{Done, Figures, Receiving, Sending, State};
use crate::Errno;
use crate::file::pace::Pace;
use crate::objects::MESSAGE_QUEUES;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use gyre_account::ActivityId;
use gyre_object::{Counter, ObjectLock};

/// Waiters that are told of the end of a queue in one turn, and messages that are dropped.
const PIECES_AT_ONCE: usize = 64;
/// Messages over which MSG_COPY goes in one turn.
const STEPS_AT_ONCE: usize = 1024;

/// A queue.
pub(crate) struct Queue {
    _count: Counter,
    activity: ActivityId,
    totals: Arc<Totals>,
    state: ObjectLock<State>,
}

/// The line of a waiter.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Sends,
    Receives,
}

/// A caller in a line. It leaves when this is dropped.
pub(super) struct Wait<T> {
    queue: Arc<Queue>,
    side: Side,
    ticket: u64,
    pub(super) waiter: Arc<Waiter<T>>,
}

impl<T> Wait<T> {
    /// Leaves the line.
    pub(super) fn leave(&self) -> Left {
        let mut state = self.queue.state.lock();
        // The entry of the line is dropped without the lock.
        match self.side {
            Side::Sends => {
                let found = state.senders.remove(&self.ticket);
                drop(state);
                Left::by(&found)
            }
            Side::Receives => Left::by(&state.receivers.remove(&self.ticket)),
        }
    }
}

impl<T> Drop for Wait<T> {
    fn drop(&mut self) {
        self.leave();
    }
}

/// The result of a call.
pub(super) enum Outcome<T> {
    /// It is done.
    Done(T),
    /// It waits.
    Waits(Wait<T>),
}

impl Queue {
    /// Makes an empty queue.
    pub(super) fn new(activity: ActivityId, totals: &Arc<Totals>) -> Arc<Queue> {
        let (totals, state) = (totals.clone(), ObjectLock::new(State::new()));
        Arc::new(Queue { _count: MESSAGE_QUEUES.count(), activity, totals, state })
    }

    /// Returns its figures.
    pub(crate) fn figures(&self) -> Figures {
        let state = self.state.lock();
        Figures { messages: state.store.len() as u64, ..state.figures }
    }

    /// Changes its state; then does what has become possible.
    fn with<T>(self: &Arc<Queue>, work: impl FnOnce(&mut State) -> Result<T, Errno>) -> Result<T, Errno> {
        let mut state = self.state.lock();
        if state.is_removed {
            return Err(Errno::EIDRM);
        }
        let before = (state.store.len(), state.figures.bytes);
        let answer = work(&mut state);
        let done = state.walk();
        self.count(before, (state.store.len(), state.figures.bytes));
        let starts = state.is_due() && !core::mem::replace(&mut state.is_walked, true);
        drop(state);
        done.tell();
        if starts {
            go_on(self.activity, walk_on(Walk { queue: self.clone(), is_over: false }));
        }
        answer
    }

    /// Brings the tenant's sums up to date.
    fn count(&self, before: (usize, u64), after: (usize, u64)) {
        let (bytes_before, bytes_after) = (before.1 as usize, after.1 as usize);
        self.totals.messages.fetch_add(after.0.wrapping_sub(before.0), Ordering::Relaxed);
        self.totals.bytes.fetch_add(bytes_after.wrapping_sub(bytes_before), Ordering::Relaxed);
    }

    /// Puts a message into the queue, or waits in line for room.
    ///
    /// # Errors
    /// EIDRM; EACCES; EAGAIN if it must wait and `may_wait` answers false.
    pub(super) fn send(
        self: &Arc<Queue>,
        sending: Sending,
        may_wait: impl FnOnce() -> bool,
    ) -> Result<Outcome<()>, Errno> {
        let waits = self.with(|state| {
            state.check(&sending.asker, WRITE)?;
            if state.fits(&sending.message) {
                state.put(sending);
                return Ok(None);
            }
            if !may_wait() {
                return Err(Errno::EAGAIN);
            }
            let (ticket, waiter) = (state.ticket(), Waiter::new());
            state.senders.insert(ticket, (sending, waiter.clone()));
            Ok(Some((ticket, waiter)))
        })?;
        Ok(self.outcome(waits, Side::Sends).unwrap_or(Outcome::Done(())))
    }

    /// Takes a message, or waits in line for one.
    ///
    /// # Errors
    /// EIDRM; EACCES; E2BIG; ENOMSG if it must wait and `may_wait` answers false.
    pub(super) fn receive(
        self: &Arc<Queue>,
        receiving: Receiving,
        may_wait: impl FnOnce() -> bool,
    ) -> Result<Outcome<Message>, Errno> {
        let mut taken = None;
        let waits = self.with(|state| {
            state.check(&receiving.asker, READ)?;
            taken = state.take(&receiving)?;
            if taken.is_some() {
                return Ok(None);
            }
            if !may_wait() {
                return Err(Errno::ENOMSG);
            }
            let (ticket, waiter) = (state.ticket(), Waiter::new());
            state.receivers.insert(ticket, (receiving, waiter.clone()));
            Ok(Some((ticket, waiter)))
        })?;
        match taken {
            Some(message) => Ok(Outcome::Done(message)),
            None => self.outcome(waits, Side::Receives).ok_or(Errno::ENOMSG),
        }
    }

    fn outcome<T>(self: &Arc<Queue>, waits: Option<(u64, Arc<Waiter<T>>)>, side: Side) -> Option<Outcome<T>> {
        let (ticket, waiter) = waits?;
        Some(Outcome::Waits(Wait { queue: self.clone(), side, ticket, waiter }))
    }

    /// Returns a copy of the message that has so many older ones: its type, its length and its first `bytes_max` bytes
    /// (MSG_COPY). It counts its way in pieces; each message that is taken meanwhile takes it one further.
    ///
    /// # Errors
    /// ENOMSG; EIDRM; ENOMEM.
    pub(super) async fn copy(self: &Arc<Queue>, index: usize, bytes_max: usize) -> Result<(Message, usize), Errno> {
        let (mut age, mut steps) = (0, index);
        while let Some(rest) = steps.checked_sub(STEPS_AT_ONCE) {
            age = self.with(|state| state.store.behind(age, STEPS_AT_ONCE).map(|one| one.0).ok_or(Errno::ENOMSG))?;
            steps = rest;
            gyre_message::yield_now().await;
        }
        self.with(|state| {
            let (_, message) = state.store.behind(age, steps).ok_or(Errno::ENOMSG)?;
            let part = message.text.get(..bytes_max.min(message.text.len())).unwrap_or_default();
            let mut text = Vec::new();
            text.try_reserve_exact(part.len()).map_err(|_| Errno::ENOMEM)?;
            text.extend_from_slice(part);
            Ok((Message::new(message.kind, text), message.text.len()))
        })
    }

    /// Sets the rights that those in line need from now on (IPC_SET). The next change of the queue tells those who lack them.
    pub(super) fn set_permission(&self, permission: Permission) {
        let mut state = self.state.lock();
        (state.permission, state.rights_due) = (Some(permission), Some(0));
    }

    /// Sets how many bytes it may hold (IPC_SET).
    ///
    /// # Errors
    /// EIDRM.
    pub(super) fn set_bytes_max(self: &Arc<Queue>, bytes_max: u64) -> Result<(), Errno> {
        self.with(|state| {
            (state.figures.bytes_max, state.figures.changed_s) = (bytes_max, now_s());
            state.senders_due = Some(0);
            Ok(())
        })
    }

    /// Ends it: who waits is answered EIDRM; messages are dropped. Some of it is done at once, the rest in turns.
    pub(crate) fn remove(self: &Arc<Queue>) {
        self.state.lock().is_removed = true;
        if self.end_some() {
            let queue = self.clone();
            go_on(self.activity, async move {
                let mut pace = Pace::new();
                while queue.end_some() {
                    pace.step().await;
                }
            });
        }
    }

    /// Takes a piece of a removed queue apart; true if there is more.
    fn end_some(&self) -> bool {
        let mut state = self.state.lock();
        let before = (state.store.len(), state.figures.bytes);
        let (mut done, mut dropped) = (Done::default(), Vec::new());
        for _ in 0..PIECES_AT_ONCE {
            let receiver = state.receivers.pop_first().map(|(_, (_, waiter))| (waiter, Err(Errno::EIDRM)));
            done.received.extend(receiver);
            if let Some((_, (sending, waiter))) = state.senders.pop_first() {
                dropped.push(sending.message);
                done.sent.push((waiter, Err(Errno::EIDRM)));
            }
            dropped.extend(state.take_oldest());
        }
        self.count(before, (state.store.len(), state.figures.bytes));
        let is_apart = state.store.is_empty() && state.receivers.is_empty() && state.senders.is_empty();
        drop(state);
        done.tell();
        !is_apart
    }
}

/// A walk with which a task goes on. If the task is dropped before its end, the next call begins another one.
struct Walk {
    queue: Arc<Queue>,
    is_over: bool,
}

impl Drop for Walk {
    fn drop(&mut self) {
        if !self.is_over {
            self.queue.state.lock().is_walked = false;
        }
    }
}

/// Goes on with the walk over a queue's lines until it is at its end.
async fn walk_on(mut walk: Walk) {
    let mut pace = Pace::new();
    loop {
        let mut state = walk.queue.state.lock();
        let before = (state.store.len(), state.figures.bytes);
        let done = state.walk();
        walk.queue.count(before, (state.store.len(), state.figures.bytes));
        state.is_walked = state.is_due();
        let goes_on = state.is_walked;
        drop(state);
        done.tell();
        if !goes_on {
            walk.is_over = true;
            return;
        }
        pace.step().await;
    }
}
