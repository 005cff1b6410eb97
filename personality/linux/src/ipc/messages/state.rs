//! The state of a queue, behind its lock: messages, figures, and the lines of those who wait.
//!
//! * Each change notes from which ticket on a line is to be looked at: the receivers' when a message has come, the senders' when one has
//!   gone, and the receivers' again when the rights have changed.
//! * [`State::walk`] looks at some of those, rights first, and gathers who has an answer in [`Done`], which tells them without the lock.
//! * A receiver without the right to read is answered EACCES, and a sender without the right to write once its message would fit: Linux asks
//!   for rights at each turn of its loops in ipc/msg.c, IPC_SET wakes all receivers, and senders only if there is room.
//! * A message that is refused is dropped without the lock.

use super::super::message::Message;
use super::super::now_s;
use super::super::permission::Permission;
use super::super::waiting::Waiter;
use super::super::{READ, WRITE};
use super::QUEUE_BYTES;
use super::store::{Store, Wanted};
use crate::Errno;
use crate::file::permission::Asker;
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
    pub(super) asker: Asker,
}

/// The message of a sender.
pub(super) struct Sending {
    pub(super) message: Message,
    pub(super) process: i32,
    pub(super) asker: Asker,
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
    /// Receivers that may have lost their rights.
    pub(super) rights_due: Option<u64>,
    /// The rights that IPC_SET gave last; `None` as long as those hold that all who are here had.
    pub(super) permission: Option<Permission>,
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
    refused: Vec<Sending>,
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
            rights_due: None,
            permission: None,
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
        let is_due = self.rights_due.is_some() || self.receivers_due.is_some() || self.senders_due.is_some();
        !self.is_removed && is_due
    }

    /// Checks the rights that hold now.
    ///
    /// # Errors
    /// EACCES.
    pub(super) fn check(&self, asker: &Asker, wanted: u32) -> Result<(), Errno> {
        self.permission.map_or(Ok(()), |permission| permission.check(asker, wanted))
    }

    /// Returns whether there is room for a message: bytes, and as many messages as bytes (msgop(2)).
    pub(super) fn fits(&self, message: &Message) -> bool {
        let bytes = self.figures.bytes.saturating_add(message.text.len() as u64);
        bytes <= self.figures.bytes_max && (self.store.len() as u64) < self.figures.bytes_max
    }

    pub(super) fn put(&mut self, sending: Sending) {
        let Sending { message, process, .. } = sending;
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
            match (self.rights_due, self.receivers_due, self.senders_due) {
                (Some(ticket), ..) => self.look_at_rights(ticket, &mut done),
                (None, Some(ticket), _) => self.look_at_receiver(ticket, &mut done),
                (None, None, Some(ticket)) => self.look_at_sender(ticket, &mut done),
                (None, None, None) => break,
            }
        }
        done
    }

    fn look_at_rights(&mut self, from: u64, done: &mut Done) {
        self.rights_due = None;
        let Some((&ticket, (receiving, _))) = self.receivers.range(from..).next() else { return };
        self.rights_due = ticket.checked_add(1);
        if let Err(errno) = self.check(&receiving.asker, READ)
            && let Some((_, waiter)) = self.receivers.remove(&ticket)
        {
            done.received.push((waiter, Err(errno)));
        }
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
        if !self.fits(&sending.message) {
            return;
        }
        let may = self.check(&sending.asker, WRITE);
        let Some((sending, waiter)) = self.senders.remove(&ticket) else { return };
        match may {
            Ok(()) => self.put(sending),
            // Its message is dropped without the lock.
            Err(_) => done.refused.push(sending),
        }
        done.sent.push((waiter, may));
    }
}
