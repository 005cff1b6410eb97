//! A chain of descriptors, as it was when it was copied.

use crate::place::Place;
use crate::queue::Lie;
use alloc::vec::Vec;
use gyre_cell_abi::device::{CHAIN_MAX, NEXT, WRITE};
use gyre_cell_memory::CellMemory;

/// A descriptor.
pub(crate) struct Descriptor {
    pa: u64,
    pub(crate) bytes: u32,
    flags: u16,
    next: u16,
}

impl Descriptor {
    fn of(bytes: [u8; 16]) -> Descriptor {
        let [low, high] = [0, 8].map(|at| {
            let eight = bytes.get(at..).and_then(|rest| rest.first_chunk());
            eight.map_or(0, |eight| u64::from_le_bytes(*eight))
        });
        Descriptor { pa: low, bytes: high as u32, flags: (high >> 32) as u16, next: (high >> 48) as u16 }
    }

    pub(crate) fn device_writes(&self) -> bool {
        self.flags & WRITE != 0
    }

    pub(crate) fn find(&self, memory: &CellMemory) -> Result<Place, Lie> {
        Place::find(memory, self.pa, self.bytes.into(), 1).ok_or(Lie::Memory)
    }
}

/// A chain.
pub(crate) struct Chain {
    /// Its first descriptor.
    pub(crate) head: u16,
    /// All of them, at least one.
    pub(crate) parts: Vec<Descriptor>,
}

impl Chain {
    /// Copies the descriptors of a chain.
    ///
    /// # Errors
    /// [`Lie`].
    pub(crate) fn read(head: u16, descriptor: impl Fn(u16) -> Result<[u8; 16], Lie>) -> Result<Chain, Lie> {
        let mut parts = Vec::new();
        let mut number = head;
        for _ in 0..CHAIN_MAX {
            let one = Descriptor::of(descriptor(number)?);
            if one.flags & !(NEXT | WRITE) != 0 || one.bytes == 0 {
                return Err(Lie::Shape);
            }
            let is_last = one.flags & NEXT == 0;
            number = one.next;
            parts.push(one);
            if is_last {
                return Ok(Chain { head, parts });
            }
        }
        Err(Lie::Shape)
    }

    /// Returns the sum of the bytes that it names.
    pub(crate) fn bytes(&self) -> u64 {
        self.parts.iter().fold(0, |sum, part| sum.saturating_add(part.bytes.into()))
    }
}
