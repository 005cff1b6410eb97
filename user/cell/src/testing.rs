//! Plain memory in place of lots, for tests.

use gyre_cell_abi::LOT_BYTES;

use crate::{
    frames::{Buddy, Contents, Frames},
    memory::{Change, PAGE_BYTES, Window},
};

/// The physical address of the first lot.
pub const START: u64 = 32 << 20;

/// Lots that lie one behind the other.
pub struct Memory {
    words: Vec<u64>,
    /// The changes that the runtime told.
    pub changes: Vec<(u64, Change)>,
    /// The ranges that it cleared: physical address and bytes.
    pub clears: Vec<(u64, u64)>,
}

impl Memory {
    /// Makes lots, full of what another one left, and an allocator that holds them.
    pub fn with_lots(lots: u64) -> (Self, Box<Buddy>) {
        let mut frames = Box::<Buddy>::default();
        (0..lots).for_each(|lot| frames.add_lot(START + lot * LOT_BYTES, 0, Contents::Old).unwrap());
        (Self { words: vec![0x5a5a_5a5a; (lots * LOT_BYTES / 8) as usize], changes: vec![], clears: vec![] }, frames)
    }

    /// Makes an empty root table.
    pub fn root(&mut self, frames: &mut dyn Frames) -> u64 {
        let root = frames.take(0, 0).unwrap();
        self.clear(root, PAGE_BYTES);
        root
    }
}

impl Window for Memory {
    fn read(&self, physical: u64) -> u64 {
        self.words[((physical - START) / 8) as usize]
    }

    fn write(&mut self, physical: u64, word: u64) {
        self.words[((physical - START) / 8) as usize] = word;
    }

    fn clear(&mut self, physical: u64, bytes: u64) {
        let start = ((physical - START) / 8) as usize;
        self.words[start..start + (bytes / 8) as usize].fill(0);
        self.clears.push((physical, bytes));
    }

    fn changed(&mut self, address: u64, change: Change) {
        self.changes.push((address, change));
    }
}
