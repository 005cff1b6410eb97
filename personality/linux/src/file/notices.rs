//! Who of a tenant wants to be told of changes of files, and telling them (inotify(7)).
//!
//! The calls tell what they did: [`Notices::entry`] of names in directories, [`Notices::about`] of nodes, whose directory hears of it too.
//! A directory is found by the path that a file was opened by; a file that was moved while open is still told of by its old name.

use super::inotify::{Event, Queue};
use crate::Errno;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use gyre_interface::files::NodeId;
use gyre_object::TenantLock;
use linux_raw_sys::general as raw;

/// A node: the number of its mount and its own.
pub type Key = (u32, NodeId);

/// Descriptors of a user (Linux: /proc/sys/fs/inotify/max_user_instances).
const QUEUES_MAX: usize = 128;
/// Watches of a user (max_user_watches).
const WATCHES_MAX: usize = 8192;
/// Events of a node itself; Linux never says of them that it is a directory.
const OF_ITSELF: u32 = raw::IN_DELETE_SELF | raw::IN_MOVE_SELF;

struct Watch {
    queue: Arc<Queue>,
    number: i32,
    mask: u32,
}

struct Watched {
    /// The path, where it is a directory.
    path: Option<Vec<u8>>,
    watches: Vec<Watch>,
}

#[derive(Clone, Copy, Default)]
struct Used {
    queues: usize,
    watches: usize,
}

#[derive(Default)]
struct Table {
    nodes: BTreeMap<Key, Watched>,
    directories: BTreeMap<Vec<u8>, Key>,
    users: BTreeMap<u32, Used>,
}

/// The watches of a tenant.
#[derive(Default)]
pub struct Notices {
    table: TenantLock<Table>,
    /// Nodes that are watched: where there are none, telling costs one look.
    watched: AtomicUsize,
    cookies: AtomicU32,
}

impl Notices {
    /// Counts a new descriptor of a user.
    pub(super) fn open(&self, user: u32) -> Result<(), Errno> {
        let mut table = self.table.lock();
        let used = table.users.entry(user).or_default();
        if used.queues >= QUEUES_MAX {
            return Err(Errno::EMFILE);
        }
        used.queues = used.queues.saturating_add(1);
        Ok(())
    }

    /// Ends a descriptor with all its watches.
    pub(super) fn close(&self, queue: &Arc<Queue>) {
        let mut table = self.table.lock();
        for node in queue.nodes() {
            table.remove(node, |watch| Arc::ptr_eq(&watch.queue, queue));
        }
        if let Some(used) = table.users.get_mut(&queue.user) {
            used.queues = used.queues.saturating_sub(1);
        }
        self.count(&table);
    }

    fn count(&self, table: &Table) {
        self.watched.store(table.nodes.len(), Ordering::Release);
    }

    /// Watches a node, or changes what its watch wants; answers the watch's number. `path` is that of a directory.
    ///
    /// # Errors
    /// EEXIST with IN_MASK_CREATE; ENOSPC beyond the user's limit.
    pub fn watch(&self, queue: &Arc<Queue>, node: Key, path: Option<Vec<u8>>, mask: u32) -> Result<i32, Errno> {
        let mut guard = self.table.lock();
        let table = &mut *guard;
        let wanted = mask & (raw::IN_ALL_EVENTS | raw::IN_ONESHOT | raw::IN_EXCL_UNLINK);
        let known = table.nodes.get_mut(&node).map(|watched| watched.watches.iter_mut());
        if let Some(watch) = known.into_iter().flatten().find(|watch| Arc::ptr_eq(&watch.queue, queue)) {
            if mask & raw::IN_MASK_CREATE != 0 {
                return Err(Errno::EEXIST);
            }
            watch.mask = if mask & raw::IN_MASK_ADD != 0 { watch.mask | wanted } else { wanted };
            return Ok(watch.number);
        }
        let used = table.users.entry(queue.user).or_default();
        if used.watches >= WATCHES_MAX {
            return Err(Errno::ENOSPC);
        }
        used.watches = used.watches.saturating_add(1);
        let number = queue.number(node);
        if let Some(path) = &path {
            table.directories.insert(path.clone(), node);
        }
        let watched = table.nodes.entry(node).or_insert(Watched { path, watches: Vec::new() });
        watched.watches.push(Watch { queue: queue.clone(), number, mask: wanted });
        self.count(table);
        Ok(number)
    }

    /// Ends a watch, which its reader is told.
    ///
    /// # Errors
    /// EINVAL for a number that is not one.
    pub fn forget(&self, queue: &Arc<Queue>, number: i32) -> Result<(), Errno> {
        let mut table = self.table.lock();
        let node = queue.forget(number).ok_or(Errno::EINVAL)?;
        table.remove(node, |watch| Arc::ptr_eq(&watch.queue, queue)).iter().for_each(Watch::ignored);
        self.count(&table);
        Ok(())
    }

