//! Interest lists (epoll(7)).
//!
//! An item subscribes to the readiness of its file. A change puts the item on the list's queue of ready ones; a wait
//! takes items from there and looks at their readiness then. A level-triggered item goes back to the end of the
//! queue, so that it is looked at again; an edge-triggered one waits for the next change; a one-shot one for
//! `EPOLL_CTL_MOD`.
//!
//! Locks: a file's state may be locked when `changed` is called, so nothing here asks a file while it holds the
//! list's lock.
//!
//! Lists may watch lists; [`nests`] bounds depth and forbids circles. A turn looks at a bounded number of items
//! ([`Looks`]); a list with more is called ready, and the rest is looked at in the next turn. A closed list lets its
//! items go in pieces ([`super::remains`]).

mod item;
mod nests;

pub use item::{Item, Watchers};
pub use nests::{NESTING_MAX, Nests};

use super::open_file::OpenFile;
use super::remains::Remain;
use super::tenant_files::TenantFiles;
use crate::Errno;
use crate::objects::EPOLLS;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use gyre_interface::readiness::{Crowded, Source};
use gyre_interface::{Readiness, Ready};
use gyre_object::Counter;
use gyre_object::ObjectLock;
use item::Key;
use linux_raw_sys::general as raw;
use nests::ListId;

/// Items of one list.
pub const ITEMS_MAX: usize = 65_536;
/// Queued items that one look at a list asks at most, those of lists in it included.
const LOOKS_MAX: u32 = 1024;
/// Bits of an event mask that are not readiness.
const BEHAVIOUR: u32 = raw::EPOLLET | raw::EPOLLONESHOT | raw::EPOLLEXCLUSIVE | raw::EPOLLWAKEUP;
/// Bits that an exclusive item may have.
const BESIDE_EXCLUSIVE: u32 = raw::EPOLLIN
    | raw::EPOLLOUT
    | raw::EPOLLERR
    | raw::EPOLLHUP
    | raw::EPOLLWAKEUP
    | raw::EPOLLET
    | raw::EPOLLEXCLUSIVE;

/// The event of epoll_ctl and epoll_wait: `struct epoll_event`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// EPOLL* bits.
    pub events: u32,
    /// The value that epoll_wait gives back.
    pub data: u64,
}

impl Event {
    /// Returns the part of `ready` that is reported.
    fn of(self, ready: Ready) -> Ready {
        let mask = Ready::from_bits_truncate(self.events & !BEHAVIOUR);
        ready & (mask | Ready::ERROR | Ready::HANG_UP)
    }

    /// Returns whether one of the lists that wait is enough for it.
    pub fn is_exclusive(self) -> bool {
        self.events & raw::EPOLLEXCLUSIVE != 0
    }

    /// Returns whether its bits may stand beside EPOLLEXCLUSIVE (Linux: fs/eventpoll.c, `EPOLLEXCLUSIVE_OK_BITS`).
    pub fn may_be_exclusive(self) -> bool {
        self.events & !BESIDE_EXCLUSIVE == 0
    }
}

/// An event that was taken from a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Told {
    /// Events that are given to the program.
    pub event: Event,
    item: Key,
}

/// The number of queued items that may still be asked in this turn.
pub struct Looks(u32);

impl Looks {
    /// Returns a full turn.
    pub fn new() -> Looks {
        Looks(LOOKS_MAX)
    }

    /// Uses one; false if there is none.
    fn take(&mut self) -> bool {
        let left = self.0.checked_sub(1);
        self.0 = left.unwrap_or(0);
        left.is_some()
    }

    /// Returns whether all are used.
    fn is_spent(&self) -> bool {
        self.0 == 0
    }
}

/// The items of a list.
#[derive(Default)]
pub struct Items {
    map: BTreeMap<Key, Arc<Item>>,
    ready: VecDeque<Arc<Item>>,
}

impl Items {
    /// Frees one item of a closed list; false if there is none.
    pub fn take_piece(&mut self) -> bool {
        let Some(item) = self.map.pop_first().map(|(_, item)| item).or_else(|| self.ready.pop_front()) else {
            return false;
        };
        item.list_closed();
        true
    }
}

/// An interest list.
pub struct Epoll {
    _count: Counter,
    id: ListId,
    items: ObjectLock<Items>,
    readiness: Arc<Readiness>,
}

