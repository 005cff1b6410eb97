//! An open file description: the target of descriptors, shared by dup, fork and SCM_RIGHTS (open(2)).
//!
//! It holds the object, the flags that fcntl may change, the position behind a lock across waits, and the path it was
//! opened by. It is closed when its last holder drops it or at [`OpenFile::release`]; closing may leave things behind
//! that are taken apart in pieces ([`super::remains`]). A tenant's number of descriptions is bounded (ENFILE).
//!
//! States: open, closed (its resource was told, once), dropped. Dropping tells the watchers, the watches (IN_CLOSE)
//! and the locks, in this order. Reads and writes that use the position hold its lock while they wait.

use super::async_lock::AsyncLock;
use super::contents::Used;
use super::direct_offer::DirectOffer;
use super::epoll::{Looks, Watchers};
use super::in_flight::FilesInFlight;
use super::losses::KnownLosses;
use super::mount::Place;
use super::object::Object;
use super::owner::Ownership;
use super::remains::Remain;
use super::tenant_files::{OpenCount, TenantFiles};
use crate::Errno;
use crate::objects::OPEN_FILES;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use gyre_interface::{Readiness, Ready};
use gyre_object::Counter;
use gyre_object::ObjectLock;
use linux_raw_sys::general as raw;

/// Flags that F_SETFL may change.
pub const STATUS_FLAGS: u32 = raw::O_APPEND | raw::O_NONBLOCK | raw::FASYNC | raw::O_DIRECT | raw::O_NOATIME;

/// The node and path of a file opened by name.
pub struct Location {
    /// The node.
    pub place: Place,
    /// Its path as the process that opened it saw it.
    pub path: Vec<u8>,
}

/// An open file description.
// recursion: at most 2, because a ring holds no ring and a flow no flow; files in flight are dropped by a queue (remains)
pub struct OpenFile {
    object: Object,
    location: Option<Location>,
    flags: AtomicU32,
    /// The position of reads and writes, held while one of them is under way.
    pub position: AsyncLock<u64>,
    /// True if it is read at random (POSIX_FADV_RANDOM), without read-ahead.
    pub is_random: AtomicBool,
    /// The answer of its file system about O_DIRECT.
    pub direct_offer: DirectOffer,
    /// The losses of its contents that it knows of.
    pub losses: KnownLosses,
    /// Room for the process that gets a signal when it is ready.
    pub(super) ownership: Ownership,
    watchers: ObjectLock<Watchers>,
    /// Places of tables of descriptors that it has.
    pub(super) descriptors: AtomicU32,
    /// Nobody runs a program from it meanwhile.
    _written: Option<Used>,
    /// True once its resource was told that it is closed.
    closed: AtomicBool,
    tenant: Arc<TenantFiles>,
    _count: OpenCount,
    _counter: Counter,
}

/// Files of served file systems, and pipes, whose messages then stay apart; not /proc, directories and the rest.
fn may_be_direct(object: &Object, location: Option<&Location>) -> bool {
    match object {
        Object::Regular => location.is_none_or(|location| location.place.system().client().is_some()),
        Object::Pipe(_) => true,
        _ => false,
    }
}

impl OpenFile {
    /// Makes a description of `object` with the flags of open(2).
    ///
    /// # Errors
    /// ENFILE if the tenant has too many; EINVAL if the object cannot do O_DIRECT.
    pub fn new(
        tenant: &Arc<TenantFiles>,
        object: Object,
        flags: u32,
        location: Option<Location>,
    ) -> Result<Arc<OpenFile>, Errno> {
        Self::with(tenant, object, flags, (location, None))
    }

    /// Makes one of a file that was opened by its name: if it is for writing, no program may run from it.
    ///
    /// # Errors
    /// As [`OpenFile::new`]; ETXTBSY.
    pub fn by_name(
        tenant: &Arc<TenantFiles>,
        object: Object,
        flags: u32,
        location: Location,
    ) -> Result<Arc<OpenFile>, Errno> {
        let is_written = matches!(flags & raw::O_ACCMODE, raw::O_WRONLY | raw::O_RDWR) && flags & raw::O_PATH == 0;
        let written = match object {
            Object::Regular if is_written => Some(tenant.contents.write(&location.place)?),
            _ => None,
        };
        Self::with(tenant, object, flags, (Some(location), written))
    }

