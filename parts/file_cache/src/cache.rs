//! The cache of pages.
//!
//! Protocol of use: [`FileCache::get`] or [`FileCache::read`] for a page that is here; else [`FileCache::begin`],
//! which answers the page, a fetch of another task to wait for, or a [`crate::Fetch`] that the caller must fill or
//! drop. A changed page is marked ([`FileCache::mark_dirty`]); a write-back takes it ([`FileCache::start_writing`])
//! and ends with the guard. If `begin` refuses, wait for room ([`FileCache::wait_for_room`]) without locks that a
//! write-back needs.
//!
//! States of a page: absent, being fetched (with the waiting tasks), here and clean, dirty, being written (perhaps
//! dirty again). Only a clean page that is not in use may be evicted.
//!
//! Called by file systems in the turn of the request's activity, which pays for the page. The memory resource takes
//! pages back by [`FileCache::reclaim`].

use crate::account::{Account, Usage};
use crate::dirty::Dirty;
use crate::fetch::{Arrival, Begin, Waiting};
use crate::shelf::{Shelf, ShelfOptions};
use crate::writing::Writing;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};
use gyre_account::{ActivityId, PayerOf};
use gyre_interface::memory::{memory, shown};
use gyre_machine::{OutOfMemory, PAGE_BYTES};
use gyre_message::WaitQueue;
use gyre_object::{Counted, Page, SetOnce, SpinLock};

/// An odd number near 2^64 divided by the golden ratio: multiplied by it, numbers in a row are spread over the upper bits.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Names a page: of a file, or of a device (a node number that no file has).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PageKey {
    /// The file system, unique in the instance.
    pub file_system: u32,
    /// The node.
    pub node: u64,
    /// The page, counted from the node's start.
    pub index: u64,
}

impl PageKey {
    /// Returns a number for a file, the same for all its pages, mostly another for other files: spread over the low
    /// bits.
    fn file(&self) -> u64 {
        (self.node ^ u64::from(self.file_system).rotate_left(48)).wrapping_mul(SPREAD) >> 32
    }
}

impl Hash for PageKey {
    /// Nodes have less than 48 bits, so that two words tell keys apart as three would.
    #[inline]
    fn hash<H: Hasher>(&self, into: &mut H) {
        into.write_u64(self.node ^ u64::from(self.file_system).rotate_left(48));
        into.write_u64(self.index);
    }
}

/// Bounds of the cache.
#[derive(Clone, Copy)]
pub struct CacheOptions {
    /// Most pages in all.
    pub pages: usize,
    /// Pages of an activity for which no budget is set.
    pub pages_per_activity: usize,
    /// Dirty pages from which on an activity's writers write back before they go on.
    pub dirty_per_activity: usize,
    /// The payer for an activity's pages: itself, or its tenant.
    pub payer: PayerOf,
}

/// At most one in this many of a payer's pages may be dirty.
const DIRTY_PARTS: usize = 5;

/// Room that is asked for at once, bytes.
const ROOM_BYTES: u64 = 8 * PAGE_BYTES as u64;
/// It is doubled so often at most.
const DOUBLINGS_MAX: u32 = 7;

/// The memory resource, as the cache knows it.
#[derive(Clone, Copy)]
pub struct Room {
    /// The memory resource, which a task asks that must wait for room.
    pub client: memory::Client,
    /// False if a payer's next page should take the place of one of its own. Short, never waits.
    pub has_room: &'static (dyn Fn(ActivityId) -> bool + Send + Sync),
    /// Pages that a process may hold itself; `usize::MAX` if only its payer's limit holds. Short, never waits.
    pub process_pages: &'static (dyn Fn(ActivityId) -> usize + Send + Sync),
    /// Pages that a payer keeps whoever asks for them: with its programs' last pages gone it would only wait for the disk, for each
    /// instruction anew, though it should be told that its memory is at an end.
    pub kept_pages: usize,
}

/// An event of bytes of files in the cache, for the accounts of its cause.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tallied {
    /// A page became dirty: it will be written.
    Dirtied,
    /// A dirty page was dropped: it will not be written.
    Cancelled,
}

