//! One queue: its messages by priority, and the lines of those who wait to send and to receive.
//!
//! * A message that comes goes to the first receiver in line, or into the queue; nobody waits to receive while there are
//!   messages, and nobody waits to send while there is room. So each call serves at most one other one.
//! * A message in an empty queue ends the notice ([`super::notice`]); one that a receiver gets does not.
//! * The readiness follows the messages under the lock: READ if there are some, WRITE if there is room.
//! * Waiters and the notice are told without the lock.
//!
//! A queue that is dropped with many messages drops them in turns.

use super::super::message::Message;
use super::super::waiting::{Left, Waiter, go_on};
use super::notice::{Notice, Sender};
use super::{Count, Size};
use crate::Errno;
use crate::file::attributes::nameless;
use crate::file::pace::Pace;
use crate::objects::POSIX_QUEUES;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Reverse;
use gyre_account::ActivityId;
use gyre_interface::files::{Attributes, NodeKind};
use gyre_interface::{Readiness, Ready};
use gyre_object::{Counter, ObjectLock};

/// Messages that are dropped at once with their queue.
const DROPPED_AT_ONCE: usize = 64;
/// Bytes that a queue has as a file (FILENT_SIZE).
const FILE_BYTES: u64 = 80;

/// Owner and mode of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Owner {
    pub(super) user: u32,
    pub(super) group: u32,
    pub(super) mode: u16,
}

type Line<T> = BTreeMap<u64, T>;

struct State {
    /// The next one first: by priority, then by age.
    messages: BTreeMap<(Reverse<i64>, u64), Message>,
    bytes: u64,
    receivers: Line<Arc<Waiter<Message>>>,
    senders: Line<(Message, Arc<Waiter<()>>)>,
    /// Orders messages and waiters by age.
    next: u64,
    notice: Option<Notice>,
}

/// A queue.
// recursion: at most 1, because the notice holds its process and its socket weakly
pub struct Queue {
    _counter: Counter,
    _count: Count,
    /// The tenant's: the process that drops it last may be at its end.
    activity: ActivityId,
    /// The name that it was made with.
    pub(super) name: Vec<u8>,
    pub(super) owner: Owner,
    pub(super) size: Size,
    state: ObjectLock<State>,
    readiness: Arc<Readiness>,
}

/// The result of a call.
pub(super) enum Outcome<T> {
    /// It is done.
    Done(T),
    /// It waits.
    Waits(Wait<T>),
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
        match self.side {
            Side::Receives => Left::by(&state.receivers.remove(&self.ticket)),
            Side::Sends => {
                let found = state.senders.remove(&self.ticket);
                drop(state);
                Left::by(&found)
            }
        }
    }
}

impl<T> Drop for Wait<T> {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Queue {
    pub(super) fn new(name: Vec<u8>, owner: Owner, size: Size, count: Count, activity: ActivityId) -> Arc<Queue> {
        let state = State {
            messages: BTreeMap::new(),
            bytes: 0,
            receivers: BTreeMap::new(),
            senders: BTreeMap::new(),
            next: 0,
            notice: None,
        };
        Arc::new(Queue {
            _counter: POSIX_QUEUES.count(),
            _count: count,
            activity,
            name,
            owner,
            size,
            state: ObjectLock::new(state),
            readiness: Readiness::new(Ready::WRITE),
        })
    }

    /// Returns its readiness.
    pub(crate) fn readiness(&self) -> &Arc<Readiness> {
        &self.readiness
    }

    /// Returns its name as a path.
    pub(crate) fn path(&self) -> Vec<u8> {
        [b"/", &self.name[..]].concat()
    }

    /// Returns its attributes as a file.
    pub(crate) fn attributes(&self) -> Attributes {
        let Owner { user, group, mode } = self.owner;
        Attributes { user, group, size_bytes: FILE_BYTES, ..nameless(NodeKind::File, mode) }
    }

    /// Returns how many messages it holds.
    pub(super) fn len(&self) -> u64 {
        self.state.lock().messages.len() as u64
    }

    /// Reads the text that tells of it (mq_overview(7)).
    pub(crate) fn read(&self, into: &mut [u8], at: u64) -> usize {
        let text = self.text();
        let rest = usize::try_from(at).ok().and_then(|at| text.as_bytes().get(at..)).unwrap_or_default();
        into.iter_mut().zip(rest).for_each(|(place, byte)| *place = *byte);
        rest.len().min(into.len())
    }

