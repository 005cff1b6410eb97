//! Watches of a tenant on changes of files, and notices to them (inotify(7)).
//!
//! The calls tell what they did: [`Notices::entry`] for names in directories, [`Notices::about`] for nodes, which
//! tells their directory, too. A directory is found by the path that a file was opened by; notices of a file that was
//! moved while open still bear its old name.
//!
//! Table: node -> (place if it is a directory, watches). One lock guards it; queues are filled under it, which never
//! waits. A node's watches go with its last name or with their descriptor, whose watches and events go one by one
//! ([`Notices::take_piece`]): no walk is longer than [`NODE_WATCHES_MAX`].

use super::inotify::{Event, Queue};
use super::watched_paths::{PlaceId, WatchedPaths, split};
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
/// Watches of one node: all of them are told of each event, in one piece. Linux has no such limit; a user's descriptors are fewer.
const NODE_WATCHES_MAX: usize = 1024;
/// Events of a node itself; Linux never says of them that it is a directory.
const OF_ITSELF: u32 = raw::IN_DELETE_SELF | raw::IN_MOVE_SELF;

struct Watch {
    queue: Arc<Queue>,
    number: i32,
    mask: u32,
}

#[derive(Default)]
struct Watched {
    /// The place of its path, if it is a directory.
    place: Option<PlaceId>,
    /// By the address of the queue.
    watches: BTreeMap<usize, Watch>,
}

#[derive(Clone, Copy, Default)]
struct Used {
    queues: usize,
    watches: usize,
}

#[derive(Default)]
struct Table {
    nodes: BTreeMap<Key, Watched>,
    paths: WatchedPaths,
    users: BTreeMap<u32, Used>,
}

/// The watches of a tenant.
#[derive(Default)]
pub struct Notices {
    table: TenantLock<Table>,
    /// Nodes that are watched: if there are none, telling costs one look.
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

    /// Ends a descriptor: its user may have another one, with as many watches, at once. Its watches and events are to be taken apart.
    pub(super) fn close(&self, queue: &Queue) {
        let mut table = self.table.lock();
        let watches = queue.close();
        if let Some(used) = table.users.get_mut(&queue.user) {
            used.queues = used.queues.saturating_sub(1);
            used.watches = used.watches.saturating_sub(watches);
        }
    }

    /// Takes a watch, or an event that was not read, of a closed descriptor away; false if there is none.
    pub(super) fn take_piece(&self, queue: &Arc<Queue>) -> bool {
        let mut table = self.table.lock();
        let Some(node) = queue.first_node() else {
            drop(table);
            return queue.drop_event();
        };
        table.remove(node, queue);
        self.count(&table);
        true
    }

    fn count(&self, table: &Table) {
        self.watched.store(table.nodes.len(), Ordering::Release);
    }

    /// Watches a node, or changes the events of its watch; returns the watch's number. `path` is that of a directory.
    ///
    /// # Errors
    /// EEXIST with IN_MASK_CREATE; ENOSPC beyond the user's limit.
    pub fn watch(&self, queue: &Arc<Queue>, node: Key, path: Option<Vec<u8>>, mask: u32) -> Result<i32, Errno> {
        let mut guard = self.table.lock();
        let table = &mut *guard;
        let wanted = mask & (raw::IN_ALL_EVENTS | raw::IN_ONESHOT | raw::IN_EXCL_UNLINK);
        let known = table.nodes.get_mut(&node);
        let others = known.as_ref().map_or(0, |watched| watched.watches.len());
        if let Some(watch) = known.and_then(|watched| watched.watches.get_mut(&name_of(queue))) {
            if mask & raw::IN_MASK_CREATE != 0 {
                return Err(Errno::EEXIST);
            }
            watch.mask = if mask & raw::IN_MASK_ADD != 0 { watch.mask | wanted } else { wanted };
            return Ok(watch.number);
        }
        let used = table.users.entry(queue.user).or_default();
        if used.watches >= WATCHES_MAX || others >= NODE_WATCHES_MAX {
            return Err(Errno::ENOSPC);
        }
        used.watches = used.watches.saturating_add(1);
        let number = queue.number(node);
        let watched = table.nodes.entry(node).or_default();
        if let Some(path) = path {
            let place = table.paths.insert(&path, node);
            let before = watched.place.replace(place).filter(|before| *before != place);
            before.into_iter().for_each(|before| table.paths.remove(before, node));
        }
        watched.watches.insert(name_of(queue), Watch { queue: queue.clone(), number, mask: wanted });
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
        table.remove(node, queue).iter().for_each(Watch::ignored);
        self.count(&table);
        Ok(())
    }

    /// Returns a new number to connect the two ends of a move.
    pub fn cookie(&self) -> u32 {
        self.cookies.fetch_add(1, Ordering::Relaxed).wrapping_add(1).max(1)
    }

    /// Returns how many nodes are watched.
    #[cfg(test)]
    pub(super) fn watched(&self) -> usize {
        self.watched.load(Ordering::Acquire)
    }

