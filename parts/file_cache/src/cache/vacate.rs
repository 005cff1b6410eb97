//! Taking pages out of memory that leaves the instance: clean ones are dropped, others go on as copies.
//!
//! A page that is written back just now, or that a program shows, stays: the first is asked for again, the second leaves its programs first.

use super::{FileCache, Slot};
use crate::shelf::Fate;
use gyre_account::{ActivityId, set_current_activity};
use gyre_machine::{OutOfMemory, Pa};
use gyre_message::yield_now;
use gyre_object::Page;

/// Entries that are looked at under one lock.
const SLICE: usize = 512;

/// Returns true for a page that lies where none may stay.
pub type IsLeaving<'a> = dyn Fn(Pa) -> bool + Sync + 'a;

impl FileCache {
    /// Empties a part of the memory, as far as its pages are not in use; answers how many were.
    pub async fn vacate(&self, is_leaving: &IsLeaving<'_>) -> usize {
        let mut stayed = 0;
        for part in 0..self.shelf.parts() {
            let mut place = Some(0);
            while let Some(from) = place {
                place = self.shelf.sweep(part, from, SLICE, &mut |slot| leave(slot, is_leaving, &mut stayed));
                yield_now().await;
            }
        }
        stayed
    }
}

/// Gives up a page that lies in leaving memory.
fn leave(slot: &mut Slot, is_leaving: &IsLeaving<'_>, stayed: &mut usize) -> Fate {
    let may_go = slot.may_go();
    let Slot::Here { page, writing, .. } = slot else { return Fate::Stays };
    if !is_leaving(page.pa()) {
        return Fate::Stays;
    }
    if may_go {
        return Fate::Goes;
    }
    match copy(page).ok().filter(|_| !*writing && !page.is_shared()) {
        Some(copy) => *page = copy,
        None => *stayed = stayed.saturating_add(1),
    }
    Fate::Stays
}

/// Copies a page in the name of who pays for it.
pub(super) fn copy(page: &Page) -> Result<Page, OutOfMemory> {
    let before = set_current_activity(page.owner().map_or(ActivityId::INFRASTRUCTURE, ActivityId));
    let copy = page.copy();
    set_current_activity(before);
    copy
}
