//! How the runtime reaches frames and the translations of its core.

use super::{Leaf, PAGE_BYTES};

/// A change of one leaf of a page table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// The address had no leaf before: no core can hold a translation.
    New(Leaf),
    /// The leaf is another one, or has other rights.
    Other(Leaf),
    /// There is none any more; so many bytes are gone.
    Gone(u64),
}

/// Frames by their physical addresses. On the machine they lie in a window of the cell's address space, in tests in plain memory.
pub trait Window {
    /// Reads the word at a physical address, a multiple of 8 in memory of the cell.
    fn read(&self, physical: u64) -> u64;

    /// Writes it.
    fn write(&mut self, physical: u64, word: u64);

    /// Fills bytes with zeros: whole pages in memory of the cell.
    fn clear(&mut self, physical: u64, bytes: u64);

    /// Is told of each leaf that has changed, after the table was written.
    fn changed(&mut self, address: u64, change: Change);

    /// Copies a page.
    fn copy(&mut self, from: u64, to: u64) {
        for offset in (0..PAGE_BYTES).step_by(8) {
            let word = self.read(from + offset);
            self.write(to + offset, word);
        }
    }
}