impl Epoll {
    /// Makes an empty list.
    pub fn new(tenant: &TenantFiles) -> Arc<Epoll> {
        Arc::new(Epoll {
            _count: EPOLLS.count(),
            id: tenant.nests.name(),
            items: ObjectLock::default(),
            readiness: Readiness::new(Ready::empty()),
        })
    }

    /// Returns its readiness: READ while an item may be ready.
    pub fn readiness(&self) -> &Arc<Readiness> {
        &self.readiness
    }

    /// Queues an item; false if it was queued before: then everybody has been told.
    fn enqueue(&self, item: Arc<Item>) -> bool {
        if item.queued.swap(true, Ordering::AcqRel) {
            return false;
        }
        self.items.lock().ready.push_back(item);
        true
    }

    fn forget(&self, key: &Key) {
        self.items.lock().map.remove(key);
    }

    /// Adds a file.
    ///
    /// # Errors
    /// EEXIST; EPERM for files that are always ready; ELOOP and EINVAL for lists, as [`Nests::add`]; ENOSPC beyond
    /// [`ITEMS_MAX`], and if the file has too many subscribers.
    pub fn add(self: &Arc<Epoll>, fd: i32, file: &Arc<OpenFile>, event: Event) -> Result<(), Errno> {
        let readiness = file.readiness().ok_or(Errno::EPERM)?;
        let key = (fd, Arc::as_ptr(file) as usize);
        let item = Item::new(self, key, file, event)?;
        self.insert(&item)?;
        let subscribe = |()| readiness.subscribe(item.clone()).map_err(|Crowded| Errno::ENOSPC);
        if let Err(error) = file.watch(|watchers| watchers.add(&item)).and_then(subscribe) {
            item.remove(None);
            self.forget(&key);
            return Err(error);
        }
        item.look(file.ready());
        Ok(())
    }

    fn insert(&self, item: &Arc<Item>) -> Result<(), Errno> {
        let mut items = self.items.lock();
        if items.map.contains_key(&item.key) {
            return Err(Errno::EEXIST);
        }
        if items.map.len() >= ITEMS_MAX {
            return Err(Errno::ENOSPC);
        }
        items.map.insert(item.key, item.clone());
        Ok(())
    }

    fn find(&self, fd: i32, file: &Arc<OpenFile>) -> Result<Arc<Item>, Errno> {
        let key = (fd, Arc::as_ptr(file) as usize);
        let item = self.items.lock().map.get(&key).cloned();
        item.ok_or(Errno::ENOENT)
    }

    /// Changes the wanted events of a file, and arms it again.
    ///
    /// # Errors
    /// ENOENT; EINVAL for an exclusive item.
    pub fn modify(&self, fd: i32, file: &Arc<OpenFile>, event: Event) -> Result<(), Errno> {
        let item = self.find(fd, file)?;
        if item.wanted().is_exclusive() || event.is_exclusive() {
            return Err(Errno::EINVAL);
        }
        *item.wanted.lock() = event;
        item.disarmed.store(false, Ordering::Release);
        item.look(file.ready());
        Ok(())
    }

    /// Forgets a file.
    ///
    /// # Errors
    /// ENOENT.
    pub fn remove(&self, fd: i32, file: &Arc<OpenFile>) -> Result<(), Errno> {
        let item = self.find(fd, file)?;
        item.remove(file.readiness().as_deref());
        self.forget(&item.key);
        Ok(())
    }

    /// Returns how many items may be ready.
    pub fn queued(&self) -> usize {
        self.items.lock().ready.len()
    }

    /// Tells up to `events_max` events of the first `left` items; answers how many. The items that are left then are to be looked at in
    /// another turn, if there was no event.
    pub fn collect_each(&self, left: &mut usize, events_max: usize, mut tell: impl FnMut(Told)) -> usize {
        let (mut count, mut looks, mut has_kept) = (0, Looks::new(), false);
        // Those that stay go behind all that were there at first: none is looked at twice.
        while *left > 0 && count < events_max && looks.take() {
            let Some(item) = self.take_first() else {
                *left = 0;
                break;
            };
            let seen = look(&item, &mut looks);
            if looks.is_spent() {
                // The nested list of this item has too many items for this turn.
                self.put_first(item);
                break;
            }
            *left = left.saturating_sub(1);
            has_kept = seen.is_some_and(|(_, keep)| keep);
            if let Some((event, keep)) = seen {
                tell(Told { event, item: item.key });
                count = usize::saturating_add(count, 1);
                if keep {
                    self.put_back(item);
                }
            }
        }
        // The list is not empty if its last item went back. If another thread took that meanwhile, it is the one to clear.
        if !has_kept {
            self.clear_where_empty();
        }
        count
    }

