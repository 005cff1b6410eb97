//! Pages that go because memory is wanted, or because somebody names them.
//!
//! A search looks at a payer's pages, the oldest first ([`crate::priority`]). If nearly all are in use, a vain one saves the next ones their
//! time ([`FileCache::reclaim_soon`]); a thorough one looks at all there are.

use super::{FileCache, PageKey, Slot};
use crate::account::Account;
use gyre_account::ActivityId;
use gyre_interface::memory::{Effort, MemoryError, reclaim};
use gyre_machine::PAGE_BYTES;

impl FileCache {
    /// Gives up to `pages` clean pages of an activity back to the machine, as the memory resource asks; returns how
    /// many. For a process that is not a payer itself these are the pages that it pays for; its program's code is
    /// mapped, and so not among them.
    pub fn reclaim(&self, activity: ActivityId, pages: usize) -> usize {
        let kept = self.room.get().map_or(0, |room| room.kept_pages);
        let account = self.shelf.account_of(activity);
        if account.activity() != activity {
            return (0..pages).take_while(|_| self.evict_of(&account, activity, false)).count();
        }
        let has_more = || account.held() > kept && self.shelf.evict(activity, &Slot::may_go);
        (0..pages).take_while(|_| has_more()).count()
    }

    /// Gives as [`FileCache::reclaim`] does, as far as it finds pages soon.
    pub fn reclaim_soon(&self, activity: ActivityId, pages: usize) -> usize {
        let kept = self.room.get().map_or(0, |room| room.kept_pages);
        let account = self.shelf.account_of(activity);
        if account.activity() != activity {
            return (0..pages).take_while(|_| self.evict_of(&account, activity, true)).count();
        }
        let has_more = || account.held() > kept && self.shelf.evict_soon(&account, &Slot::may_go);
        (0..pages).take_while(|_| has_more()).count()
    }

    /// Gives with this effort.
    pub fn reclaim_with(&self, activity: ActivityId, pages: usize, effort: Effort) -> usize {
        match effort {
            Effort::Usual => self.reclaim_soon(activity, pages),
            Effort::Thorough => self.reclaim(activity, pages),
        }
    }

    /// Drops those of these pages of a node that are clean and that nobody uses; returns how many. A payer keeps its last pages, here too.
    pub fn evict_pages(&self, file_system: u32, node: u64, pages: &[u64]) -> usize {
        let kept = self.room.get().map_or(0, |room| room.kept_pages);
        let key = |index: &u64| PageKey { file_system, node, index: *index };
        let goes = |slot: &mut Slot, account: &Account| account.held() > kept && slot.may_go();
        pages.iter().filter(|index| self.shelf.remove_if(&key(index), goes).is_some()).count()
    }
}

impl reclaim::Server for FileCache {
    async fn reclaim(&'static self, activity: ActivityId, bytes: u64, effort: Effort) -> Result<u64, MemoryError> {
        let pages = bytes.div_ceil(PAGE_BYTES as u64);
        let pages = self.reclaim_with(activity, pages as usize, effort);
        Ok(pages.saturating_mul(PAGE_BYTES) as u64)
    }
}
