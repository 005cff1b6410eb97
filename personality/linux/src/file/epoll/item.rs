//! One file that an interest list is interested in.

use super::{Epoll, Event};
use crate::file::epoll::nests::{ListId, Nests};
use crate::file::open_file::OpenFile;
use crate::file::tenant_files::TenantFiles;
use crate::{Errno, file::object::Object};
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use gyre_interface::readiness::{Source, Subscriber};
use gyre_interface::{Readiness, Ready};
use gyre_object::ObjectLock;

/// Items that are interested in one file, at most.
const WATCHERS_MAX: usize = 4096;
/// Most watchers that the closing call itself tells that a file is closed.
const WATCHERS_SHORT: usize = 16;

/// One file that a list is interested in.
pub struct Item {
    pub(super) file: Weak<OpenFile>,
    list: Weak<Epoll>,
    pub(super) key: Key,
    pub(super) wanted: ObjectLock<Event>,
    pub(super) queued: AtomicBool,
    pub(super) disarmed: AtomicBool,
    removed: AtomicBool,
    /// Its events go to one of those lists that wait (EPOLLEXCLUSIVE).
    is_exclusive: bool,
    nest: ObjectLock<Option<Nest>>,
    this: Weak<Item>,
}

/// A descriptor and the description that it meant when it was added.
pub(super) type Key = (i32, usize);

/// A list in a list, until dropped.
struct Nest {
    tenant: Arc<TenantFiles>,
    outer: ListId,
    inner: ListId,
}

impl Nest {
    /// Notes that `file`, if it is a list, is in `list`.
    fn new(list: &Epoll, file: &OpenFile) -> Result<Option<Nest>, Errno> {
        let Object::Epoll(inner) = file.object() else {
            return Ok(None);
        };
        let nests: &Nests = &file.tenant().nests;
        nests.add(list.id, inner.id)?;
        Ok(Some(Nest { tenant: file.tenant().clone(), outer: list.id, inner: inner.id }))
    }
}

impl Drop for Nest {
    fn drop(&mut self) {
        self.tenant.nests.remove(self.outer, self.inner);
    }
}

impl Item {
    /// Makes the interest of `list` in `file`.
    ///
    /// # Errors
    /// Those of [`Nests::add`] for a list.
    pub(super) fn new(list: &Arc<Epoll>, key: Key, file: &Arc<OpenFile>, event: Event) -> Result<Arc<Item>, Errno> {
        let nest = Nest::new(list, file)?;
        Ok(Arc::new_cyclic(|this| Item {
            file: Arc::downgrade(file),
            list: Arc::downgrade(list),
            key,
            wanted: ObjectLock::new(event),
            queued: AtomicBool::new(false),
            disarmed: AtomicBool::new(false),
            removed: AtomicBool::new(false),
            is_exclusive: event.is_exclusive(),
            nest: ObjectLock::new(nest),
            this: this.clone(),
        }))
    }

    pub(super) fn wanted(&self) -> Event {
        *self.wanted.lock()
    }

    /// Returns the part of `ready` that this item reports.
    pub(super) fn matches(&self, ready: Ready) -> Ready {
        self.wanted().of(ready)
    }

    pub(super) fn is_live(&self) -> bool {
        !self.disarmed.load(Ordering::Acquire) && !self.removed.load(Ordering::Acquire)
    }

    /// Ends it: nothing is told of it from now on.
    pub(super) fn remove(&self, readiness: Option<&Readiness>) {
        self.removed.store(true, Ordering::Release);
        drop(self.nest.lock().take());
        if let (Some(readiness), Some(this)) = (readiness, self.this.upgrade()) {
            let this: Arc<dyn Subscriber> = this;
            readiness.unsubscribe(&this);
        }
    }

    /// Ends its subscription when the list is gone.
    pub(super) fn list_closed(&self) {
        let readiness = self.file.upgrade().and_then(|file| file.readiness());
        self.remove(readiness.as_deref());
    }

    /// Makes the list forget it when the file is closed for good.
    fn file_closed(&self, readiness: Option<&Readiness>) {
        self.remove(readiness);
        if let Some(list) = self.list.upgrade() {
            list.forget(&self.key);
        }
    }

    /// Looks now, and queues it if it is ready for a wanted event.
    pub(super) fn look(&self, ready: Ready) {
        if let Some(list) = self.queue(ready) {
            list.readiness().set(Ready::READ);
        }
    }

    /// Queues it if it is ready for a wanted event; returns the list, whose users must be told then.
    fn queue(&self, ready: Ready) -> Option<Arc<Epoll>> {
        if !self.is_live() || self.matches(ready).is_empty() {
            return None;
        }
        let (list, this) = (self.list.upgrade()?, self.this.upgrade()?);
        list.enqueue(this).then_some(list)
    }
}

impl Subscriber for Item {
    fn changed(&self, now: Ready) -> Option<Arc<dyn Source>> {
        self.queue(now).map(|list| -> Arc<dyn Source> { list })
    }

    fn is_exclusive(&self) -> bool {
        self.is_exclusive
    }
}

/// The items that are interested in a file.
#[derive(Default)]
pub struct Watchers {
    items: Vec<Weak<Item>>,
    readiness: Option<Arc<Readiness>>,
}

impl Watchers {
    /// Adds one watcher.
    ///
    /// # Errors
    /// ENOSPC if there are too many.
    pub(super) fn add(&mut self, item: &Arc<Item>) -> Result<(), Errno> {
        if self.items.len() == self.items.capacity() {
            self.items.retain(|other| other.strong_count() > 0);
        }
        if self.items.len() >= WATCHERS_MAX {
            return Err(Errno::ENOSPC);
        }
        self.items.push(Arc::downgrade(item));
        Ok(())
    }

    /// Returns whether there is no watcher.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns whether telling them takes no time to speak of.
    pub fn is_short(&self) -> bool {
        self.items.len() <= WATCHERS_SHORT
    }

    /// Tells the watchers that their file is closed for good.
    pub fn file_closed(&mut self, readiness: Option<Arc<Readiness>>) {
        self.readiness = readiness;
    }

    /// Tells one of them that the file is closed; false if there is none.
    pub fn take_piece(&mut self) -> bool {
        let Some(item) = self.items.pop() else {
            return false;
        };
        if let Some(item) = item.upgrade() {
            item.file_closed(self.readiness.as_deref());
        }
        true
    }
}
