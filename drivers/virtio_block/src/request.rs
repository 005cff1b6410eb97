//! A request at the device.

use crate::bus::Verdict;
use crate::slots::ANSWER_BYTES_MAX;
use crate::wire::Said;
use alloc::vec::Vec;
use gyre_device::{Then, Timed};
use gyre_interface::block::{BlockError, REQUEST_VIEWS_MAX};
use gyre_interface::scsi::{Answer, COMMAND_BYTES, Direction, HostError};
use gyre_machine::{cycles_per_ms, now};
use gyre_object::Bytes;
use gyre_virtio::Piece;
use smallvec::SmallVec;

/// Most pieces of data of one request.
pub(crate) const DATA_PIECES_MAX: usize = REQUEST_VIEWS_MAX;

/// A task for the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Read,
    Write,
    Flush,
    /// A command for a SCSI unit.
    Command([u8; COMMAND_BYTES], Direction),
}

impl Kind {
    /// Returns true if the device writes into the data.
    pub(crate) fn device_writes(self) -> bool {
        matches!(self, Kind::Read | Kind::Command(_, Direction::FromUnit))
    }
}

/// The function that gets the answer.
pub(crate) enum Asker {
    /// Of a transfer of sectors.
    Transfer(Then<Result<Vec<Bytes>, BlockError>>),
    /// Of a command for a SCSI unit.
    Command(Then<Result<Answer, HostError>>),
}

impl Asker {
    /// Gives an answer: its meaning, the request's memory, and the device's time, cycles.
    pub(crate) fn answer(self, verdict: Verdict, data: Vec<Bytes>, device_cycles: u64) {
        let device_ns = ns(device_cycles);
        match self {
            Asker::Transfer(then) => then(Timed { answer: verdict.error().map_or(Ok(data), Err), device_ns }),
            Asker::Command(then) => then(Timed { answer: said(verdict, data), device_ns }),
        }
    }
}

fn said(verdict: Verdict, data: Vec<Bytes>) -> Result<Answer, HostError> {
    match verdict {
        Verdict::Said(Said { status, sense, residual_bytes }) => Ok(Answer { status, sense, residual_bytes, data }),
        _ => Err(HostError::Failed),
    }
}

#[expect(clippy::arithmetic_side_effects, reason = "64 bits times 20 fit; the divisor is at least 1")]
fn ns(cycles: u64) -> u64 {
    let ns = u128::from(cycles) * 1_000_000 / u128::from(cycles_per_ms().max(1));
    u64::try_from(ns).unwrap_or(u64::MAX)
}

/// A request, as the token of its chain in a ring.
pub(crate) struct Pending {
    pub(crate) kind: Kind,
    pub(crate) slot: u16,
    pub(crate) data: Vec<Bytes>,
    pub(crate) submitted_cycles: u64,
    /// The end of its time, cycles of the device's own time.
    pub(crate) deadline_own: u64,
    pub(crate) first_sector: u64,
    pub(crate) asker: Asker,
}

/// A chain that the device is done with, its answer, and how many bytes the device says it wrote in all.
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
        self.asker.answer(verdict, self.data, device_cycles);
    }

    /// Answers that the device failed, which was not asked.
    pub(crate) fn refuse(self) {
        self.asker.answer(Verdict::Failed, Vec::new(), 0);
    }

    /// Answers that the device failed; gives back what the device may still write to.
    pub(crate) fn fail(self) -> Vec<Bytes> {
        let device_cycles = now().saturating_sub(self.submitted_cycles);
        self.asker.answer(Verdict::Failed, Vec::new(), device_cycles);
        self.data
    }
}

/// Pieces of a chain: of 64 KiB in pages, with header and answer, without the heap.
pub(crate) type Pieces = SmallVec<[Piece; 18]>;

/// Adds the data as pieces of a chain; neighbours in memory become one.
pub(crate) fn add_data(pieces: &mut Pieces, data: &[Bytes], kind: Kind) {
    let device_writes = kind.device_writes();
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