    fn is_idle(&self) -> bool {
        self.watched.load(Ordering::Acquire) == 0
    }

    /// Tells that a name in a directory came, went or moved.
    pub fn entry(&self, directory: Key, name: &[u8], mask: u32, cookie: u32) {
        if !self.is_idle() {
            self.tell(directory, name, mask, cookie);
        }
    }

    /// Tells of an event at a node that has a path; its directory hears of it first.
    pub fn about(&self, node: Key, path: &[u8], mask: u32) {
        if self.is_idle() {
            return;
        }
        if let Some((directory, name)) = split(path) {
            let parent = self.table.lock().paths.node(directory);
            if let Some(parent) = parent {
                self.tell(parent, name, mask, 0);
            }
        }
        self.tell(node, b"", mask, 0);
    }

    /// Tells of an event at a node, not to its directory.
    pub fn node(&self, node: Key, mask: u32) {
        self.entry(node, b"", mask, 0);
    }

    /// Tells that a node has lost a name; with its last one it is gone, and its watches with it.
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
        table.remove_all(node).iter().for_each(Watch::ignored);
        self.count(&table);
    }

    /// Notes that a directory has another path, and all below it.
    pub fn moved(&self, from: &[u8], to: &[u8]) {
        if !self.is_idle() {
            self.table.lock().paths.moved(from, to);
        }
    }

    /// Notes that two nodes, of which at least one is a directory, have each other's path.
    pub fn exchanged(&self, one: &[u8], other: &[u8]) {
        if !self.is_idle() {
            self.table.lock().paths.exchanged(one, other);
        }
    }

    fn tell(&self, node: Key, name: &[u8], mask: u32, cookie: u32) {
        let mut table = self.table.lock();
        let Some(watched) = table.nodes.get(&node) else { return };
        let shown = if mask & OF_ITSELF != 0 { mask & !raw::IN_ISDIR } else { mask };
        let mut spent = Vec::new();
        for watch in watched.watches.values().filter(|watch| watch.mask & mask & raw::IN_ALL_EVENTS != 0) {
            watch.queue.push(Event { watch: watch.number, mask: shown, cookie, name: name.to_vec() });
            if watch.mask & raw::IN_ONESHOT != 0 {
                spent.push(watch.queue.clone());
            }
        }
        for queue in spent {
            table.remove(node, &queue).iter().for_each(Watch::ignored);
        }
        self.count(&table);
    }
}

/// Returns the name of a queue in the lists of nodes: they hold it, so no other one has its address.
fn name_of(queue: &Arc<Queue>) -> usize {
    Arc::as_ptr(queue) as usize
}

impl Table {
    /// Takes the watch of a queue on a node away and answers it.
    fn remove(&mut self, node: Key, queue: &Arc<Queue>) -> Option<Watch> {
        let watched = self.nodes.get_mut(&node)?;
        let gone = watched.watches.remove(&name_of(queue));
        if watched.watches.is_empty() {
            self.forget(node);
        }
        gone.iter().for_each(|watch| self.end(watch));
        gone
    }

    /// Takes all watches of a node away and answers them.
    fn remove_all(&mut self, node: Key) -> Vec<Watch> {
        let gone: Vec<Watch> =
            self.forget(node).into_iter().flat_map(|watched| watched.watches.into_values()).collect();
        gone.iter().for_each(|watch| self.end(watch));
        gone
    }

    fn forget(&mut self, node: Key) -> Option<Watched> {
        let watched = self.nodes.remove(&node)?;
        watched.place.into_iter().for_each(|place| self.paths.remove(place, node));
        Some(watched)
    }

    /// Gives the number of a watch back, and its place among its user's, which a closed descriptor has given back already.
    fn end(&mut self, watch: &Watch) {
        if watch.queue.forget(watch.number).is_some()
            && !watch.queue.is_closed()
            && let Some(used) = self.users.get_mut(&watch.queue.user)
        {
            used.watches = used.watches.saturating_sub(1);
        }
    }
}

impl Watch {
    fn ignored(&self) {
        self.queue.push(Event { watch: self.number, mask: raw::IN_IGNORED, cookie: 0, name: Vec::new() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_no_more_watches_than_are_told_in_one_piece() {
        let (notices, node) = (Notices::default(), (0, NodeId(7)));
        let watch = |user: u32| {
            let queue = Queue::new(user);
            notices.watch(&queue, node, None, raw::IN_MODIFY).map(|_| queue)
        };
        let queues: Vec<_> = (0..NODE_WATCHES_MAX as u32).map(|user| watch(user).unwrap()).collect();
        assert_eq!(watch(NODE_WATCHES_MAX as u32).err(), Some(Errno::ENOSPC));
        notices.close(&queues[5]);
        assert!(!notices.take_piece(&queues[5]) || !notices.take_piece(&queues[5]));
        assert!(watch(5).is_ok());
    }
}
