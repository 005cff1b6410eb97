//! An open file description: what a descriptor refers to, shared by dup, fork and SCM_RIGHTS (open(2)).

use super::async_lock::AsyncLock;
use super::direct_offer::DirectOffer;
use super::epoll::{Looks, Watchers};
use super::mount::Place;
use super::object::Object;
use super::remains::Remain;
use super::tenant_files::{OpenCount, TenantFiles};
use crate::Errno;
use crate::objects::OPEN_FILES;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use gyre_interface::{Readiness, Ready};
use gyre_object::Counter;
use gyre_object::ObjectLock;
use linux_raw_sys::general as raw;

/// Flags that F_SETFL may change.
pub const STATUS_FLAGS: u32 = raw::O_APPEND | raw::O_NONBLOCK | raw::FASYNC | raw::O_DIRECT | raw::O_NOATIME;

/// Where a file was opened.
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
    /// It is read here and there (POSIX_FADV_RANDOM): nothing is brought that was not asked for.
    pub is_random: AtomicBool,
    /// Whether its file system can do what O_DIRECT asks for.
    pub direct_offer: DirectOffer,
    /// Who gets SIGIO (F_SETOWN); kept and told, SIGIO itself is not sent.
    pub owner: AtomicI32,
    watchers: ObjectLock<Watchers>,
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
    /// A description of `object` with the flags of open(2).
    ///
    /// # Errors
    /// ENFILE where the tenant has too many; EINVAL for O_DIRECT of what has no such way.
    pub fn new(
        tenant: &Arc<TenantFiles>,
        object: Object,
        flags: u32,
        location: Option<Location>,
    ) -> Result<Arc<OpenFile>, Errno> {
        let is_direct = flags & (raw::O_DIRECT | raw::O_PATH) == raw::O_DIRECT;
        if is_direct && !may_be_direct(&object, location.as_ref()) {
            return Err(Errno::EINVAL);
        }
        let count = tenant.count_open()?;
        let kept = STATUS_FLAGS | raw::O_ACCMODE | raw::O_PATH | raw::O_DIRECTORY | raw::O_SYNC;
        Ok(Arc::new(OpenFile {
            object,
            location,
            flags: AtomicU32::new(flags & kept),
            position: AsyncLock::new(0),
            is_random: AtomicBool::new(false),
            direct_offer: DirectOffer::default(),
            owner: AtomicI32::new(0),
            watchers: ObjectLock::default(),
            closed: AtomicBool::new(false),
            tenant: tenant.clone(),
            _count: count,
            _counter: OPEN_FILES.count(),
        }))
    }

    /// What it is.
    pub fn object(&self) -> &Object {
        &self.object
    }

    /// The tenant's files.
    pub fn tenant(&self) -> &Arc<TenantFiles> {
        &self.tenant
    }

    /// The node, where it was opened by name.
    pub fn place(&self) -> Option<&Place> {
        self.location.as_ref().map(|location| &location.place)
    }

    /// Its path, or empty.
    pub fn path(&self) -> &[u8] {
        self.location.as_ref().map_or(&[], |location| &location.path)
    }

    /// How /proc shows it.
    pub fn shown_path(&self) -> Vec<u8> {
        match &self.location {
            Some(location) => location.path.clone(),
            None => self.object.label().as_bytes().to_vec(),
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

    /// True with O_NONBLOCK.
    pub fn is_nonblocking(&self) -> bool {
        self.flags() & raw::O_NONBLOCK != 0
    }

    /// True with O_SYNC or O_DSYNC: a write is answered when it is durable.
    pub fn is_durable(&self) -> bool {
        self.flags() & raw::O_DSYNC != 0
    }

    /// True where a write must find the end first, or is durable.
    pub fn has_slow_writes(&self) -> bool {
        self.flags() & (raw::O_APPEND | raw::O_DSYNC) != 0
    }

    /// True where O_DIRECT may be set.
    pub fn may_be_direct(&self) -> bool {
        may_be_direct(&self.object, self.location.as_ref())
    }

    /// True with O_DIRECT, as long as its file system is not known to have no device: reads and writes go past the cache.
    pub fn is_direct(&self) -> bool {
        self.flags() & raw::O_DIRECT != 0 && !self.direct_offer.is_refused()
    }

    /// True with O_APPEND.
    pub fn appends(&self) -> bool {
        self.flags() & raw::O_APPEND != 0
    }

    /// True with O_PATH: a name without contents.
    pub fn is_path_only(&self) -> bool {
        self.flags() & raw::O_PATH != 0
    }

    /// True where it may be read.
    pub fn is_readable(&self) -> bool {
        !self.is_path_only() && self.flags() & raw::O_ACCMODE != raw::O_WRONLY
    }

    /// True where it may be written.
    pub fn is_writable(&self) -> bool {
        !self.is_path_only() && self.flags() & raw::O_ACCMODE != raw::O_RDONLY
    }

    /// What it is ready for now; things without a readiness are always ready.
    pub fn ready(&self) -> Ready {
        self.ready_within(&mut Looks::new())
    }

    /// As [`OpenFile::ready`]; a list is ready where `looks` do not suffice to know.
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

    /// Its readiness now; a socket gets another one when it connects.
    pub fn readiness(&self) -> Option<Arc<Readiness>> {
        self.object.readiness()
    }

    /// Tells who watches the file or its directory what happened to it.
    pub fn tell(&self, event: u32) {
        if let Some(location) = &self.location {
            let bit = if matches!(self.object, Object::Directory) { raw::IN_ISDIR } else { 0 };
            self.tenant.notices.about(location.place.key(), &location.path, event | bit);
        }
    }

    /// Lets go of a use of it. Where that was the last one, its resource has closed it when this is done: a port is free then.
    pub async fn release(self: Arc<Self>) {
        if Arc::strong_count(&self) == 1
            && let Object::Socket(socket) = &self.object
            && !self.closed.swap(true, Ordering::AcqRel)
        {
            socket.close_and_wait().await;
        }
    }

    /// Works with those who are told when it is closed.
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