    fn with(
        tenant: &Arc<TenantFiles>,
        object: Object,
        flags: u32,
        (location, written): (Option<Location>, Option<Used>),
    ) -> Result<Arc<OpenFile>, Errno> {
        let is_direct = flags & (raw::O_DIRECT | raw::O_PATH) == raw::O_DIRECT;
        if is_direct && !may_be_direct(&object, location.as_ref()) {
            return Err(Errno::EINVAL);
        }
        let count = tenant.count_open()?;
        if let Object::Socket(socket) = &object {
            socket.options().number.store(tenant.next_name(), Ordering::Relaxed);
        }
        let kept = STATUS_FLAGS | raw::O_ACCMODE | raw::O_PATH | raw::O_DIRECTORY | raw::O_SYNC;
        Ok(Arc::new(OpenFile {
            object,
            location,
            flags: AtomicU32::new(flags & kept),
            position: AsyncLock::new(0),
            is_random: AtomicBool::new(false),
            direct_offer: DirectOffer::default(),
            losses: KnownLosses::default(),
            ownership: Ownership::default(),
            watchers: ObjectLock::default(),
            descriptors: AtomicU32::new(0),
            _written: written,
            closed: AtomicBool::new(false),
            tenant: tenant.clone(),
            _count: count,
            _counter: OPEN_FILES.count(),
        }))
    }

    /// Returns its object.
    pub fn object(&self) -> &Object {
        &self.object
    }

    /// Returns the tenant's files.
    pub fn tenant(&self) -> &Arc<TenantFiles> {
        &self.tenant
    }

    /// Returns the node, if it was opened by name.
    pub fn place(&self) -> Option<&Place> {
        self.location.as_ref().map(|location| &location.place)
    }

    /// Returns its path, or empty.
    pub fn path(&self) -> &[u8] {
        self.location.as_ref().map_or(&[], |location| &location.path)
    }

    /// Returns the path that /proc shows.
    pub fn shown_path(&self) -> Vec<u8> {
        match &self.location {
            Some(location) => location.path.clone(),
            None => match &self.object {
                Object::Socket(socket) => {
                    let number = socket.options().number.load(Ordering::Relaxed);
                    alloc::format!("socket:[{number}]").into_bytes()
                }
                Object::MessageQueue(queue) => queue.path(),
                object => object.label().as_bytes().to_vec(),
            },
        }
    }

    /// Access mode and status flags (F_GETFL).
    pub fn flags(&self) -> u32 {
        self.flags.load(Ordering::Acquire)
    }

    /// Sets the status flags (F_SETFL); the rest stays.
    pub fn set_flags(&self, flags: u32) {
        let keep = self.flags() & !STATUS_FLAGS;
        self.flags.store(keep | flags & STATUS_FLAGS, Ordering::Release);
    }

    /// Sets or clears some status flags.
    pub fn change_flags(&self, which: u32, on: bool) {
        let flags = self.flags() & !which;
        self.set_flags(if on { flags | which } else { flags });
    }

    /// Returns whether O_NONBLOCK is set.
    pub fn is_nonblocking(&self) -> bool {
        self.flags() & raw::O_NONBLOCK != 0
    }

    /// Returns whether O_SYNC or O_DSYNC is set: a write is answered when it is durable.
    pub fn is_durable(&self) -> bool {
        self.flags() & raw::O_DSYNC != 0
    }

    /// Returns whether a write must find the end first, or is durable.
    pub fn has_slow_writes(&self) -> bool {
        self.flags() & (raw::O_APPEND | raw::O_DSYNC) != 0
    }

    /// Returns whether O_DIRECT may be set.
    pub fn may_be_direct(&self) -> bool {
        may_be_direct(&self.object, self.location.as_ref())
    }

    /// Returns whether reads and writes go past the cache: with O_DIRECT, unless its file system is known to have no
    /// device.
    pub fn is_direct(&self) -> bool {
        self.flags() & raw::O_DIRECT != 0 && !self.direct_offer.is_refused()
    }

