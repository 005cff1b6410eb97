//! The state of a queue, behind its lock: messages, figures, and the lines of those who wait.

use super::super::message::Message;
use super::super::now_s;
use super::super::waiting::Waiter;
use super::QUEUE_BYTES;
use super::store::{Store, Wanted};
use crate::Errno;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Waiters that one turn of a walk looks at.
const LOOKS_AT_ONCE: usize = 256;

/// The figures of a queue (`struct msqid_ds`).
#[derive(Clone, Copy, Default)]
pub(crate) struct Figures {
    /// Bytes of its messages, and the most there may be.
    pub(crate) bytes: u64,
    pub(crate) bytes_max: u64,
    /// Messages.
    pub(crate) messages: u64,
    /// Times of the last call of each kind, seconds since 1970; 0 if there was none.
    pub(crate) sent_s: u64,
    pub(crate) received_s: u64,
    pub(crate) changed_s: u64,
    /// The processes that sent and received last.
    pub(crate) sender: i32,
    pub(crate) receiver: i32,
}

/// The wish of a receiver.
pub(super) struct Receiving {
    pub(super) wanted: Wanted,
    /// Bytes of its buffer.
    pub(super) bytes_max: usize,
    /// MSG_NOERROR: a longer message is cut.
    pub(super) cuts: bool,
    pub(super) process: i32,
}

/// The message of a sender.
pub(super) struct Sending {
    pub(super) message: Message,
    pub(super) process: i32,
}

type Line<W, T> = BTreeMap<u64, (W, Arc<Waiter<T>>)>;

/// The state of a queue.
pub(super) struct State {
    pub(super) store: Store,
    pub(super) figures: Figures,
    pub(super) receivers: Line<Receiving, Message>,
    pub(super) senders: Line<Sending, ()>,
    next_ticket: u64,
    /// The tickets from which the walks over the lines go on; `None` if nothing has changed for them.
    receivers_due: Option<u64>,
    pub(super) senders_due: Option<u64>,
    pub(super) is_removed: bool,
    /// True while a task goes on with a walk.
    pub(super) is_walked: bool,
}

/// Waiters, each with its answer.
type Answers<T> = Vec<(Arc<Waiter<T>>, Result<T, Errno>)>;

/// Waiters that have their answers.
#[derive(Default)]
pub(super) struct Done {
    pub(super) received: Answers<Message>,
    pub(super) sent: Answers<()>,
}

impl Done {
    /// Tells them. Call it without the lock of the queue.
    pub(super) fn tell(self) {
        self.received.into_iter().for_each(|(waiter, answer)| waiter.answer(answer));
        self.sent.into_iter().for_each(|(waiter, answer)| waiter.answer(answer));
    }
}

impl State {
    /// Makes the state of an empty queue.
    pub(super) fn new() -> State {
        let figures = Figures { bytes_max: QUEUE_BYTES, changed_s: now_s(), ..Figures::default() };
        State {
            store: Store::default(),
            figures,
            receivers: BTreeMap::new(),
            senders: BTreeMap::new(),
            next_ticket: 0,
            receivers_due: None,
            senders_due: None,
            is_removed: false,
            is_walked: false,
        }
    }

    pub(super) fn ticket(&mut self) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket = ticket.saturating_add(1);
        ticket
    }

    /// Returns whether a walk is to go on; nobody is served any more once the queue is removed.
    pub(super) fn is_due(&self) -> bool {
        !self.is_removed && (self.receivers_due.is_some() || self.senders_due.is_some())
    }

    /// Returns whether there is room for a message: bytes, and as many messages as bytes (msgop(2)).
    pub(super) fn fits(&self, message: &Message) -> bool {
        let bytes = self.figures.bytes.saturating_add(message.text.len() as u64);
        bytes <= self.figures.bytes_max && (self.store.len() as u64) < self.figures.bytes_max
    }

    pub(super) fn put(&mut self, sending: Sending) {
        let Sending { message, process } = sending;
        self.figures.bytes = self.figures.bytes.saturating_add(message.text.len() as u64);
        (self.figures.sent_s, self.figures.sender) = (now_s(), process);
        self.store.push(message);
        self.receivers_due = Some(0);
    }

    /// Takes the message that a receiver wants, if there is one.
    pub(super) fn take(&mut self, receiving: &Receiving) -> Result<Option<Message>, Errno> {
        let Some(age) = self.store.find(receiving.wanted) else { return Ok(None) };
        let bytes = self.store.get(age).map_or(0, |message| message.text.len());
        if bytes > receiving.bytes_max && !receiving.cuts {
            return Err(Errno::E2BIG);
        }
        (self.figures.received_s, self.figures.receiver) = (now_s(), receiving.process);
        Ok(self.take_at(age))
    }

    fn take_at(&mut self, age: u64) -> Option<Message> {
        let message = self.store.take(age)?;
        self.figures.bytes = self.figures.bytes.saturating_sub(message.text.len() as u64);
        self.senders_due = Some(0);
        Some(message)
    }

    pub(super) fn take_oldest(&mut self) -> Option<Message> {
        self.store.find(Wanted::Any).and_then(|age| self.take_at(age))
    }

    /// Looks at some of those in line for whom something has changed, and does what they wait for if it can be done.
    pub(super) fn walk(&mut self) -> Done {
        let mut done = Done::default();
        if self.is_removed {
            return done;
        }
        for _ in 0..LOOKS_AT_ONCE {
            match (self.receivers_due, self.senders_due) {
                (Some(ticket), _) => self.look_at_receiver(ticket, &mut done),
                (None, Some(ticket)) => self.look_at_sender(ticket, &mut done),
                (None, None) => break,
            }
        }
        done
    }

    fn look_at_receiver(&mut self, from: u64, done: &mut Done) {
        self.receivers_due = None;
        let next = self.receivers.range(from..).next().map(|(ticket, _)| *ticket).filter(|_| !self.store.is_empty());
        let Some((ticket, (receiving, waiter))) =
            next.and_then(|ticket| Some((ticket, self.receivers.remove(&ticket)?)))
        else {
            return;
        };
        self.receivers_due = ticket.checked_add(1);
        match self.take(&receiving) {
            Ok(None) => _ = self.receivers.insert(ticket, (receiving, waiter)),
            Ok(Some(message)) => done.received.push((waiter, Ok(message))),
            Err(errno) => done.received.push((waiter, Err(errno))),
        }
    }

    fn look_at_sender(&mut self, from: u64, done: &mut Done) {
        self.senders_due = None;
        let Some((&ticket, (sending, _))) = self.senders.range(from..).next() else { return };
        self.senders_due = ticket.checked_add(1);
        if self.fits(&sending.message)
            && let Some((sending, waiter)) = self.senders.remove(&ticket)
        {
            self.put(sending);
            done.sent.push((waiter, Ok(())));
        }
    }
}
