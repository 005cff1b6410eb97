//! What who passes the cache by asks it: whether the disk has the newest contents of a page, and that a page agree with the disk again.

use super::{FileCache, PageKey, Slot};
use crate::fetch::Waiting;
use gyre_object::Page;

/// What became of a page whose place on the disk is about to be written, or was.
pub enum Outdated {
    /// It is not here any more, or never was.
    Absent,
    /// Others hold it, a program's memory perhaps: it stays, and is to get what the disk got.
    Held(Page),
    /// Somebody reads it from the disk, the old contents perhaps: await, then ask again.
    Arriving(Waiting),
    /// It is dirty or on its way to the disk: to be written back first.
    Busy,
}

impl FileCache {
    /// True where no page of a node is here or on its way. Who holds the node's gate knows that none has become dirty since; others may be
    /// fetched meanwhile.
    pub fn has_none_of(&self, file_system: u32, node: u64) -> bool {
        self.shelf.has_none_like(&PageKey { file_system, node, index: 0 })
    }

    /// The page where its contents may be newer than the disk's: it is dirty, on its way to the disk, or held by others, who may write to it.
    /// Who holds the node's gate knows that nobody else changes that.
    pub fn newer(&self, key: PageKey) -> Option<Page> {
        self.shelf.update(&key, |slot, _| match slot {
            Slot::Here { page, dirty, writing, .. } if *dirty || *writing || page.is_shared() => Some(page.clone()),
            _ => None,
        })?
    }

    /// Drops a page whose place on the disk is written past the cache, unless it must stay.
    pub fn outdate(&self, key: PageKey) -> Outdated {
        let mut found = Outdated::Absent;
        self.shelf.remove_if(&key, |slot, _| {
            found = match slot {
                Slot::Fetching(arrival) => Outdated::Arriving(Waiting(arrival.get_or_insert_default().clone())),
                Slot::Here { dirty, writing, .. } if *dirty || *writing => Outdated::Busy,
                Slot::Here { page, .. } if page.is_shared() => Outdated::Held(page.clone()),
                Slot::Here { .. } => return true,
            };
            false
        });
        found
    }
}
