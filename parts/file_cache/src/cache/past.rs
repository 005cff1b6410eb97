//! Questions of transfers past the cache: whether the disk has the newest contents of a page, and making a page agree
//! with the disk again.

use super::{FileCache, PageKey, Slot};
use crate::fetch::Waiting;
use gyre_object::Page;

/// The state of a page whose place on the disk is about to be written, or was.
pub enum Outdated {
    /// It is not here any more, or never was.
    Absent,
    /// It is in use elsewhere, perhaps as a program's memory: it stays, and must get the bytes that the disk got.
    Held(Page),
    /// It is being read from the disk, perhaps with the old contents: await, then ask again.
    Arriving(Waiting),
    /// It is dirty or on its way to the disk: to be written back first.
    Busy,
}

impl FileCache {
    /// Returns whether no page of a node is here or on its way. The holder of the node's lock knows that none has become dirty since; others may be
    /// fetched meanwhile.
    pub fn has_none_of(&self, file_system: u32, node: u64) -> bool {
        self.shelf.has_none_like(&PageKey { file_system, node, index: 0 })
    }

    /// Returns the page if its contents may be newer than the disk's: it is dirty, on its way to the disk, or in use
    /// elsewhere, where it may be written. The holder of the node's lock knows that this does not change meanwhile.
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
                // Those that it is lent to keep it as it is.
                Slot::Here { page, notes, .. } if page.is_shared() && !notes.lent => Outdated::Held(page.clone()),
                Slot::Here { .. } => return true,
            };
            false
        });
        found
    }
}
