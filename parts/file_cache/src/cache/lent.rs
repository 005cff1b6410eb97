//! Pages that were lent: whoever has one sees it unchanged for as long as he has it (2013 paper, section IV-E). New data replaces old data
//! then; it would be copied over it otherwise.
//!
//! States of a page here: free (only the cache has it, or who copies from it), mapped (a program may write it at any time), lent. A page is lent
//! only while nobody else has it, or while it is lent already; before it is mapped or written a copy takes its place, unless all have given it
//! back. So who has mapped a page never loses it, and nobody sees a lent page change. All is decided under the shelf's lock.

use super::vacate::copy;
use super::{FileCache, Notes, PageKey, Slot};
use gyre_machine::OutOfMemory;
use gyre_object::Page;

impl FileCache {
    /// Lends a page, and says whether it carried the mark, which it loses. `None` if it is not here, or somebody has it who may write it or copies
    /// from it just now.
    pub fn lend(&self, key: PageKey) -> Option<(Page, bool)> {
        self.shelf.with(&key, |slot, account| {
            let Slot::Here { page, notes, .. } = slot else { return None };
            if !notes.lent && page.is_shared() {
                return None;
            }
            notes.lent = true;
            account.add_hit();
            Some((page.clone(), core::mem::take(&mut notes.mark)))
        })?
    }

    /// Returns a page for a program's mapping, as [`FileCache::read`] does.
    ///
    /// # Errors
    /// [`OutOfMemory`] for the copy that must take a lent page's place.
    pub fn map(&self, key: PageKey) -> Result<Option<(Page, bool)>, OutOfMemory> {
        let found = self.shelf.with(&key, |slot, account| {
            let Slot::Here { page, notes, .. } = slot else { return Ok(None) };
            part_from(page, notes)?;
            account.add_hit();
            Ok(Some((page.clone(), core::mem::take(&mut notes.mark))))
        });
        found.unwrap_or(Ok(None))
    }

    /// Returns a page for a program's mapping beside one that it uses, which is no use of this one. `None` if it is not
    /// here, if a copy that must take a lent page's place is refused, or if it carries the mark: whoever comes there
    /// shall be seen.
    pub fn map_beside(&self, key: PageKey) -> Option<Page> {
        self.shelf.update(&key, |slot, account| {
            let Slot::Here { page, notes: notes @ Notes { mark: false, .. }, .. } = slot else { return None };
            part_from(page, notes).ok()?;
            account.add_hit();
            Some(page.clone())
        })?
    }

    /// Returns a page for a writer, who keeps others from lending it meanwhile; `None` if it is not here.
    ///
    /// # Errors
    /// [`OutOfMemory`] for the copy that must take a lent page's place.
    pub fn write(&self, key: PageKey) -> Result<Option<Page>, OutOfMemory> {
        let found = self.shelf.with(&key, |slot, _| match slot {
            Slot::Here { page, notes, .. } => part_from(page, notes).map(|()| Some(page.clone())),
            Slot::Fetching(_) => Ok(None),
        });
        found.unwrap_or(Ok(None))
    }
}

/// Leaves a page to those that it is lent to, and puts a copy in its place; nothing if it is not lent any more.
pub(super) fn part_from(page: &mut Page, notes: &mut Notes) -> Result<(), OutOfMemory> {
    if notes.lent && page.is_shared() {
        *page = copy(page)?;
    }
    notes.lent = false;
    Ok(())
}