    /// What will connect the two ends of a move.
    pub fn cookie(&self) -> u32 {
        self.cookies.fetch_add(1, Ordering::Relaxed).wrapping_add(1).max(1)
    }

    fn is_idle(&self) -> bool {
        self.watched.load(Ordering::Acquire) == 0
    }

    /// A name in a directory came, went or moved.
    pub fn entry(&self, directory: Key, name: &[u8], mask: u32, cookie: u32) {
        if !self.is_idle() {
            self.tell(directory, name, mask, cookie);
        }
    }

    /// Something happened to a node that has a path; its directory hears of it first.
    pub fn about(&self, node: Key, path: &[u8], mask: u32) {
        if self.is_idle() {
            return;
        }
        if let Some((directory, name)) = split(path) {
            let parent = self.table.lock().directories.get(directory).copied();
            if let Some(parent) = parent {
                self.tell(parent, name, mask, 0);
            }
        }
        self.tell(node, b"", mask, 0);
    }

    /// Something happened to a node, of which its directory does not hear.
    pub fn node(&self, node: Key, mask: u32) {
        self.entry(node, b"", mask, 0);
    }

    /// A node has lost a name; with its last one it is gone, and its watches with it.
    pub fn unlinked(&self, node: Key, is_directory: bool, is_last: bool) {
        if self.is_idle() {
            return;
        }
        if !is_directory {
            // The count of its links is an attribute.
            self.tell(node, b"", raw::IN_ATTRIB, 0);
        }
        if !is_last {
            return;
        }
        self.tell(node, b"", raw::IN_DELETE_SELF, 0);
        let mut table = self.table.lock();
        let gone = table.remove(node, |_| true);
        gone.iter().for_each(Watch::ignored);
        self.count(&table);
    }

    /// A directory has another path, and all below it.
    pub fn moved(&self, from: &[u8], to: &[u8]) {
        if self.is_idle() {
            return;
        }
        let mut guard = self.table.lock();
        let table = &mut *guard;
        let below = |path: &[u8]| path.strip_prefix(from).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"));
        let moved: Vec<Vec<u8>> = table
            .directories
            .range(from.to_vec()..)
            .map(|(path, _)| path.clone())
            .take_while(|path| path.starts_with(from))
            .filter(|path| below(path))
            .collect();
        for path in moved {
            let new = [to, path.get(from.len()..).unwrap_or_default()].concat();
            let Some(node) = table.directories.remove(&path) else { continue };
            if let Some(watched) = table.nodes.get_mut(&node) {
                watched.path = Some(new.clone());
            }
            table.directories.insert(new, node);
        }
    }

    fn tell(&self, node: Key, name: &[u8], mask: u32, cookie: u32) {
        let mut table = self.table.lock();
        let Some(watched) = table.nodes.get(&node) else { return };
        let shown = if mask & OF_ITSELF != 0 { mask & !raw::IN_ISDIR } else { mask };
        let mut spent = Vec::new();
        for watch in watched.watches.iter().filter(|watch| watch.mask & mask & raw::IN_ALL_EVENTS != 0) {
            watch.queue.push(Event { watch: watch.number, mask: shown, cookie, name: name.to_vec() });
            if watch.mask & raw::IN_ONESHOT != 0 {
                spent.push(watch.queue.clone());
            }
        }
        for queue in spent {
            let gone = table.remove(node, |watch| Arc::ptr_eq(&watch.queue, &queue));
            gone.iter().for_each(Watch::ignored);
        }
        self.count(&table);
    }
}

impl Table {
    /// Takes watches of a node away and answers them.
    fn remove(&mut self, node: Key, which: impl Fn(&Watch) -> bool) -> Vec<Watch> {
        let Some(watched) = self.nodes.get_mut(&node) else { return Vec::new() };
        let gone: Vec<Watch> = watched.watches.extract_if(.., |watch| which(watch)).collect();
        for watch in &gone {
            watch.queue.forget(watch.number);
            if let Some(used) = self.users.get_mut(&watch.queue.user) {
                used.watches = used.watches.saturating_sub(1);
            }
        }
        if watched.watches.is_empty() {
            let path = self.nodes.remove(&node).and_then(|watched| watched.path);
            if let Some(path) = path.filter(|path| self.directories.get(path) == Some(&node)) {
                self.directories.remove(&path);
            }
        }
        gone
    }
}

impl Watch {
    fn ignored(&self) {
        self.queue.push(Event { watch: self.number, mask: raw::IN_IGNORED, cookie: 0, name: Vec::new() });
    }
}

/// The directory of a path, and the name in it.
fn split(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = path.iter().rposition(|byte| *byte == b'/')?;
    let (directory, name) = (path.get(..at)?, path.get(at..)?.get(1..)?);
    let directory = if directory.is_empty() { b"/" } else { directory };
    (!name.is_empty()).then_some((directory, name))
}