/// Told of bytes in the turn of the activity that caused it. Short, never waits.
pub type Tally = &'static (dyn Fn(Tallied, u64) + Send + Sync);

/// The notes of a file system about a page.
#[derive(Clone, Copy, Default)]
pub(crate) struct Notes {
    /// The disk has room for all of it: writing to it takes none.
    pub(crate) placed: bool,
    /// True if its reader should read on.
    pub(crate) mark: bool,
    /// It was lent, and perhaps is still: who has it must not see it change. No program has mapped it.
    pub(crate) lent: bool,
}

enum Slot {
    /// It is being fetched; with the tasks that wait for it, if any.
    Fetching(Option<Arc<Arrival>>),
    Here {
        page: Page,
        dirty: bool,
        writing: bool,
        notes: Notes,
    },
}

impl Slot {
    /// Returns whether it is clean, at rest, and in use only by the cache.
    fn may_go(&self) -> bool {
        matches!(self, Slot::Here { page, dirty: false, writing: false, .. } if !page.is_shared())
    }

    /// Returns whether it is charged to this very activity: a process pays for the pages that it has fetched and no
    /// process has mapped since.
    fn is_of(&self, process: ActivityId) -> bool {
        matches!(self, Slot::Here { page, .. } if page.owner() == Some(process.0))
    }
}

/// Pages of files, shared by all file systems of an instance.
pub struct FileCache {
    shelf: Shelf<PageKey, Slot>,
    dirty: SpinLock<Dirty>,
    dirtied: WaitQueue,
    written: WaitQueue,
    dirty_per_activity: usize,
    room: SetOnce<Room>,
    tally: SetOnce<Tally>,
    shown: SetOnce<shown::Client>,
}

impl FileCache {
    /// Makes an empty cache.
    pub fn new(options: CacheOptions) -> FileCache {
        let shelf = Shelf::new(ShelfOptions {
            capacity: options.pages,
            budget: options.pages_per_activity,
            payer: options.payer,
        });
        let shelf = shelf.grouped(PageKey::file);
        FileCache {
            shelf,
            dirty: SpinLock::default(),
            dirtied: WaitQueue::new(),
            written: WaitQueue::new(),
            dirty_per_activity: options.dirty_per_activity.max(1),
            room: SetOnce::new(),
            tally: SetOnce::new(),
            shown: SetOnce::new(),
        }
    }

    /// Returns the pages that it holds, for the monitor's list of pools.
    pub fn pages(&self) -> &dyn Counted {
        &self.shelf
    }

    /// Sets the source of room; once. Without it, only an activity's budget counts.
    pub fn connect(&self, room: Room) {
        self.room.set(room);
    }

    /// Sets who is told of pages that become dirty, and of dirty pages that are dropped. Once, before the first file system.
    pub fn set_tally(&self, tally: Tally) {
        self.tally.set(tally);
    }

    /// Sets who shows pages to programs; once. Without it no program writes a page but by calls.
    pub fn set_shown(&self, shown: shown::Client) {
        self.shown.set(shown);
    }

    fn tally(&self, what: Tallied) {
        if let Some(tally) = self.tally.get() {
            tally(what, PAGE_BYTES as u64);
        }
    }

    /// Waits for room for some pages of the current activity. Call it after [`FileCache::begin`] refused, without
    /// holding anything that a write-back needs (locks of nodes). A caller that has waited for one piece of work before needs more at once than
    /// it got then: with each of these `waits` it is twice as much, up to a bound.
    ///
    /// # Errors
    /// [`OutOfMemory`] if there is none to be had.
    pub async fn wait_for_room(&self, waits: u32) -> Result<(), OutOfMemory> {
        let room = self.room.get().ok_or(OutOfMemory)?;
        let reserve = |bytes| room.client.reserve(gyre_account::current_activity(), bytes);
        if waits > 0 && reserve(ROOM_BYTES << waits.min(DOUBLINGS_MAX)).await.is_ok() {
            return Ok(());
        }
        reserve(ROOM_BYTES).await.map_err(|_| OutOfMemory)
    }

