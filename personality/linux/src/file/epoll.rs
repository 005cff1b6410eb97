//! Interest lists (epoll(7)).
//!
//! An item subscribes to the readiness of its file. A change puts the item on the list's queue of ready ones; waiting takes
//! items from there and looks at what they are ready for then. A level-triggered item goes back to the end of the queue, so
//! that it is looked at again; an edge-triggered one waits for the next change; a one-shot one for `EPOLL_CTL_MOD`.
//!
//! Locks: a file's state may be locked when `changed` is called, so nothing here asks a file while it holds the list's lock.

use super::open_file::OpenFile;
use crate::Errno;
use crate::objects::EPOLLS;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use gyre_interface::readiness::Subscriber;
use gyre_interface::{Readiness, Ready};
use gyre_object::Counter;
use gyre_object::SpinLock;
use linux_raw_sys::general as raw;

/// Lists in lists, at most (Linux: EP_MAX_NESTS).
pub const NESTING_MAX: u32 = 4;
/// Items of one list.
pub const ITEMS_MAX: usize = 65_536;
/// Bits of an event mask that are not readiness.
const BEHAVIOUR: u32 = raw::EPOLLET | raw::EPOLLONESHOT | raw::EPOLLEXCLUSIVE | raw::EPOLLWAKEUP;

/// What epoll_ctl says: `struct epoll_event`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// EPOLL* bits.
    pub events: u32,
    /// What epoll_wait gives back.
    pub data: u64,
}

impl Event {
    /// What of `ready` is reported.
    fn of(self, ready: Ready) -> Ready {
        let mask = Ready::from_bits_truncate(self.events & !BEHAVIOUR);
        ready & (mask | Ready::ERROR | Ready::HANG_UP)
    }
}

/// One file that a list is interested in.
pub struct Item {
    file: Weak<OpenFile>,
    list: Weak<Epoll>,
    key: Key,
    wanted: SpinLock<Event>,
    queued: AtomicBool,
    disarmed: AtomicBool,
    removed: AtomicBool,
    this: Weak<Item>,
}

/// A descriptor and the description that it meant when it was added.
type Key = (i32, usize);

impl Item {
    fn wanted(&self) -> Event {
        *self.wanted.lock()
    }

    /// What of `ready` this item reports.
    fn matches(&self, ready: Ready) -> Ready {
        self.wanted().of(ready)
    }

    fn is_live(&self) -> bool {
        !self.disarmed.load(Ordering::Acquire) && !self.removed.load(Ordering::Acquire)
    }

    /// The file was closed for good: forgets it.
    pub(super) fn file_closed(&self, readiness: Option<&Readiness>) {
        self.removed.store(true, Ordering::Release);
        self.unsubscribe(readiness);
        if let Some(list) = self.list.upgrade() {
            list.items.lock().map.remove(&self.key);
        }
    }

    fn unsubscribe(&self, readiness: Option<&Readiness>) {
        if let (Some(readiness), Some(this)) = (readiness, self.this.upgrade()) {
            let this: Arc<dyn Subscriber> = this;
            readiness.unsubscribe(&this);
        }
    }
}

impl Subscriber for Item {
    fn changed(&self, now: Ready) {
        if !self.is_live() || self.matches(now).is_empty() {
            return;
        }
        if let (Some(list), Some(this)) = (self.list.upgrade(), self.this.upgrade()) {
            list.enqueue(this);
        }
    }
}

#[derive(Default)]
struct Items {
    map: BTreeMap<Key, Arc<Item>>,
    ready: VecDeque<Arc<Item>>,
}

/// An interest list.
pub struct Epoll {
    _count: Counter,
    items: SpinLock<Items>,
    readiness: Arc<Readiness>,
}

impl Epoll {
    /// An empty list.
    pub fn new() -> Arc<Epoll> {
        Arc::new(Epoll {
            _count: EPOLLS.count(),
            items: SpinLock::default(),
            readiness: Readiness::new(Ready::empty()),
        })
    }

    /// READ while an item may be ready.
    pub fn readiness(&self) -> &Arc<Readiness> {
        &self.readiness
    }

    fn enqueue(&self, item: Arc<Item>) {
        if item.queued.swap(true, Ordering::AcqRel) {
            return;
        }
        self.items.lock().ready.push_back(item);
        self.readiness.set(Ready::READ);
    }

    /// Adds a file.
    ///
    /// # Errors
    /// EEXIST; EPERM for files that are always ready; ELOOP; ENOSPC beyond [`ITEMS_MAX`].
    pub fn add(self: &Arc<Epoll>, fd: i32, file: &Arc<OpenFile>, event: Event) -> Result<(), Errno> {
        let readiness = file.readiness().ok_or(Errno::EPERM)?;
        let key = (fd, Arc::as_ptr(file) as usize);
        let item = Arc::new_cyclic(|this| Item {
            file: Arc::downgrade(file),
            list: Arc::downgrade(self),
            key,
            wanted: SpinLock::new(event),
            queued: AtomicBool::new(false),
            disarmed: AtomicBool::new(false),
            removed: AtomicBool::new(false),
            this: this.clone(),
        });
        let mut items = self.items.lock();
        if items.map.contains_key(&key) {
            return Err(Errno::EEXIST);
        }
        if items.map.len() >= ITEMS_MAX {
            return Err(Errno::ENOSPC);
        }
        items.map.insert(key, item.clone());
        drop(items);
        file.watch(&item);
        readiness.subscribe(item.clone());
        item.changed(file.ready());
        Ok(())
    }

