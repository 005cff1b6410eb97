//! Huge pages: 2 MiB of anonymous memory in one piece, mapped by one entry of the page table.
//!
//! They come where a large region is touched and the memory is there in one piece; whoever needs a part of one (munmap, mprotect, fork)
//! splits it first, after which it is 512 pages like any others. Charged as what they are: 2 MiB at once.

use crate::region::{Options, PAGE, Region};
use crate::space::{Shrunk, State};
use alloc::vec::Vec;
use gyre_machine::{Access, MapFlags, Va};
use gyre_object::Page;

/// Bytes of a huge page.
pub(crate) const HUGE: u64 = 2 << 20;
/// Order of its frames.
const ORDER: u8 = 9;
/// Regions from this size on get huge pages unasked: a small one would hold much that it never touches.
const REGION_BYTES_MIN: u64 = 2 * HUGE;

impl Region {
    /// True where the 2 MiB from `at` on may be one page, if the region starts at `start`.
    fn may_be_huge(&self, start: u64, at: u64) -> bool {
        let unwanted = Options::STACK | Options::GROWS_DOWN | Options::SHARED | Options::NO_HUGE;
        let is_large = self.end - start >= REGION_BYTES_MIN || self.options.contains(Options::HUGE);
        !self.options.intersects(unwanted) && is_large && start <= at && at + HUGE <= self.end
    }
}

impl State {
    /// Makes a huge page around `address` where nothing is yet, if that may be and the memory is there.
    pub(crate) fn install_huge(&mut self, start: u64, region: &Region, address: u64) -> bool {
        let at = address & !(HUGE - 1);
        if !region.may_be_huge(start, at) || self.pages.spans(at, at + HUGE).next().is_some() {
            return false;
        }
        let Ok(page) = Page::zeroed_run(ORDER) else { return false };
        let Some(flags) = region.flags(&page) else { return false };
        if self.table.map_large(Va(at), page.pa(), flags).is_err() {
            return false;
        }
        self.pages.insert_huge(at, page);
        self.huge_made += 1;
        true
    }

    /// Makes the huge pages that have a part in the range single pages.
    pub(crate) fn split_range(&mut self, start: u64, end: u64, shrunk: &mut Shrunk) {
        let all: Vec<u64> = self.pages.huge_starts(start, end).collect();
        all.into_iter().for_each(|at| self.split(at, shrunk));
    }

    fn split(&mut self, at: u64, shrunk: &mut Shrunk) {
        let Some(huge) = self.pages.remove_huge(at) else { return };
        let pages = match huge.split() {
            Ok(pages) => pages,
            Err(huge) => {
                // Nobody else ever holds one: views of it are copies. It stays as it is.
                self.pages.insert_huge(at, huge);
                return;
            }
        };
        for (page, address) in pages.zip((at..at + HUGE).step_by(PAGE as usize)) {
            self.pages.insert(address, page);
        }
        // Without memory for the table the pages come back by faults.
        if self.table.split_large(Va(at)).is_err() && self.table.unmap_large(Va(at)).is_some() {
            shrunk.stale.push(at);
        }
        self.huge_split += 1;
    }

    /// Takes the huge pages in the range out, after those across its borders were split.
    pub(crate) fn evict_huge(&mut self, start: u64, end: u64, shrunk: &mut Shrunk) {
        let all: Vec<u64> = self.pages.huge_starts(start, end).collect();
        for at in all {
            if at < start || at + HUGE > end {
                self.split(at, shrunk);
                continue;
            }
            if self.table.unmap_large(Va(at)).is_some() {
                shrunk.stale.push(at);
            }
            shrunk.graves.extend(self.pages.remove_huge(at));
        }
    }

    /// A huge page is there: whether it is mapped with the right that is needed. `None` where there is none.
    pub(crate) fn huge_allows(&self, address: u64, access: Access) -> Option<bool> {
        self.pages.huge(address)?;
        let wanted = match access {
            Access::Read => MapFlags::USER,
            Access::Write => MapFlags::WRITE,
            Access::Execute => MapFlags::EXECUTE,
        };
        Some(self.table.query(Va(address)).is_some_and(|mapping| mapping.flags.contains(wanted)))
    }
}
