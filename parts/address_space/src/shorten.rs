//! Files that have become shorter: mappings show nothing behind the new end.

use crate::duplicate::Copying;
use crate::page_index::PageIndex;
use crate::pages::PIECE_BYTES;
use crate::region::{MappedSize, Provider};
use crate::space::{AddressSpace, Withdrawn};
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_machine::PAGE_BYTES;

const PAGE: u64 = PAGE_BYTES as u64;

impl AddressSpace {
    /// Forgets the pages that mappings of the file with this size show behind its new end, private copies too, as on Linux (mm/truncate.c,
    /// `truncate_pagecache`). The size is noted before ([`MappedSize::note`]), so that no page comes back meanwhile.
    pub async fn shorten(&self, file: &Arc<MappedSize>, size_bytes: u64) {
        let first = PageIndex::holding(size_bytes.saturating_add(PAGE.saturating_sub(1)));
        // No page moves to a place that was looked at already.
        let _still = Copying::begin(self).await;
        for (start, end) in self.shown_behind(file, first) {
            let mut at = start;
            while at < end {
                let border = match end.saturating_sub(at) > PIECE_BYTES {
                    true => self.state.lock().pages.end_of_piece(at, end).unwrap_or(end),
                    false => end,
                };
                self.forget_shown(at..border, file).await;
                at = border.max(at.saturating_add(PAGE));
                gyre_message::yield_now().await;
            }
        }
    }

    /// The ranges in which the file is shown from a page on.
    fn shown_behind(&self, file: &Arc<MappedSize>, first: PageIndex) -> Vec<(u64, u64)> {
        let state = self.state.lock();
        let shows = state.regions.iter().filter(|(_, region)| shows(&region.provider, file));
        let behind = shows.map(|(start, region)| {
            let pages = first.get().saturating_sub(region.first_index.get());
            (start.saturating_add(pages.saturating_mul(PAGE)), region.end)
        });
        behind.filter(|(start, end)| start < end).collect()
    }

    /// Forgets a part, unless something else is mapped there by now.
    async fn forget_shown(&self, part: core::ops::Range<u64>, file: &Arc<MappedSize>) {
        let mut withdrawn = Withdrawn::default();
        {
            let mut guard = self.state.lock();
            let state = &mut *guard;
            for (start, end, region) in state.regions.parts(part.start, part.end) {
                if shows(&region.provider, file) {
                    state.evict_range(start, end, &mut withdrawn);
                }
            }
        }
        self.flush_and_free(withdrawn).await;
    }
}

fn shows(provider: &Provider, file: &Arc<MappedSize>) -> bool {
    match provider {
        Provider::File(own) => Arc::ptr_eq(&own.size, file),
        Provider::Anonymous | Provider::Memory(_) => false,
    }
}
