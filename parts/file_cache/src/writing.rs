//! One writer's promise to bring a dirty page to the disk.

use crate::{FileCache, PageKey};
use gyre_account::ActivityId;
use gyre_object::Page;

/// A page on its way to the disk. Dropped before [`Writing::done`], it is dirty again.
pub struct Writing {
    cache: &'static FileCache,
    key: PageKey,
    page: Page,
    payer: ActivityId,
    ended: bool,
}

impl Writing {
    pub(crate) fn new(cache: &'static FileCache, key: PageKey, page: Page, payer: ActivityId) -> Writing {
        Writing { cache, key, page, payer, ended: false }
    }

    /// Returns the page.
    pub fn page(&self) -> &Page {
        &self.page
    }

    /// Returns its key.
    pub fn key(&self) -> PageKey {
        self.key
    }

    /// Returns the payer for writing it: the activity that made it dirty.
    pub fn payer(&self) -> ActivityId {
        self.payer
    }

    /// Ends the write, or gives it up after an error of the device: the page is clean, unless it was written to
    /// meanwhile.
    pub fn done(mut self) {
        self.ended = true;
        self.cache.write_ended(self.key, self.payer, false);
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        if !self.ended {
            self.cache.write_ended(self.key, self.payer, true);
        }
    }
}