    /// Returns whether O_APPEND is set.
    pub fn appends(&self) -> bool {
        self.flags() & raw::O_APPEND != 0
    }

    /// Returns whether O_PATH is set: it is a name without contents.
    pub fn is_path_only(&self) -> bool {
        self.flags() & raw::O_PATH != 0
    }

    /// Returns whether it may be read.
    pub fn is_readable(&self) -> bool {
        !self.is_path_only() && self.flags() & raw::O_ACCMODE != raw::O_WRONLY
    }

    /// Returns whether it may be written.
    pub fn is_writable(&self) -> bool {
        !self.is_path_only() && self.flags() & raw::O_ACCMODE != raw::O_RDONLY
    }

    /// Returns its readiness now; objects without a readiness are always ready.
    pub fn ready(&self) -> Ready {
        self.ready_within(&mut Looks::new())
    }

    /// Returns its readiness as [`OpenFile::ready`] does; a list counts as ready if `looks` do not suffice to know.
    // recursion: at most 5 lists, because epoll_ctl refuses deeper nests (NESTING_MAX)
    pub(super) fn ready_within(&self, looks: &mut Looks) -> Ready {
        match self.object.readiness() {
            Some(readiness) => {
                self.object.refresh(looks);
                readiness.now()
            }
            None => Ready::READ | Ready::WRITE,
        }
    }

    /// Returns its readiness now; a socket gets another one when it connects.
    pub fn readiness(&self) -> Option<Arc<Readiness>> {
        self.object.readiness()
    }

    /// Tells the watches on the file or its directory of an event.
    pub fn tell(&self, event: u32) {
        if let Some(location) = &self.location {
            let bit = if matches!(self.object, Object::Directory) { raw::IN_ISDIR } else { 0 };
            self.tenant.notices.about(location.place.key(), &location.path, event | bit);
        }
    }

    /// Lets go of a use of it. If that was the last one, its resource has closed it when this is done: a port is free then.
    pub async fn release(self: Arc<Self>) {
        if Arc::strong_count(&self) == 1
            && let Object::Socket(socket) = &self.object
            && !self.closed.swap(true, Ordering::AcqRel)
        {
            socket.close_and_wait().await;
        }
    }

    /// Lets go of a use of it by a process that a failure of the kernel ended. The failed work may hold it for ever; a socket is closed all the
    /// same if nobody else can use it: its port is free when this is done, and its peer sees the end.
    pub(super) async fn give_up(self: Arc<Self>, in_flight: &FilesInFlight) {
        match &self.object {
            Object::Socket(socket) if !self.has_descriptor() && !in_flight.have(&self) => {
                self.closed.store(true, Ordering::Release);
                socket.close_and_wait().await;
            }
            _ => self.release().await,
        }
    }

    /// Returns whether a process has a descriptor of it.
    pub(super) fn has_descriptor(&self) -> bool {
        self.descriptors.load(Ordering::Relaxed) != 0
    }

    /// Works with the watchers that are told when it is closed.
    pub(super) fn watch<T>(&self, work: impl FnOnce(&mut Watchers) -> T) -> T {
        work(&mut self.watchers.lock())
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        let mut watchers = core::mem::take(&mut *self.watchers.lock());
        if !watchers.is_empty() {
            watchers.file_closed(self.object.readiness());
            while watchers.is_short() && watchers.take_piece() {}
            if !watchers.is_empty() {
                self.tenant.leave_behind(Remain::Watchers(watchers));
            }
        }
        self.ownership.close(|| self.object.readiness());
        if !self.is_path_only() {
            self.tell(if self.is_writable() { raw::IN_CLOSE_WRITE } else { raw::IN_CLOSE_NOWRITE });
        }
        let owner = super::locks::Owner::of_description(self);
        if let Some(place) = self.place() {
            self.tenant.locks.release_owner(place.key(), owner);
        }
        let place = self.location.as_ref().map(|location| location.place.clone());
        if !self.closed.load(Ordering::Acquire) {
            self.object.close(&self.tenant, place, self.is_path_only());
        }
    }
}
