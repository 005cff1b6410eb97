//! A channel's two ends. Each has an inbox with a lock of its own; two are never held at once.
//!
//! States of a direction: open, ended (its writer is gone; what waits is still read), closed (its reader is gone; what waited is dropped).
//!
//! The readiness to write of an end is set and cleared under the lock of its peer's inbox, so that a reader that makes room never misses a
//! writer that found none. Memory: a message's pages are its sender's until they are read; the shared pages are those of who touches them first.
//!
//! Left out: waiting (the caller waits on the readiness), copying from and to programs, descriptors.

use crate::ChannelError;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_account::Grant;
use gyre_address_space::SharedMemory;
use gyre_interface::{Readiness, Ready};
use gyre_object::{Bytes, ObjectLock, SpinLock};

/// Messages that wait in an inbox.
pub const MESSAGES_MAX: usize = 64;
/// Bytes that wait in an inbox before it takes no more messages.
pub const INBOX_BYTES: usize = 256 << 10;
/// Bytes of a message.
pub const MESSAGE_BYTES_MAX: usize = 64 << 10;
/// Pages that both ends map.
pub const PAGES_MAX: usize = 512;

/// A message: its pieces, in order.
pub type Message = Vec<Bytes>;

#[derive(Default)]
struct Inbox {
    messages: VecDeque<Message>,
    bytes: usize,
    received: u64,
    received_bytes: u64,
    /// Its reader is gone.
    is_closed: bool,
    /// Its writer is gone.
    is_ended: bool,
    /// Its writer's instance is gone.
    is_lost: bool,
}

struct Side {
    tenant: String,
    inbox: ObjectLock<Inbox>,
    readiness: Arc<Readiness>,
    /// The grant that whoever is here gave to whoever is there.
    granted: SpinLock<Option<Arc<Grant>>>,
}

/// The part that both ends share.
struct Pair {
    sides: [Side; 2],
    memory: Arc<SharedMemory>,
    pages: usize,
}

/// One end of a channel.
pub struct End {
    pair: Arc<Pair>,
    own: usize,
}

/// Figures of a channel, as one of its ends sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Figures {
    /// The tenant at the other end.
    pub peer: String,
    /// Pages that both may map.
    pub pages: usize,
    /// Messages that it received, and their bytes.
    pub received: u64,
    /// See there.
    pub received_bytes: u64,
    /// Messages that the peer received, and their bytes.
    pub sent: u64,
    /// See there.
    pub sent_bytes: u64,
    /// Messages that wait to be read here.
    pub waiting: usize,
    /// Bytes of the first of them; 0 without one.
    pub next_bytes: usize,
}

impl Inbox {
    fn has_room(&self) -> bool {
        self.messages.len() < MESSAGES_MAX && self.bytes < INBOX_BYTES
    }
}

fn bytes_of(message: &Message) -> usize {
    message.iter().fold(0, |sum, piece| sum.saturating_add(piece.len()))
}

impl End {
    /// Makes the two ends of a channel between these tenants, with pages that both may map.
    ///
    /// # Errors
    /// [`ChannelError::Invalid`] for more than [`PAGES_MAX`] pages.
    pub fn pair(tenants: [&str; 2], pages: usize) -> Result<[End; 2], ChannelError> {
        End::pair_over(tenants, pages, Arc::default())
    }

    /// Makes them over pages that are there already.
    ///
    /// # Errors
    /// As [`End::pair`].
    pub fn pair_over(tenants: [&str; 2], pages: usize, memory: Arc<SharedMemory>) -> Result<[End; 2], ChannelError> {
        if pages > PAGES_MAX {
            return Err(ChannelError::Invalid);
        }
        let side = |tenant: &str| Side {
            tenant: tenant.into(),
            inbox: ObjectLock::new(Inbox::default()),
            readiness: Readiness::new(Ready::WRITE),
            granted: SpinLock::new(None),
        };
        let pair = Arc::new(Pair { sides: tenants.map(side), memory, pages });
        Ok([0, 1].map(|own| End { pair: pair.clone(), own }))
    }

    fn here(&self) -> &Side {
        let [first, second] = &self.pair.sides;
        if self.own == 0 { first } else { second }
    }

    fn there(&self) -> &Side {
        let [first, second] = &self.pair.sides;
        if self.own == 0 { second } else { first }
    }

    /// Returns its readiness: to read if a message waits or the peer is gone, to write if the peer's inbox has room.
    pub fn readiness(&self) -> &Arc<Readiness> {
        &self.here().readiness
    }

    /// Looks whether a message of so many bytes may be sent now, before it is gathered.
    ///
    /// # Errors
    /// As [`End::send`].
    pub fn check_room(&self, bytes: usize) -> Result<(), ChannelError> {
        if bytes > MESSAGE_BYTES_MAX {
            return Err(ChannelError::TooLong);
        }
        let inbox = self.there().inbox.lock();
        if inbox.is_closed {
            return Err(ChannelError::Ended);
        }
        if !inbox.has_room() {
            self.here().readiness.clear(Ready::WRITE);
            return Err(ChannelError::Again);
        }
        Ok(())
    }