    fn find(&self, fd: i32, file: &Arc<OpenFile>) -> Result<Arc<Item>, Errno> {
        let key = (fd, Arc::as_ptr(file) as usize);
        let item = self.items.lock().map.get(&key).cloned();
        item.ok_or(Errno::ENOENT)
    }

    /// Changes what is wanted of a file, and arms it again.
    ///
    /// # Errors
    /// ENOENT; EINVAL for an exclusive item.
    pub fn modify(&self, fd: i32, file: &Arc<OpenFile>, event: Event) -> Result<(), Errno> {
        let item = self.find(fd, file)?;
        if (item.wanted().events | event.events) & raw::EPOLLEXCLUSIVE != 0 {
            return Err(Errno::EINVAL);
        }
        *item.wanted.lock() = event;
        item.disarmed.store(false, Ordering::Release);
        item.changed(file.ready());
        Ok(())
    }

    /// Forgets a file.
    ///
    /// # Errors
    /// ENOENT.
    pub fn remove(&self, fd: i32, file: &Arc<OpenFile>) -> Result<(), Errno> {
        let item = self.find(fd, file)?;
        item.removed.store(true, Ordering::Release);
        item.unsubscribe(file.readiness().as_deref());
        self.items.lock().map.remove(&item.key);
        Ok(())
    }

    /// Takes up to `events_max` events; empty where nothing is ready.
    pub fn collect(&self, events_max: usize) -> Vec<Event> {
        let looks = self.queued();
        let mut events = Vec::with_capacity(looks.min(events_max));
        self.collect_each(looks, events_max, |event| events.push(event));
        events
    }

    /// How many items may be ready.
    pub fn queued(&self) -> usize {
        self.items.lock().ready.len()
    }

    /// Tells up to `events_max` events of the first `looks` items; answers how many.
    pub fn collect_each(&self, looks: usize, events_max: usize, mut tell: impl FnMut(Event)) -> usize {
        let mut count = 0;
        // Those that stay go behind all that were there at first: none is looked at twice.
        for _ in 0..looks {
            if count >= events_max {
                break;
            }
            let Some(item) = self.take_first() else { break };
            if let Some((event, keep)) = look(&item) {
                tell(event);
                count = usize::saturating_add(count, 1);
                if keep {
                    self.put_back(item);
                }
            }
        }
        let items = self.items.lock();
        if items.ready.is_empty() {
            self.readiness.clear(Ready::READ);
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
        // Another thread that found the list empty meanwhile has said so.
        if !self.readiness.now().contains(Ready::READ) {
            self.readiness.set(Ready::READ);
        }
    }

    /// Takes the first queued item; without one the list is not ready.
    fn pop(&self) -> Option<Arc<Item>> {
        let mut items = self.items.lock();
        let item = items.ready.pop_front();
        match &item {
            Some(item) => item.queued.store(false, Ordering::Release),
            None => self.readiness.clear(Ready::READ),
        }
        if items.ready.is_empty() {
            self.readiness.clear(Ready::READ);
        }
        item
    }

    /// Drops queued items that are not ready any more, so that the list's own readiness is true.
    pub fn refresh(&self) {
        let looks = self.items.lock().ready.len();
        for _ in 0..looks {
            let Some(item) = self.pop() else { return };
            let ready = item.file.upgrade().map(|file| file.ready());
            if item.is_live() && ready.is_some_and(|ready| !item.matches(ready).is_empty()) {
                self.enqueue(item);
                return;
            }
        }
    }

    /// Checks that adding `inner` makes neither a ring nor too deep a nest.
    ///
    /// # Errors
    /// ELOOP.
    pub fn check_nesting(self: &Arc<Epoll>, inner: &Arc<Epoll>) -> Result<(), Errno> {
        if Arc::ptr_eq(self, inner) {
            return Err(Errno::EINVAL);
        }
        inner.check_below(self, NESTING_MAX)
    }

    fn check_below(&self, outer: &Arc<Epoll>, depth_left: u32) -> Result<(), Errno> {
        let depth_left = depth_left.checked_sub(1).ok_or(Errno::ELOOP)?;
        let files: Vec<Arc<OpenFile>> = {
            let items = self.items.lock();
            items.map.values().filter_map(|item| item.file.upgrade()).collect()
        };
        for file in files {
            if let super::object::Object::Epoll(list) = file.object() {
                if Arc::ptr_eq(list, outer) {
                    return Err(Errno::ELOOP);
                }
                list.check_below(outer, depth_left)?;
            }
        }
        Ok(())
    }
}

impl Drop for Epoll {
    fn drop(&mut self) {
        let items = core::mem::take(&mut *self.items.lock());
        for item in items.map.values() {
            item.removed.store(true, Ordering::Release);
            if let Some(file) = item.file.upgrade() {
                item.unsubscribe(file.readiness().as_deref());
            }
        }
    }
}

/// What an item reports now, and whether it stays queued (level-triggered).
fn look(item: &Arc<Item>) -> Option<(Event, bool)> {
    if !item.is_live() {
        return None;
    }
    let file = item.file.upgrade()?;
    let wanted = item.wanted();
    let ready = wanted.of(file.ready());
    if ready.is_empty() {
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

/// READ and WRITE also under their other names (EPOLLRDNORM, EPOLLWRNORM), where those are wanted.
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
