//! Huge pages: 2 MiB of anonymous memory in one piece, mapped by one entry of the page table.
//!
//! They are made when a large region is touched and the memory is there in one piece. An operation on a part of one
//! (munmap, mprotect, a write to one that a fork shares) splits it first; then it is 512 pages like any others. They
//! are charged as 2 MiB at once.

use crate::SpaceError;
use crate::huge_page::HugePage;
use crate::region::{Options, Provider, Region};
use crate::space::{State, Withdrawn};
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
    /// Returns whether the 2 MiB from `at` on may be one page, if the region starts at `start`.
    pub(crate) fn may_be_huge(&self, start: u64, at: u64) -> bool {
        let is_large = self.end.saturating_sub(start) >= REGION_BYTES_MIN || self.options.contains(Options::HUGE);
        is_large && self.could_be_huge(start, at)
    }

    /// Returns whether it could be huge if the program asks for it, at any size of the region.
    pub(crate) fn could_be_huge(&self, start: u64, at: u64) -> bool {
        let unwanted = Options::STACK | Options::GROWS_DOWN | Options::SHARED | Options::NO_HUGE;
        matches!(self.provider, Provider::Anonymous)
            && !self.options.intersects(unwanted)
            && start <= at
            && after(at) <= self.end
    }
}

impl State {
    /// Makes a huge page around `address` if nothing is yet, if that may be and the memory is there. Returns what is to be flushed: a table
    /// that was left there.
    pub(crate) fn install_huge(&mut self, start: u64, region: &Region, address: u64) -> Option<Withdrawn> {
        let at = address & !(HUGE - 1);
        if !region.may_be_huge(start, at) || self.pages.spans(at, after(at)).next().is_some() {
            return None;
        }
        let mut withdrawn = Withdrawn::default();
        self.put_huge(at, new_huge()?, region, &mut withdrawn).then_some(withdrawn)
    }

    /// Maps a huge page if nothing is mapped and nothing present.
    pub(crate) fn put_huge(&mut self, at: u64, page: Page, region: &Region, withdrawn: &mut Withdrawn) -> bool {
        let Some(flags) = region.flags(&page) else { return false };
        let Ok(table) = self.table.map_large(Va(at), page.pa(), flags) else { return false };
        if let Some(table) = table {
            withdrawn.stale.push(at);
            withdrawn.graves.pages.push(Page::of(table));
        }
        self.pages.insert_huge(at, HugePage::Own(page));
        self.huge_made = self.huge_made.saturating_add(1);
        true
    }

    /// Gives the program the right to write the huge page that holds `address`, if it is not shared any more since a
    /// fork.
    pub(crate) fn own_huge(&mut self, address: u64, region: &Region) -> bool {
        let at = address & !(HUGE - 1);
        let Some(huge) = self.pages.remove_huge(at) else { return false };
        match huge.into_own() {
            Ok(page) => {
                let flags = region.flags(&page);
                self.pages.insert_huge(at, HugePage::Own(page));
                flags.is_some_and(|flags| self.table.protect_large(Va(at), flags).is_some())
            }
            Err(huge) => {
                self.pages.insert_huge(at, huge);
                false
            }
        }
    }

    /// Shares the huge pages that lie in a region with a new process, and splits those that lie across its borders.
    ///
    /// # Errors
    /// [`SpaceError::NoMemory`].
    pub(crate) fn share_huge(
        &mut self,
        child: &mut State,
        (start, end): (u64, u64),
        withdrawn: &mut Withdrawn,
    ) -> Result<(), SpaceError> {
        let all: Vec<u64> = self.pages.huge_starts(start, end).collect();
        let viewers = (self.pages.viewer(), child.pages.viewer());
        for at in all {
            if at < start || after(at) > end {
                self.split(at, withdrawn);
                continue;
            }
            if self.table.share_large(&mut child.table, Va(at)).map_err(|_| SpaceError::NoMemory)? {
                withdrawn.stale.push(at);
            }
            if let Some((mine, theirs)) = self.pages.remove_huge(at).map(|huge| huge.shared(viewers.0, viewers.1)) {
                self.pages.insert_huge(at, mine);
                child.pages.insert_huge(at, theirs);
            }
        }
        Ok(())
    }

    /// Makes the huge pages that have a part in the range single pages.
    pub(crate) fn split_range(&mut self, start: u64, end: u64, withdrawn: &mut Withdrawn) {
        let all: Vec<u64> = self.pages.huge_starts(start, end).collect();
        all.into_iter().for_each(|at| self.split(at, withdrawn));
    }

    fn split(&mut self, at: u64, withdrawn: &mut Withdrawn) {
        let Some(huge) = self.pages.remove_huge(at) else { return };
        let pages = match huge.split() {
            Ok(pages) => pages,
            Err(huge) => {
                // Never: views of it are copies. It stays as it is.
                self.pages.insert_huge(at, huge);
                return;
            }
        };
        self.pages.insert_row(at, pages);
        // Without memory for the table the pages come back by faults.
        if self.table.split_large(Va(at)).is_err() && self.table.unmap_large(Va(at)).is_some() {
            withdrawn.stale.push(at);
        }
        self.huge_split = self.huge_split.saturating_add(1);
    }

    /// Takes the huge pages in the range out, after those across its borders were split.
    pub(crate) fn evict_huge(&mut self, start: u64, end: u64, withdrawn: &mut Withdrawn) {
        let all: Vec<u64> = self.pages.huge_starts(start, end).collect();
        for at in all {
            if at < start || after(at) > end {
                self.split(at, withdrawn);
                continue;
            }
            if self.table.unmap_large(Va(at)).is_some() {
                withdrawn.stale.push(at);
            }
            withdrawn.graves.huge.extend(self.pages.remove_huge(at));
        }
    }

    /// Returns whether the huge page at an address is mapped with the needed right; `None` if there is none.
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

/// Returns the end of the 2 MiB from `at` on.
pub(crate) fn after(at: u64) -> u64 {
    at.saturating_add(HUGE)
}

/// Returns 2 MiB in one piece, if they are there.
pub(crate) fn new_huge() -> Option<Page> {
    Page::zeroed_run(ORDER).ok()
}