    /// Returns the page, if it is here. One lock, one hash; never waits.
    pub fn get(&self, key: PageKey) -> Option<Page> {
        self.shelf.with(&key, |slot, account| match slot {
            Slot::Here { page, .. } => {
                account.add_hit();
                Some(page.clone())
            }
            Slot::Fetching(_) => None,
        })?
    }

    /// Returns the page for a reader, and whether it carried the mark, which it loses.
    pub fn read(&self, key: PageKey) -> Option<(Page, bool)> {
        self.shelf.with(&key, |slot, account| match slot {
            Slot::Here { page, notes, .. } => {
                account.add_hit();
                Some((page.clone(), core::mem::take(&mut notes.mark)))
            }
            Slot::Fetching(_) => None,
        })?
    }

    /// Returns the page to write to, dirty from here on, if it is here and the disk has room for all of it.
    pub fn overwrite(&self, key: PageKey) -> Option<Page> {
        let payer = self.shelf.payer();
        let (page, is_new) = self.shelf.with(&key, |slot, account| match slot {
            Slot::Here { page, dirty, notes: notes @ Notes { placed: true, .. }, .. } => {
                lent::part_from(page, notes).ok()?;
                account.add_hit();
                Some((page.clone(), self.become_dirty(key, dirty, account, payer)))
            }
            _ => None,
        })??;
        if is_new {
            self.tally(Tallied::Dirtied);
            self.dirtied.wake_all();
        }
        Some(page)
    }

    /// Notes that the disk has room for all of a page. Its room is given back only after [`FileCache::forget`].
    pub fn note_placed(&self, key: PageKey) {
        self.shelf.update(&key, |slot, _| {
            if let Slot::Here { notes, .. } = slot {
                notes.placed = true;
            }
        });
    }

    /// Returns whether the page is here or on its way.
    pub fn knows(&self, key: PageKey) -> bool {
        self.shelf.update(&key, |_, _| ()).is_some()
    }

    /// Returns whether the page is here, which is no use of it.
    pub fn holds(&self, key: PageKey) -> bool {
        self.shelf.update(&key, |slot, _| matches!(slot, Slot::Here { .. })).unwrap_or(false)
    }

    /// Drops a page that a process pays for, not its siblings'; false if none may go.
    fn evict_of(&self, account: &Account, process: ActivityId, is_brief: bool) -> bool {
        self.shelf.evict_meant(account.activity(), is_brief, &|slot| slot.is_of(process), &Slot::may_go)
    }

    pub(crate) fn arrived(&self, key: PageKey, page: &Page, notes: Notes) {
        let here = Slot::Here { page: page.clone(), dirty: false, writing: false, notes };
        announce(self.shelf.update(&key, |slot, _| core::mem::replace(slot, here)));
    }

    pub(crate) fn abandoned(&self, key: PageKey) {
        announce(self.shelf.remove_if(&key, |slot, _| matches!(slot, Slot::Fetching(_))));
    }

    /// Says that a page was written to; the current activity pays for writing it back if it was clean. False if the page is not here.
    pub fn mark_dirty(&self, key: PageKey) -> bool {
        let known = self.mark_dirty_for(key, self.shelf.payer());
        if known == Some(true) {
            self.tally(Tallied::Dirtied);
            self.dirtied.wake_all();
        }
        known.is_some()
    }

    /// Returns whether it became dirty just now; `None` if it is not here.
    fn mark_dirty_for(&self, key: PageKey, payer: ActivityId) -> Option<bool> {
        self.shelf.update(&key, |slot, account| {
            let Slot::Here { dirty, .. } = slot else {
                return None;
            };
            Some(self.become_dirty(key, dirty, account, payer))
        })?
    }

    /// Returns whether it was clean.
    fn become_dirty(&self, key: PageKey, dirty: &mut bool, account: &Account, payer: ActivityId) -> bool {
        let is_new = !core::mem::replace(dirty, true);
        if is_new {
            account.add_dirty();
            self.dirty.lock().add(key, payer, gyre_machine::now());
        }
        is_new
    }