    /// Sends a message. An empty one is none: nothing is sent.
    ///
    /// # Errors
    /// [`ChannelError::TooLong`], [`ChannelError::Again`] without room, [`ChannelError::Ended`].
    pub fn send(&self, message: Message) -> Result<(), ChannelError> {
        let bytes = bytes_of(&message);
        self.check_room(bytes)?;
        if bytes == 0 {
            return Ok(());
        }
        {
            let mut inbox = self.there().inbox.lock();
            // it may have changed since the look
            if inbox.is_closed {
                return Err(ChannelError::Ended);
            }
            if !inbox.has_room() {
                return Err(ChannelError::Again);
            }
            inbox.bytes = inbox.bytes.saturating_add(bytes);
            inbox.messages.push_back(message);
            if !inbox.has_room() {
                self.here().readiness.clear(Ready::WRITE);
            }
        }
        self.there().readiness.set(Ready::READ);
        Ok(())
    }

    /// Receives a message of at most so many bytes; `None` once the peer is gone and all that it sent was read.
    ///
    /// # Errors
    /// [`ChannelError::Lost`] if the peer's instance is gone and all was read; [`ChannelError::Again`] if none has come; [`ChannelError::TooLong`] if the first is longer: it stays.
    pub fn receive(&self, bytes_max: usize) -> Result<Option<Message>, ChannelError> {
        let mut inbox = self.here().inbox.lock();
        let Some(first) = inbox.messages.front() else {
            if inbox.is_lost {
                return Err(ChannelError::Lost);
            }
            if inbox.is_ended {
                return Ok(None);
            }
            self.here().readiness.clear(Ready::READ);
            return Err(ChannelError::Again);
        };
        let bytes = bytes_of(first);
        if bytes > bytes_max {
            return Err(ChannelError::TooLong);
        }
        let message = inbox.messages.pop_front();
        inbox.bytes = inbox.bytes.saturating_sub(bytes);
        inbox.received = inbox.received.saturating_add(1);
        inbox.received_bytes = inbox.received_bytes.saturating_add(bytes as u64);
        if inbox.messages.is_empty() && !inbox.is_ended {
            self.here().readiness.clear(Ready::READ);
        }
        if inbox.has_room() {
            self.there().readiness.set(Ready::WRITE);
        }
        Ok(message)
    }

    /// Ends the channel because the instance that this end stands for is gone: the peer reads what is there, then hears that.
    pub fn cut(self) {
        self.there().inbox.lock().is_lost = true;
    }

    /// Returns the pages that both ends may map, and how many they are.
    ///
    /// # Errors
    /// [`ChannelError::Invalid`] if the channel has none.
    pub fn memory(&self) -> Result<(Arc<SharedMemory>, usize), ChannelError> {
        if self.pair.pages == 0 {
            return Err(ChannelError::Invalid);
        }
        Ok((self.pair.memory.clone(), self.pair.pages))
    }

    /// Gives the peer a grant to work at this side's expense, in place of the one before, which is revoked; answers that one.
    ///
    /// # Errors
    /// [`ChannelError::Ended`] if the peer is gone.
    pub fn give_grant(&self, grant: Option<Arc<Grant>>) -> Result<Option<Arc<Grant>>, ChannelError> {
        if grant.is_some() && self.there().inbox.lock().is_closed {
            return Err(ChannelError::Ended);
        }
        let before = core::mem::replace(&mut *self.here().granted.lock(), grant);
        before.iter().for_each(|before| _ = before.revoke());
        Ok(before)
    }

    /// Returns the grant that this side gave.
    pub fn given(&self) -> Option<Arc<Grant>> {
        self.here().granted.lock().clone()
    }

    /// Returns the grant that the peer gave.
    pub fn grant(&self) -> Option<Arc<Grant>> {
        self.there().granted.lock().clone()
    }

    /// Returns whether the peer is gone.
    pub fn is_alone(&self) -> bool {
        self.here().inbox.lock().is_ended
    }

    /// Returns the tenant at the other end.
    pub fn peer(&self) -> &str {
        &self.there().tenant
    }

    /// Returns its figures.
    pub fn figures(&self) -> Figures {
        let (sent, sent_bytes) = {
            let inbox = self.there().inbox.lock();
            (inbox.received, inbox.received_bytes)
        };
        let inbox = self.here().inbox.lock();
        Figures {
            peer: self.there().tenant.clone(),
            pages: self.pair.pages,
            received: inbox.received,
            received_bytes: inbox.received_bytes,
            sent,
            sent_bytes,
            waiting: inbox.messages.len(),
            next_bytes: inbox.messages.front().map_or(0, bytes_of),
        }
    }
}

impl Drop for End {
    /// The peer reads what is there, then the end; it sends no more, and spends no more of what it was granted.
    fn drop(&mut self) {
        let waiting = {
            let mut inbox = self.here().inbox.lock();
            inbox.is_closed = true;
            core::mem::take(&mut inbox.messages)
        };
        drop(waiting);
        let _ = self.give_grant(None);
        self.there().inbox.lock().is_ended = true;
        self.there().readiness.set(Ready::READ | Ready::WRITE | Ready::READ_HANG_UP | Ready::HANG_UP);
    }
}