    /// Takes the first queued item, which may come back: the list stays ready meanwhile.
    fn take_first(&self) -> Option<Arc<Item>> {
        let item = self.items.lock().ready.pop_front()?;
        item.queued.store(false, Ordering::Release);
        Some(item)
    }

    /// Queues an item again that was looked at.
    fn put_back(&self, item: Arc<Item>) {
        if item.queued.swap(true, Ordering::AcqRel) {
            return;
        }
        self.items.lock().ready.push_back(item);
        self.tell_where_cleared();
    }

    /// The program did not get an event: it is told again, also if it is told once only.
    pub fn take_back(&self, told: Told) {
        let item = self.items.lock().map.get(&told.item).cloned();
        let Some(item) = item else { return };
        if told.event_was_last(item.wanted()) {
            item.disarmed.store(false, Ordering::Release);
        }
        if let Some(file) = item.file.upgrade() {
            item.look(file.ready());
        }
    }

    /// Drops queued items that are not ready any more, so that the list's own readiness is true. If `looks` are spent it stays ready:
    /// something may be.
    // recursion: at most 5 lists, because epoll_ctl refuses deeper nests (NESTING_MAX)
    pub fn refresh(&self, looks: &mut Looks) {
        while looks.take() {
            let Some(item) = self.take_first() else { break };
            let ready = item.file.upgrade().map(|file| file.ready_within(looks));
            if item.is_live() && ready.is_some_and(|ready| !item.matches(ready).is_empty()) {
                return self.put_first(item);
            }
        }
        self.clear_where_empty();
    }

    /// Puts an item that is ready back to the front.
    fn put_first(&self, item: Arc<Item>) {
        if item.queued.swap(true, Ordering::AcqRel) {
            return;
        }
        self.items.lock().ready.push_front(item);
        self.tell_where_cleared();
    }

    /// Tells again that the list is ready, if another thread found it empty while an item was looked at and cleared
    /// it.
    fn tell_where_cleared(&self) {
        if !self.readiness.now().contains(Ready::READ) {
            self.readiness.set(Ready::READ);
        }
    }

    fn clear_where_empty(&self) {
        let items = self.items.lock();
        if items.ready.is_empty() {
            self.readiness.clear(Ready::READ);
        }
    }

    /// Ends it when its descriptor is closed for good: the files need not tell it any more.
    pub(super) fn close(&self, tenant: &Arc<TenantFiles>) {
        let items = core::mem::take(&mut *self.items.lock());
        if !items.map.is_empty() || !items.ready.is_empty() {
            tenant.close_in_pieces(|| tenant.leave_behind(Remain::Items(items)));
        }
    }
}

impl Told {
    /// True if the item was disarmed by this event.
    fn event_was_last(self, wanted: Event) -> bool {
        wanted.events & raw::EPOLLONESHOT != 0 && wanted.data == self.event.data
    }
}

impl Source for Epoll {
    fn readiness(&self) -> &Readiness {
        &self.readiness
    }
}

/// Returns the event that an item reports now, and whether it stays queued (level-triggered). The answer counts only
/// if looks are left then.
fn look(item: &Arc<Item>, looks: &mut Looks) -> Option<(Event, bool)> {
    if !item.is_live() {
        return None;
    }
    let file = item.file.upgrade()?;
    let wanted = item.wanted();
    let ready = wanted.of(file.ready_within(looks));
    if ready.is_empty() || looks.is_spent() {
        return None;
    }
    let one_shot = wanted.events & raw::EPOLLONESHOT != 0;
    if one_shot {
        item.disarmed.store(true, Ordering::Release);
    }
    let level = wanted.events & raw::EPOLLET == 0;
    let event = Event { events: report(ready, wanted.events), data: wanted.data };
    Some((event, level && !one_shot))
}

/// Returns READ and WRITE also by their other names (EPOLLRDNORM, EPOLLWRNORM), if those are wanted.
fn report(ready: Ready, wanted: u32) -> u32 {
    let mut bits = ready.bits();
    if ready.contains(Ready::READ) {
        bits |= wanted & raw::EPOLLRDNORM;
    }
    if ready.contains(Ready::WRITE) {
        bits |= wanted & raw::EPOLLWRNORM;
    }
    bits
}
