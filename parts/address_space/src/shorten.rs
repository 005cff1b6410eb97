//! Pages that a file or shared memory loses: mappings show nothing behind a new end, and nothing of before in a hole.

use crate::duplicate::Copying;
use crate::page_index::PageIndex;
use crate::pages::PIECE_BYTES;
use crate::region::{MappedSize, Provider, SharedMemory};
use crate::space::{AddressSpace, State, Withdrawn};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;
use gyre_machine::PAGE_BYTES;

const PAGE: u64 = PAGE_BYTES as u64;

/// Pages that are gone.
struct Lost<'a> {
    of: Loser<'a>,
    first: PageIndex,
    /// How many.
    count: u64,
    copies: Copies,
}

/// The loser of pages.
#[derive(Clone, Copy)]
enum Loser<'a> {
    File(&'a Arc<MappedSize>),
    Memory(&'a Arc<SharedMemory>),
}

/// The fate of a program's own copies of pages that are gone.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Copies {
    Go,
    Stay,
}

impl<'a> Lost<'a> {
    /// The pages that lie in a part wholly, bytes. A program's own copies stay.
    fn within(of: Loser<'a>, part: Range<u64>) -> Lost<'a> {
        let first = PageIndex::holding(part.start.saturating_add(PAGE.saturating_sub(1)));
        let count = PageIndex::holding(part.end).get().saturating_sub(first.get());
        Lost { of, first, count, copies: Copies::Stay }
    }
}

impl Loser<'_> {
    fn is_shown_by(self, provider: &Provider) -> bool {
        match (self, provider) {
            (Loser::File(file), Provider::File(shown)) => Arc::ptr_eq(&shown.size, file),
            (Loser::Memory(memory), Provider::Memory(shown)) => Arc::ptr_eq(shown, memory),
            _ => false,
        }
    }
}

impl AddressSpace {
    /// Forgets the pages that mappings of the file with this size show behind its new end, private copies too, as on Linux (mm/truncate.c,
    /// `truncate_pagecache`). The size is noted before ([`MappedSize::note`]), so that no page comes back meanwhile.
    pub async fn shorten(&self, file: &Arc<MappedSize>, size_bytes: u64) {
        let first = PageIndex::holding(size_bytes.saturating_add(PAGE.saturating_sub(1)));
        self.lose(Lost { of: Loser::File(file), first, count: u64::MAX, copies: Copies::Go }).await;
    }

    /// Forgets the pages that mappings of the file with this size show of a part in which a hole was made, as far as they lie in it wholly.
    /// Private copies stay, as on Linux (mm/truncate.c, `truncate_pagecache_range`).
    pub async fn punch(&self, file: &Arc<MappedSize>, part: Range<u64>) {
        self.lose(Lost::within(Loser::File(file), part)).await;
    }

    /// Forgets the pages that mappings show of a part of shared memory, bytes from its beginning, which it has lost by
    /// [`SharedMemory::remove`].
    pub async fn forget_shared(&self, memory: &Arc<SharedMemory>, part: Range<u64>) {
        self.lose(Lost::within(Loser::Memory(memory), part)).await;
    }

    async fn lose(&self, lost: Lost<'_>) {
        // No page moves to a place that was looked at already.
        let _still = Copying::begin(self).await;
        for (start, end) in self.shown_of(&lost) {
            let mut at = start;
            while at < end {
                let border = match end.saturating_sub(at) > PIECE_BYTES {
                    true => self.state.lock().pages.end_of_piece(at, end).unwrap_or(end),
                    false => end,
                };
                self.forget_shown(at..border, &lost).await;
                at = border.max(at.saturating_add(PAGE));
                gyre_message::yield_now().await;
            }
        }
    }

    /// The ranges in which lost pages are shown.
    fn shown_of(&self, lost: &Lost<'_>) -> Vec<(u64, u64)> {
        let state = self.state.lock();
        let shows = state.regions.iter().filter(|(_, region)| lost.of.is_shown_by(&region.provider));
        let behind = shows.map(|(start, region)| {
            let address = |pages: u64| start.saturating_add(pages.saturating_mul(PAGE));
            let first = region.first_index.get();
            let end = lost.first.get().saturating_add(lost.count).saturating_sub(first);
            (address(lost.first.get().saturating_sub(first)), address(end).min(region.end))
        });
        behind.filter(|(start, end)| start < end).collect()
    }

    /// Forgets a part, unless something else is mapped there by now.
    async fn forget_shown(&self, part: Range<u64>, lost: &Lost<'_>) {
        let mut withdrawn = Withdrawn::default();
        {
            let mut guard = self.state.lock();
            let state = &mut *guard;
            for (start, end, region) in state.regions.parts(part.start, part.end) {
                if !lost.of.is_shown_by(&region.provider) {
                    continue;
                }
                match lost.copies {
                    Copies::Go => state.evict_range(start, end, &mut withdrawn),
                    Copies::Stay => state.evict_files(start, end, &mut withdrawn),
                }
            }
        }
        self.flush_and_free(withdrawn).await;
    }
}

impl State {
    /// Takes the pages of a range out that the program did not write for itself.
    fn evict_files(&mut self, start: u64, end: u64, withdrawn: &mut Withdrawn) {
        let singles = self.pages.singles(start, end).filter(|(_, page)| !page.is_own());
        let addresses: Vec<u64> = singles.map(|(address, _)| address).collect();
        addresses.into_iter().for_each(|address| self.evict(address, withdrawn));
    }
}
