//! Memory that several machines see at once: the lots that a supervisor maps in two instances.
//!
//! Each machine takes [`SharedMemory::frame`]s of it for the pages that it reads or writes by copies, and [`SharedMemory::words`] for what
//! both change at the same time. The memory lasts until the last frame and the last holder are gone.
//!
//! Left out: rights. On the machine a page may be mapped to be read only.

use crate::frame::Frame;
use gyre_platform::PAGE_BYTES;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Words of a page.
const PAGE_WORDS: usize = PAGE_BYTES / size_of::<u64>();

/// Zeroed pages, page-aligned.
pub struct SharedMemory {
    words: Vec<AtomicU64>,
    /// The first word of the first page.
    first: usize,
    pages: usize,
}

impl SharedMemory {
    /// Takes so many pages from the host.
    pub fn new(pages: usize) -> Arc<SharedMemory> {
        // A page more, so that one begins somewhere in the first.
        let words: Vec<AtomicU64> = (0..(pages + 1) * PAGE_WORDS).map(|_| AtomicU64::new(0)).collect();
        let first = words.as_ptr().align_offset(PAGE_BYTES);
        Arc::new(SharedMemory { words, first, pages })
    }

    /// Returns how many pages there are.
    pub fn pages(&self) -> usize {
        self.pages
    }

    /// Returns the words of some pages, cut at the end.
    pub fn words(&self, first_page: usize, pages: usize) -> &[AtomicU64] {
        let first = first_page.min(self.pages);
        let start = self.first + first * PAGE_WORDS;
        &self.words[start..start + pages.min(self.pages - first) * PAGE_WORDS]
    }

    /// Returns a page as a frame of the machine that this thread plays. One at a time for each page and machine.
    pub fn frame(self: &Arc<Self>, page: usize) -> Option<Frame> {
        let words = self.words(page, 1);
        (!words.is_empty()).then(|| Frame::of_shared(NonNull::from(words).cast(), self.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use std::sync::atomic::Ordering;

    #[test]
    fn two_machines_see_one_page_and_it_outlives_its_maker() {
        let memory = SharedMemory::new(2);
        let (one, other) = (Machine::new(), Machine::new());
        let written = one.within(|| memory.frame(1)).unwrap();
        let read = other.within(|| memory.frame(1)).unwrap();
        assert!(memory.frame(2).is_none());
        written.write_shared(8, &[7; 8]);
        assert_eq!(memory.words(1, 9)[1].load(Ordering::Relaxed), u64::from_ne_bytes([7; 8]));
        assert_eq!((memory.words(1, 9).len(), memory.words(2, 1).len()), (PAGE_WORDS, 0));
        drop((written, memory));
        assert_eq!(read.as_slice()[8..16], [7; 8]);
        assert_eq!(read.owner(), None);
    }
}
