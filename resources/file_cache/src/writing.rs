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

    /// The page.
    pub fn page(&self) -> &Page {
        &self.page
    }

    /// Which one it is.
    pub fn key(&self) -> PageKey {
        self.key
    }

    /// Who pays for writing it: who dirtied it.
    pub fn payer(&self) -> ActivityId {
        self.payer
    }

    /// It is written, or given up after an error of the device: clean, unless somebody wrote to it meanwhile.
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
