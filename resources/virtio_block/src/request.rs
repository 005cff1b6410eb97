//! A request at the device.

use alloc::vec::Vec;
use gyre_interface::block::{BlockError, REQUEST_BYTES_MAX, SECTOR_BYTES};
use gyre_message::Reply;
use gyre_object::Bytes;
use gyre_virtio::Piece;

/// Most pieces of data of one request: 32 KiB in parts of a sector would be 64; pages in parts of 1 KiB are 32.
pub(crate) const DATA_PIECES_MAX: usize = REQUEST_BYTES_MAX / SECTOR_BYTES;

/// What the device is asked to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Read,
    Write,
    Flush,
}

impl Kind {
    /// The type field (virtio 1.2 §5.2.6).
    pub(crate) fn code(self) -> u32 {
        match self {
            Kind::Read => 0,
            Kind::Write => 1,
            Kind::Flush => 4,
        }
    }
}

/// The answer: the data comes back with it.
pub(crate) type Answer = Result<Vec<Bytes>, BlockError>;

/// What belongs to a chain in the ring.
pub(crate) struct Pending {
    pub(crate) kind: Kind,
    pub(crate) slot: u16,
    pub(crate) data: Vec<Bytes>,
    pub(crate) deadline_cycles: u64,
    pub(crate) reply: Reply<Answer>,
}

/// Bytes of all views.
pub(crate) fn total_bytes(data: &[Bytes]) -> usize {
    data.iter().map(Bytes::len).sum()
}

impl Pending {
    /// What the device's status means (virtio 1.2 §5.2.6: 0 ok, 1 error, 2 unsupported), for a chain of which it wrote `bytes`.
    pub(crate) fn finish(self, status: u8, bytes: u32) {
        let expected = if self.kind == Kind::Read { total_bytes(&self.data) + 1 } else { 1 };
        let answer = match status {
            0 if bytes as usize >= expected => Ok(self.data),
            2 => Err(BlockError::Unsupported),
            _ => Err(BlockError::Io),
        };
        self.reply.send(answer);
    }

    /// Answers that the device failed; gives back what the device may still write to.
    pub(crate) fn fail(self) -> Vec<Bytes> {
        self.reply.send(Err(BlockError::Io));
        self.data
    }
}

/// The data as pieces of a chain; neighbours in memory become one.
pub(crate) fn data_pieces(data: &[Bytes], device_writes: bool) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::with_capacity(data.len() + 2);
    for view in data {
        let (pa, bytes) = (view.pa(), view.len() as u32);
        match pieces.last_mut() {
            Some(last) if last.pa.0 + u64::from(last.bytes) == pa.0 => last.bytes += bytes,
            _ => pieces.push(Piece { pa, bytes, device_writes }),
        }
    }
    pieces
}