    fn text(&self) -> String {
        let state = self.state.lock();
        let notice = state.notice.as_ref().filter(|notice| notice.is_valid());
        let (kind, signal, process) = notice.map_or((0, 0, 0), Notice::figures);
        format!("QSIZE:{:<10} NOTIFY:{kind:<5} SIGNO:{signal:<5} NOTIFY_PID:{process:<6}\n", state.bytes)
    }

    /// Brings the readiness up to date.
    fn publish(&self, state: &State) {
        let mut bits = Ready::empty();
        bits.set(Ready::READ, !state.messages.is_empty());
        bits.set(Ready::WRITE, (state.messages.len() as u64) < self.size.messages);
        self.readiness.clear(!bits);
        self.readiness.set(bits);
    }

    /// Sends a message: to the first receiver in line, into the queue, or waits in line for room.
    ///
    /// # Errors
    /// EAGAIN if it must wait and `may_wait` answers false.
    pub(super) fn send(
        self: &Arc<Queue>,
        message: Message,
        sender: Sender,
        may_wait: impl FnOnce() -> bool,
    ) -> Result<Outcome<()>, Errno> {
        let mut state = self.state.lock();
        if let Some((_, receiver)) = state.receivers.pop_first() {
            drop(state);
            receiver.answer(Ok(message));
            return Ok(Outcome::Done(()));
        }
        if state.messages.len() as u64 >= self.size.messages {
            return match may_wait() {
                true => Ok(Outcome::Waits(self.join(&mut state, Side::Sends, |state, ticket, waiter| {
                    state.senders.insert(ticket, (message, waiter));
                }))),
                false => Err(Errno::EAGAIN),
            };
        }
        let told = if state.messages.is_empty() { state.notice.take() } else { None };
        state.put(message);
        self.publish(&state);
        drop(state);
        if let Some(notice) = told {
            notice.tell(sender);
        }
        Ok(Outcome::Done(()))
    }

    /// Takes the next message, or waits in line for one.
    ///
    /// # Errors
    /// EAGAIN if it must wait and `may_wait` answers false.
    pub(super) fn receive(self: &Arc<Queue>, may_wait: impl FnOnce() -> bool) -> Result<Outcome<Message>, Errno> {
        let mut state = self.state.lock();
        let Some((_, message)) = state.messages.pop_first() else {
            return match may_wait() {
                true => Ok(Outcome::Waits(self.join(&mut state, Side::Receives, |state, ticket, waiter| {
                    state.receivers.insert(ticket, waiter);
                }))),
                false => Err(Errno::EAGAIN),
            };
        };
        state.bytes = state.bytes.saturating_sub(message.text.len() as u64);
        let sent = state.senders.pop_first().map(|(_, (message, sender))| {
            state.put(message);
            sender
        });
        self.publish(&state);
        drop(state);
        if let Some(sender) = sent {
            sender.answer(Ok(()));
        }
        Ok(Outcome::Done(message))
    }

    fn join<T>(
        self: &Arc<Queue>,
        state: &mut State,
        side: Side,
        add: impl FnOnce(&mut State, u64, Arc<Waiter<T>>),
    ) -> Wait<T> {
        let (ticket, waiter) = (state.number(), Waiter::new());
        add(state, ticket, waiter.clone());
        Wait { queue: self.clone(), side, ticket, waiter }
    }

    /// Registers who is told of a message in an empty queue.
    ///
    /// # Errors
    /// EBUSY if another one is.
    pub(super) fn register(&self, notice: Notice) -> Result<(), Errno> {
        let mut state = self.state.lock();
        match &state.notice {
            Some(other) if other.is_valid() => Err(Errno::EBUSY),
            _ => {
                state.notice = Some(notice);
                Ok(())
            }
        }
    }

    /// Forgets what a process has registered: by its wish, or since it closes a descriptor of the queue.
    pub(crate) fn forget_notice(&self, process: i32) {
        let notice = self.state.lock().notice.take_if(|notice| notice.is_of(process));
        if let Some(notice) = notice {
            notice.end();
        }
    }
}

impl Drop for Queue {
    /// Drops the messages; many of them in turns.
    fn drop(&mut self) {
        let mut messages = core::mem::take(&mut self.state.lock().messages);
        if messages.len() <= DROPPED_AT_ONCE {
            return;
        }
        go_on(self.activity, async move {
            let mut pace = Pace::new();
            while messages.pop_first().is_some() {
                pace.step().await;
            }
        });
    }
}

impl State {
    fn number(&mut self) -> u64 {
        let number = self.next;
        self.next = number.saturating_add(1);
        number
    }

    fn put(&mut self, message: Message) {
        self.bytes = self.bytes.saturating_add(message.text.len() as u64);
        let place = (Reverse(message.kind), self.number());
        self.messages.insert(place, message);
    }
}
