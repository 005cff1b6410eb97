//! The inbox of a local socket: messages that were sent and not yet received.

use super::super::in_flight::Ticket;
use super::{Data, Incoming, PeerCredentials, Receive, UnixName};
use crate::Errno;
use alloc::collections::VecDeque;
use gyre_object::ByteQueue;

/// Bytes that a socket holds for its reader.
pub const INBOX_BYTES: usize = 208 * 1024;
/// Datagrams that a socket holds (net.unix.max_dgram_qlen is 10 or 512; this is between).
const RECORDS_MAX: usize = 256;

/// The record of a piece of the queue.
struct Record {
    bytes: usize,
    /// Stands for the files that came along.
    rights: Option<Ticket>,
    sender: PeerCredentials,
    from: UnixName,
}

/// How messages are kept apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Borders {
    /// A stream of bytes.
    None,
    /// One read, one message.
    Kept,
}

/// Messages or bytes waiting for a reader.
#[derive(Default)]
pub struct Inbox {
    queue: ByteQueue,
    records: VecDeque<Record>,
}

impl Inbox {
    /// Returns whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Returns the bytes that wait.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Returns the length of the first message.
    pub fn first_bytes(&self) -> usize {
        self.records.front().map_or(0, |record| record.bytes)
    }

    /// Returns whether a usual message has room.
    pub fn has_room(&self) -> bool {
        self.queue.len() <= INBOX_BYTES - 4096 && self.records.len() < RECORDS_MAX
    }

    /// Returns the bytes of a message of `bytes` that go in now.
    ///
    /// # Errors
    /// EAGAIN; EMSGSIZE for a message with borders that never fits.
    pub fn admit(&self, bytes: usize, borders: Borders) -> Result<usize, Errno> {
        let room = INBOX_BYTES.saturating_sub(self.queue.len());
        if borders == Borders::Kept && bytes > INBOX_BYTES {
            return Err(Errno::EMSGSIZE);
        }
        if borders == Borders::Kept && (room < bytes || self.records.len() >= RECORDS_MAX) {
            return Err(Errno::EAGAIN);
        }
        if room == 0 || self.records.len() >= RECORDS_MAX * 4 {
            return Err(Errno::EAGAIN);
        }
        Ok(bytes.min(room))
    }

    /// Adds the first `bytes` bytes of a message that was admitted.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn push(
        &mut self,
        data: &Data<'_>,
        bytes: usize,
        borders: Borders,
        rights: &mut Option<Ticket>,
        sender: PeerCredentials,
        from: UnixName,
    ) -> Result<(), Errno> {
        match data {
            Data::Small(slice) => self.queue.push_slice(slice.get(..bytes).unwrap_or(slice))?,
            Data::Pieces(pieces) => {
                let mut left = bytes;
                for piece in pieces {
                    let part = piece.slice(0, left);
                    left = left.saturating_sub(part.len());
                    if !part.is_empty() {
                        self.queue.push_bytes(&part);
                    }
                }
            }
        }
        if let Some(last) = self.records.back_mut()
            && borders == Borders::None
            && rights.is_none()
            && last.sender == sender
        {
            last.bytes = last.bytes.saturating_add(bytes);
            return Ok(());
        }
        self.records.push_back(Record { bytes, rights: rights.take(), sender, from });
        Ok(())
    }

    /// Takes or looks at the first message, or up to `bytes_max` bytes of a stream. Files in a message end a read:
    /// later bytes wait for the next one.
    pub fn pop(&mut self, bytes_max: usize, borders: Borders, how: Receive) -> Option<Incoming> {
        if borders == Borders::None && bytes_max == 0 {
            return None;
        }
        let front = self.records.front_mut()?;
        let bytes = front.bytes.min(bytes_max);
        let mut message = Incoming {
            whole_bytes: if borders == Borders::Kept { front.bytes } else { bytes },
            sender: Some(front.sender),
            from: Some(super::Address::Unix(front.from.clone())),
            ends_record: borders == Borders::Kept,
            ..Incoming::default()
        };
        if how == Receive::Peek {
            message.data = self.queue.peek(bytes);
            message.rights = front.rights.as_ref().map(Ticket::look).unwrap_or_default();
            return Some(message);
        }
        message.rights = front.rights.take().map(Ticket::take).unwrap_or_default();
        message.data = self.queue.take(bytes);
        front.bytes = front.bytes.saturating_sub(bytes);
        let rest = front.bytes;
        if borders == Borders::Kept && rest > 0 {
            drop(self.queue.take(rest));
        }
        if borders == Borders::Kept || rest == 0 {
            self.records.pop_front();
        }
        Some(message)
    }
}