    /// Takes a dirty page to write it; `None` if it is clean or being written.
    pub fn start_writing(&'static self, key: PageKey) -> Option<Writing> {
        self.shelf.update(&key, |slot, account| {
            let Slot::Here { page, dirty, writing, .. } = slot else {
                return None;
            };
            if !*dirty || *writing {
                return None;
            }
            (*dirty, *writing) = (false, true);
            account.remove_dirty();
            let mut pages = self.dirty.lock();
            let payer = pages.remove(key).map_or(account.activity(), |mark| mark.activity);
            pages.begin_writing(payer);
            Some(Writing::new(self, key, page.clone(), payer))
        })?
    }

    /// Notes that a page that this payer made dirty is not being written any more.
    pub(crate) fn write_ended(&self, key: PageKey, payer: ActivityId, is_dirty_again: bool) {
        self.shelf.update(&key, |slot, account| {
            if let Slot::Here { writing, .. } = slot {
                *writing = false;
                account.note_free();
            }
        });
        if is_dirty_again {
            self.mark_dirty_for(key, payer);
        }
        self.dirty.lock().end_writing(payer);
        self.written.wake_all();
    }

    /// Waits until the next page that a payer dirtied is written; false at once if none is being written.
    pub async fn until_one_is_written(&self, payer: ActivityId) -> bool {
        let Some(before) = self.dirty.lock().written(payer) else { return false };
        self.written.until(|| (self.dirty.lock().written(payer) != Some(before)).then_some(())).await;
        true
    }

    /// Returns how many pages that a payer dirtied are being written.
    pub fn being_written(&self, payer: ActivityId) -> usize {
        self.dirty.lock().under_way(payer)
    }

    /// Indices of dirty pages of a node from `from` on, in order, at most `count_max`.
    pub fn dirty_pages(&self, from: PageKey, count_max: usize) -> Vec<u64> {
        self.dirty.lock().of_node(from, count_max)
    }

    /// Nodes of a file system that have dirty pages.
    pub fn dirty_nodes(&self, file_system: u32) -> Vec<u64> {
        self.dirty.lock().nodes(file_system)
    }

    /// Activities that dirtied pages of a file system.
    pub fn dirty_activities(&self, file_system: u32) -> Vec<ActivityId> {
        self.dirty.lock().activities(file_system)
    }

    /// Nodes of a file system in which an activity dirtied pages before that time.
    pub fn aged_nodes(&self, file_system: u32, activity: ActivityId, before_cycles: u64) -> Vec<u64> {
        self.dirty.lock().aged_nodes(file_system, activity, before_cycles)
    }

    /// Returns whether the current activity's payer has more dirty pages than it may: its writer writes some back before it goes on.
    pub fn is_over_dirty_limit(&self) -> bool {
        let account = self.shelf.account();
        let process = gyre_account::current_activity();
        let own =
            self.room.get().filter(|_| process.is_member()).map_or(usize::MAX, |room| (room.process_pages)(process));
        // A process that may hold little dirties little, or all that it holds would wait for the disk.
        let limit = self.dirty_per_activity.min(account.budget().min(own) / DIRTY_PARTS).max(1);
        account.dirty() > limit
    }

    /// Nodes of a file system, in order, that hold the `pages` pages which the current activity's payer dirtied first.
    pub fn oldest_dirty_nodes(&self, file_system: u32, pages: usize) -> Vec<u64> {
        self.dirty.lock().oldest_nodes(self.shelf.account().activity(), file_system, pages)
    }

    /// Returns when some page is dirty.
    pub async fn until_dirty(&self) {
        self.dirtied.until(|| (!self.dirty.lock().is_empty()).then_some(())).await;
    }

    /// Returns whether no page is dirty.
    pub fn is_clean(&self) -> bool {
        self.dirty.lock().is_empty()
    }

