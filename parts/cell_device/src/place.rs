//! A place in a lot of a cell. The cell writes there at any time: each word is read once.

use alloc::vec::Vec;
use gyre_cell_memory::CellMemory;
use gyre_object::{Bytes, Page};

/// Bytes within one lot.
pub(crate) struct Place {
    page: Page,
    offset: usize,
}

impl Place {
    /// Finds so many bytes at a physical address, which is a multiple of `align`; `None` outside of the cell's lots.
    pub(crate) fn find(memory: &CellMemory, pa: u64, bytes: u64, align: u64) -> Option<Place> {
        let (page, offset) = memory.find_in_lot(pa, bytes).filter(|_| pa.is_multiple_of(align))?;
        Some(Place { page, offset })
    }

    /// The physical address of the lot.
    pub(crate) fn lot(&self) -> u64 {
        self.page.pa().0
    }

    pub(crate) fn read<const BYTES: usize>(&self, at: usize) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        self.page.read(self.offset.saturating_add(at), &mut bytes);
        bytes
    }

    /// Copies so many bytes to the end of a list.
    pub(crate) fn append_to(&self, list: &mut Vec<u8>, bytes: usize) {
        let start = list.len();
        list.resize(start.saturating_add(bytes), 0);
        self.page.read(self.offset, list.get_mut(start..).unwrap_or(&mut []));
    }

    pub(crate) fn write(&self, at: usize, bytes: &[u8]) {
        self.page.write(self.offset.saturating_add(at), bytes);
    }

    /// Returns the bytes as a view.
    pub(crate) fn view(self, bytes: usize) -> Bytes {
        Bytes::new(self.page, self.offset, bytes)
    }
}
