//! The pages of a range that are in memory (mincore).
//!
//! The space knows what its program shows, and pages of shared memory that others have made. Pages of files that it does not show are known to
//! their file system: whoever asks for them does so, if its program may know (Linux: mm/mincore.c).

use crate::advise::checked;
use crate::page_index::PageIndex;
use crate::region::{MappedFile, PAGE, Provider, Region, SharedMemory};
use crate::space::State;
use crate::{AddressSpace, SpaceError};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;

/// The knowledge of a space about the pages of a range.
pub struct Residency {
    /// 1 for each page that is in memory, else 0.
    pub pages: Vec<u8>,
    /// The parts that show files, in order.
    pub of_files: Vec<FilePart>,
}

/// A part of a range that shows a file.
pub struct FilePart {
    /// The file.
    pub file: Arc<MappedFile>,
    /// Its pages in the range, by their number there.
    pub pages: Range<usize>,
    /// The file's page that the first one shows.
    pub first: PageIndex,
}

impl AddressSpace {
    /// Returns for each page of the range whether it is resident, as far as the space knows.
    ///
    /// # Errors
    /// [`SpaceError::NotMapped`] for a hole.
    pub fn residency(&self, address: u64, bytes: u64) -> Result<Residency, SpaceError> {
        let (start, end) = checked(address, bytes)?;
        let state = self.state.lock();
        if !state.regions.covers(start, end) {
            return Err(SpaceError::NotMapped);
        }
        let shown = (start..end).step_by(PAGE as usize).map(|at| u8::from(state.pages.contains(at)));
        let mut residency = Residency { pages: shown.collect(), of_files: Vec::new() };
        for (from, to, region) in state.regions.parts(start, end) {
            let number = |at: u64| (at.saturating_sub(start) / PAGE) as usize;
            residency.note(&region, number(from)..number(to), state.index_at(from, &region));
        }
        Ok(residency)
    }
}

impl State {
    /// Returns the provider's page at an address of a region.
    pub(crate) fn index_at(&self, address: u64, region: &Region) -> PageIndex {
        let start = self.regions.find(address).map_or(address, |(start, _)| start);
        region.index_of(start, address)
    }
}

impl Residency {
    /// Notes the pages that a region could show.
    fn note(&mut self, region: &Region, pages: Range<usize>, first: PageIndex) {
        match &region.provider {
            Provider::Anonymous => {}
            Provider::File(file) => self.of_files.push(FilePart { file: file.clone(), pages, first }),
            Provider::Memory(memory) => memory.note_made(first, self.pages.get_mut(pages).unwrap_or_default()),
        }
    }
}

impl SharedMemory {
    /// Sets 1 for each page that was made.
    fn note_made(&self, first: PageIndex, into: &mut [u8]) {
        let made = self.pages.lock();
        for (at, page) in into.iter_mut().enumerate() {
            let index = first.plus(at as u64);
            *page |= u8::from(index.is_some_and(|index| made.contains(index.offset_bytes())));
        }
    }
}