    /// Forgets the pages `from..to` of a node, dirty or not; pages on their way stay. The file system holds the node's lock.
    pub fn forget(&self, file_system: u32, node: u64, from: u64, to: u64) {
        if self.has_none_of(file_system, node) {
            return;
        }
        if to.saturating_sub(from) <= self.shelf.total() as u64 {
            (from..to).for_each(|index| self.forget_one(PageKey { file_system, node, index }));
            return;
        }
        let mut keys = Vec::new();
        self.shelf.remove_all(|key, _| {
            if key.file_system == file_system && key.node == node && (from..to).contains(&key.index) {
                keys.push(*key);
            }
            false
        });
        keys.into_iter().for_each(|key| self.forget_one(key));
    }

    fn forget_one(&self, key: PageKey) {
        // Made clean and removed in one step, so that it is not made dirty in between.
        self.shelf.remove_if(&key, |slot, account| {
            let Slot::Here { dirty, .. } = slot else { return false };
            if core::mem::take(dirty) {
                account.remove_dirty();
                self.dirty.lock().remove(key);
                self.tally(Tallied::Cancelled);
            }
            true
        });
    }

    /// Changes how many pages there may be in all.
    pub fn set_capacity(&self, pages: usize) {
        self.shelf.set_capacity(pages);
    }

    /// Sets how many pages an activity may hold.
    pub fn set_budget(&self, activity: ActivityId, pages: usize) {
        self.shelf.set_budget(activity, pages);
        while self.shelf.account_of(activity).excess() > 0 && self.shelf.evict(activity, &Slot::may_go) {}
    }

    /// Returns the payer at the cache for an activity: for a process its tenant.
    pub fn payer_of(&self, activity: ActivityId) -> ActivityId {
        self.shelf.account_of(activity).activity()
    }

    /// Returns the page that an activity made dirty first in a file system, if any, to be written back for room.
    pub fn oldest_dirty(&self, file_system: u32, activity: ActivityId) -> Option<PageKey> {
        self.dirty.lock().oldest(activity, file_system)
    }

    /// Returns the number of parts that the cache is in.
    pub fn parts(&self) -> usize {
        self.shelf.parts()
    }

    /// Drops the unused clean pages of a file system that is given up, of one part; it looks at every page there.
    pub fn evict_file_system(&self, file_system: u32, part: usize) {
        self.shelf.remove_in(part, |key, slot| key.file_system == file_system && slot.may_go());
    }

    /// Drops the unused clean pages of a node; returns how many. Dirty ones stay.
    pub fn evict_node(&self, file_system: u32, node: u64, from: u64, to: u64) -> usize {
        if self.has_none_of(file_system, node) {
            return 0;
        }
        if to.saturating_sub(from) <= self.shelf.total() as u64 {
            let key = |index| PageKey { file_system, node, index };
            let goes = |index: &u64| self.shelf.remove_if(&key(*index), |slot, _| slot.may_go()).is_some();
            return (from..to).filter(goes).count();
        }
        let mut evicted = 0;
        self.shelf.remove_all(|key, slot| {
            let goes =
                key.file_system == file_system && key.node == node && (from..to).contains(&key.index) && slot.may_go();
            evicted = usize::from(goes).saturating_add(evicted);
            goes
        });
        evicted
    }

    /// Returns the holdings of each activity, in pages.
    pub fn usage(&self) -> Vec<Usage> {
        self.shelf.usage()
    }
}

fn known(slot: &mut Slot) -> Begin {
    match slot {
        Slot::Here { page, .. } => Begin::Here(page.clone()),
        Slot::Fetching(arrival) => Begin::Wait(Waiting(arrival.get_or_insert_default().clone())),
    }
}

/// Tells the waiting tasks of a page its outcome, outside of the shelf's lock.
fn announce(slot: Option<Slot>) {
    if let Some(Slot::Fetching(Some(arrival))) = slot {
        arrival.announce();
    }
}

mod lent;
mod past;
mod protect;
mod reclaim;
mod taking;
#[cfg(test)]
mod tests;
mod vacate;
pub use past::Outdated;
