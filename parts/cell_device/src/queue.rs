//! The split ring of a cell (virtio 1.2, 2.7), device's side.
//!
//! ```text
//!   take* --None--> listen --true--> take again            requests come, each once
//!   answer                                                 goes to the used ring; the cell looks there, or idles and is told
//!   hush                                                   the cell rings no more until the next listen
//! ```
//! The cell writes descriptors and available ring; the indices here are the kernel's own.

use crate::chain::Chain;
use crate::place::Place;
use crate::request::Request;
use core::sync::atomic::{Ordering, fence};
use gyre_cell_abi::device::{DESCRIPTOR_BYTES, DeviceRequest, ENTRIES_MAX, QUIET};
use gyre_cell_memory::CellMemory;

/// A word of the cell that cannot be true.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lie {
    /// More requests are said to be there than the ring has entries.
    Index,
    /// A descriptor lies outside of the table.
    Descriptor,
    /// Header, data and status are not in their order, or not as long as they must be.
    Shape,
    /// Memory that is no lot of the cell.
    Memory,
}

/// The ring cannot be used: its size is none, or a part of it lies outside of the cell's lots, or at an odd address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoQueue;

/// The queue of a cell.
pub struct Queue {
    entries: u16,
    descriptors: Place,
    available: Place,
    used: Place,
    /// Requests taken and answered so far, both wrapping.
    taken: u16,
    answered: u16,
}

const FLAGS: usize = 0;
const INDEX: usize = 2;
const RING: usize = 4;

/// Bytes of a ring with entries of so many bytes; the word behind the last entry belongs to the event index.
fn ring_bytes(entries: u32, bytes: u64) -> u64 {
    u64::from(entries).saturating_mul(bytes).saturating_add(6)
}

impl Queue {
    /// Finds the parts of a queue in the memory of a cell.
    ///
    /// # Errors
    /// [`NoQueue`].
    pub fn new(memory: &CellMemory, plan: &DeviceRequest) -> Result<Queue, NoQueue> {
        let entries = plan.entries;
        if !entries.is_power_of_two() || entries > ENTRIES_MAX {
            return Err(NoQueue);
        }
        let table = u64::from(entries).saturating_mul(DESCRIPTOR_BYTES);
        let find = |pa, bytes, align| Place::find(memory, pa, bytes, align).ok_or(NoQueue);
        Ok(Queue {
            entries: u16::try_from(entries).map_err(|_| NoQueue)?,
            descriptors: find(plan.descriptors, table, 16)?,
            available: find(plan.available, ring_bytes(entries, 2), 2)?,
            used: find(plan.used, ring_bytes(entries, 8), 4)?,
            taken: 0,
            answered: 0,
        })
    }

    /// Returns the lots in which it lies, by physical address.
    pub fn lots(&self) -> [u64; 3] {
        [self.descriptors.lot(), self.available.lot(), self.used.lot()]
    }

    /// Returns how many requests are under way.
    pub fn under_way(&self) -> u16 {
        self.taken.wrapping_sub(self.answered)
    }

    /// The place of a counted entry in a ring, with entries of so many bytes.
    fn entry(&self, count: u16, bytes: usize) -> usize {
        let place = usize::from(count & self.entries.wrapping_sub(1));
        place.saturating_mul(bytes).saturating_add(RING)
    }

    /// Takes the next request to a disk, if there is one.
    ///
    /// # Errors
    /// [`Lie`]: the queue is not used again.
    pub fn take(&mut self, memory: &CellMemory) -> Result<Option<Request>, Lie> {
        self.take_chain()?.map(|chain| Request::read(memory, &chain)).transpose()
    }

    /// Takes the next chain, if there is one.
    ///
    /// # Errors
    /// [`Lie`]: the queue is not used again.
    pub(crate) fn take_chain(&mut self) -> Result<Option<Chain>, Lie> {
        let index = u16::from_le_bytes(self.available.read(INDEX));
        if index == self.taken {
            return Ok(None);
        }
        // Descriptors are free again once their request is answered: so many are never under way.
        if index.wrapping_sub(self.answered) > self.entries {
            return Err(Lie::Index);
        }
        // The entries that the index announces were written before it.
        fence(Ordering::Acquire);
        let head = u16::from_le_bytes(self.available.read(self.entry(self.taken, 2)));
        self.taken = self.taken.wrapping_add(1);
        let descriptor = |number: u16| {
            let at = usize::from(number).checked_mul(DESCRIPTOR_BYTES as usize).filter(|_| number < self.entries);
            at.map(|at| self.descriptors.read(at)).ok_or(Lie::Descriptor)
        };
        Chain::read(head, descriptor).map(Some)
    }

    /// Answers a request by its first descriptor. The device has written so many bytes of its memory.
    pub fn answer(&mut self, head: u16, written: u32) {
        let at = self.entry(self.answered, 8);
        self.used.write(at, &u32::from(head).to_le_bytes());
        self.used.write(at.saturating_add(4), &written.to_le_bytes());
        self.answered = self.answered.wrapping_add(1);
        fence(Ordering::SeqCst);
        self.used.write(INDEX, &self.answered.to_le_bytes());
    }

    /// Returns true if the cell says that there are requests which are not taken.
    pub(crate) fn has_more(&self) -> bool {
        u16::from_le_bytes(self.available.read(INDEX)) != self.taken
    }

    /// Has the cell ring after new requests; true if one has come meanwhile.
    pub fn listen(&self) -> bool {
        self.used.write(FLAGS, &0u16.to_le_bytes());
        fence(Ordering::SeqCst);
        self.has_more()
    }

    /// Has the cell not ring.
    pub fn hush(&self) {
        self.used.write(FLAGS, &QUIET.to_le_bytes());
    }
}
