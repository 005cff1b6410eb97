//! A request at the device.

use crate::bus::Verdict;
use crate::server::{Timed, ns};
use crate::slots::ANSWER_BYTES_MAX;
use alloc::boxed::Box;
use alloc::vec::Vec;
use gyre_interface::block::{BlockError, REQUEST_VIEWS_MAX};
use gyre_interface::scsi::{COMMAND_BYTES, Direction};
use gyre_machine::now;
use gyre_message::Answer;
use gyre_object::Bytes;
use gyre_virtio::Piece;
use smallvec::SmallVec;

/// Most pieces of data of one request.
pub(crate) const DATA_PIECES_MAX: usize = REQUEST_VIEWS_MAX;

/// What the device is asked to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Read,
    Write,
    Flush,
    /// What a SCSI unit is to do.
    Command([u8; COMMAND_BYTES], Direction),
}

impl Kind {
    /// True where the device writes into the data.
    pub(crate) fn device_writes(self) -> bool {
        matches!(self, Kind::Read | Kind::Command(_, Direction::FromUnit))
    }
}

/// What the device said, with the data, and what it took of its time, in cycles.
pub struct Answered {
    pub(crate) verdict: Verdict,
    pub(crate) data: Vec<Bytes>,
    pub(crate) device_cycles: u64,
}

/// What is done with an answer; dropped undone where the device's driver goes with it.
pub type Then = Box<dyn FnOnce(Answered) + Send>;

impl Answered {
    /// To what the device was not asked.
    pub(crate) fn refused(error: BlockError) -> Answered {
        Answered { verdict: Verdict::Refused(error), data: Vec::new(), device_cycles: 0 }
    }

    /// Of a block device: the data, or what failed; and the device's time, ns.
    pub fn transferred(self) -> Timed<Vec<Bytes>> {
        (self.verdict.error().map_or(Ok(self.data), Err), ns(self.device_cycles))
    }
}

impl Answer for Answered {
    fn gone() -> Answered {
        Answered { verdict: Verdict::Failed, data: Vec::new(), device_cycles: 0 }
    }
}

/// What belongs to a chain in a ring.
pub(crate) struct Pending {
    pub(crate) kind: Kind,
    pub(crate) slot: u16,
    pub(crate) data: Vec<Bytes>,
    pub(crate) submitted_cycles: u64,
    pub(crate) deadline_cycles: u64,
    pub(crate) first_sector: u64,
    pub(crate) then: Then,
}

/// A chain that the device is done with: what it wrote as answer, and how many bytes it says it wrote in all.
pub(crate) struct Done {
    pub(crate) pending: Pending,
    pub(crate) answer: [u8; ANSWER_BYTES_MAX],
    pub(crate) bytes: u32,
}

/// Bytes of all views.
pub(crate) fn total_bytes(data: &[Bytes]) -> usize {
    data.iter().map(Bytes::len).sum()
}

impl Pending {
    /// Answers. `idle_until` is the time up to which others had the device.
    pub(crate) fn finish(self, verdict: Verdict, idle_until: u64) {
        let device_cycles = now().saturating_sub(self.submitted_cycles.max(idle_until));
        (self.then)(Answered { verdict, data: self.data, device_cycles });
    }

    /// Answers that the device failed; gives back what the device may still write to.
    pub(crate) fn fail(self) -> Vec<Bytes> {
        let device_cycles = now().saturating_sub(self.submitted_cycles);
        (self.then)(Answered { verdict: Verdict::Failed, data: Vec::new(), device_cycles });
        self.data
    }
}

/// Pieces of a chain: of 64 KiB in pages, with header and answer, without the heap.
pub(crate) type Pieces = SmallVec<[Piece; 18]>;

/// Adds the data as pieces of a chain; neighbours in memory become one.
pub(crate) fn add_data(pieces: &mut Pieces, data: &[Bytes], device_writes: bool) {
    let mut data = data.iter().map(|view| Piece { pa: view.pa(), bytes: view.len() as u32, device_writes });
    let Some(mut last) = data.next() else { return };
    for piece in data {
        let is_next = last.pa.checked_add(u64::from(last.bytes)) == Some(piece.pa);
        match last.bytes.checked_add(piece.bytes).filter(|_| is_next) {
            Some(bytes) => last.bytes = bytes,
            None => pieces.push(core::mem::replace(&mut last, piece)),
        }
    }
    pieces.push(last);
}
