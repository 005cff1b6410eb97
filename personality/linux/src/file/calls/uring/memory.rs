//! The memory that a ring shares with its program, in Linux's layout (io_uring_setup(2)). The program may write
//! anything there at any time: each word is read once, and the kernel relies only on copies of its own.
//!
//! ```text
//!   page 0 ..   words of both rings | completions, 16 bytes each | indexes of submissions, 4 bytes each
//!   then        submissions, 64 bytes each
//! ```

use crate::Errno;
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_address_space::SharedMemory;
use gyre_machine::PAGE_BYTES;
use gyre_object::Page;

/// Offsets of the words, bytes; each pair of head and tail is in cache lines of its own.
pub mod at {
    pub const SUBMIT_HEAD: usize = 0;
    pub const SUBMIT_TAIL: usize = 64;
    pub const COMPLETE_HEAD: usize = 128;
    pub const COMPLETE_TAIL: usize = 192;
    pub const SUBMIT_MASK: usize = 256;
    pub const COMPLETE_MASK: usize = 260;
    pub const SUBMIT_ENTRIES: usize = 264;
    pub const COMPLETE_ENTRIES: usize = 268;
    pub const DROPPED: usize = 272;
    pub const SUBMIT_FLAGS: usize = 276;
    pub const COMPLETE_FLAGS: usize = 280;
    pub const OVERFLOW: usize = 284;
    pub const COMPLETIONS: usize = 320;
}

/// Bytes of a submission.
pub const SUBMISSION_BYTES: usize = 64;
/// Bytes of a completion.
pub const COMPLETION_BYTES: usize = 16;
/// The parts that mmap's offset names: the rings, by either name, or the submissions.
const OFFSET_SUBMIT_RING: u64 = 0;
const OFFSET_COMPLETE_RING: u64 = 0x0800_0000;
const OFFSET_SUBMISSIONS: u64 = 0x1000_0000;
/// Tries to store a word that the program writes at the same time.
const STORE_TRIES: usize = 16;

/// A ring's memory.
pub struct RingMemory {
    pages: Vec<Page>,
    shared: Arc<SharedMemory>,
    /// Pages before the submissions.
    ring_pages: usize,
    pub submit_entries: u32,
    pub complete_entries: u32,
}

impl RingMemory {
    /// Takes memory for this many entries, powers of two; charged to the caller's activity.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn new(submit_entries: u32, complete_entries: u32) -> Result<RingMemory, Errno> {
        let ring_bytes = Self::index_at(complete_entries, submit_entries as usize);
        let ring_pages = ring_bytes.div_ceil(PAGE_BYTES);
        let submission_pages = (submit_entries as usize).saturating_mul(SUBMISSION_BYTES).div_ceil(PAGE_BYTES);
        let all_pages = ring_pages.saturating_add(submission_pages);
        let mut pages = Vec::with_capacity(all_pages);
        for _ in 0..all_pages {
            pages.push(Page::fixed()?);
        }
        let shared = Arc::new(SharedMemory::of_pages(pages.iter().cloned()));
        let memory = RingMemory { pages, shared, ring_pages, submit_entries, complete_entries };
        for (offset, value) in [
            (at::SUBMIT_MASK, submit_entries.saturating_sub(1)),
            (at::COMPLETE_MASK, complete_entries.saturating_sub(1)),
            (at::SUBMIT_ENTRIES, submit_entries),
            (at::COMPLETE_ENTRIES, complete_entries),
        ] {
            memory.store(offset, value);
        }
        Ok(memory)
    }

    /// Returns the offset of the indexes.
    pub fn array_at(complete_entries: u32) -> usize {
        Self::index_at(complete_entries, 0)
    }

    /// Returns the offset of an index.
    fn index_at(complete_entries: u32, slot: usize) -> usize {
        (completion_at(complete_entries as usize).saturating_add(63) & !63).saturating_add(slot.saturating_mul(4))
    }

    /// Returns the memory for mmap, and the page of it that the offset names.
    ///
    /// # Errors
    /// EINVAL for another offset.
    pub fn mapping(&self, offset: u64) -> Result<(Arc<SharedMemory>, u64), Errno> {
        match offset {
            OFFSET_SUBMIT_RING | OFFSET_COMPLETE_RING => Ok((self.shared.clone(), 0)),
            OFFSET_SUBMISSIONS => Ok((self.shared.clone(), self.ring_pages as u64)),
            _ => Err(Errno::EINVAL),
        }
    }

    /// Returns the bytes that a mapping from that page on may have.
    pub fn bytes_from(&self, page: u64) -> u64 {
        (self.pages.len() as u64).saturating_sub(page).saturating_mul(PAGE_BYTES as u64)
    }

    /// Reads a word, once and whole.
    pub fn load(&self, offset: usize) -> u32 {
        let (page, at) = (self.pages.get(offset / PAGE_BYTES), offset % PAGE_BYTES);
        // Replaces 0 by 0: the word is read in one step, after all earlier reads.
        let read = page.and_then(|page| page.compare_exchange_u32(at, 0, 0));
        read.map_or(0, |read| read.unwrap_or_else(|found| found))
    }

    /// Writes a word, after everything that was written before.
    pub fn store(&self, offset: usize, value: u32) {
        let (Some(page), at) = (self.pages.get(offset / PAGE_BYTES), offset % PAGE_BYTES) else { return };
        let mut expected = self.load(offset);
        for _ in 0..STORE_TRIES {
            match page.compare_exchange_u32(at, expected, value) {
                Some(Err(found)) => expected = found,
                _ => return,
            }
        }
        // The program writes there without pause: it gets a torn word, which is its own affair.
        page.write(at, &value.to_le_bytes());
    }

    /// Returns the index of a submission at a position of the ring.
    pub fn submission_index(&self, position: u32) -> u32 {
        let slot = (position & self.submit_entries.saturating_sub(1)) as usize;
        self.load(Self::index_at(self.complete_entries, slot))
    }

    /// Returns a copy of a submission, so that the checked bytes are the used ones.
    pub fn submission(&self, index: u32) -> Option<[u8; SUBMISSION_BYTES]> {
        let offset = (index < self.submit_entries).then_some((index as usize).saturating_mul(SUBMISSION_BYTES))?;
        let page = self.pages.get(self.ring_pages.saturating_add(offset / PAGE_BYTES))?;
        let mut copy = [0; SUBMISSION_BYTES];
        (page.read(offset % PAGE_BYTES, &mut copy) == SUBMISSION_BYTES).then_some(copy)
    }

    /// Writes a completion at a position of the ring.
    pub fn put_completion(&self, position: u32, completion: [u8; COMPLETION_BYTES]) {
        let slot = (position & self.complete_entries.saturating_sub(1)) as usize;
        let offset = completion_at(slot);
        if let Some(page) = self.pages.get(offset / PAGE_BYTES) {
            page.write(offset % PAGE_BYTES, &completion);
        }
    }
}

/// Returns the offset of a completion.
fn completion_at(slot: usize) -> usize {
    slot.saturating_mul(COMPLETION_BYTES).saturating_add(at::COMPLETIONS)
}
