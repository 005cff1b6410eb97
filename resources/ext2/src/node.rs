//! Inodes in memory, shared by all tasks that use them.
//!
//! States of a node's life: named; nameless but open (`nameless` or `deleted` with `opens`); doomed (neither named
//! nor open: the next commit frees it); reaping (the commit takes its blocks); gone. `fresh` says that the table's
//! place on the disk still holds an older inode.
//!
//! Locks: `lock` (held across waits) for contents and names, `state` (short) for the inode's fields. The atomic
//! copies are for readers without these; they check the version of `lock`. A node stays in memory while it is open,
//! dirty or in use ([`Node::may_go`]).

use crate::Ext2;
use crate::geometry::ROOT;
use crate::index::Index;
use crate::inode::Inode;
use crate::lock::{AsyncRwLock, LockGuard};
use crate::losses::Losses;
use alloc::boxed::Box;
use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use gyre_interface::begun::{Held, Hold};
use gyre_interface::files::{Attributes, FileError, NodeId, NodeKind};
use gyre_object::TenantLock;

/// Returns the name of a node for others: its number, which is used again soon, in the low half, and its generation
/// in the high half. The root keeps its number for ever.
pub(crate) fn name_of(id: u64, generation: u32) -> NodeId {
    if id == ROOT { NodeId(ROOT) } else { NodeId(u64::from(generation) << 32 | id) }
}

/// Returns the number in a name.
pub(crate) fn number_of(name: NodeId) -> u64 {
    name.0 & u64::from(u32::MAX)
}

/// The changing part of a node.
pub(crate) struct State {
    pub(crate) inode: Inode,
    /// How often it is open.
    pub(crate) opens: u32,
    /// No name leads here any more (`links` is 0), or the directory was removed.
    pub(crate) deleted: bool,
    /// The inode differs from the one in the table's block.
    pub(crate) dirty: bool,
    /// True while the table's place holds an older inode: it is cleared first.
    pub(crate) fresh: bool,
}

/// A file, directory or other node.
pub(crate) struct Node {
    /// The inode's number.
    pub(crate) id: u64,
    /// Its name for others: see [`name_of`].
    pub(crate) name: NodeId,
    pub(crate) kind: NodeKind,
    /// Held while contents are read from the disk (shared) or changed (exclusive).
    pub(crate) lock: AsyncRwLock,
    pub(crate) state: TenantLock<State>,
    /// For a large directory: the index of its names.
    pub(crate) index: TenantLock<Option<Index>>,
    /// Copy of the size for lock-free readers, who check it with the lock's version.
    pub(crate) size_now: AtomicU64,
    /// True if it has no name and is not open: the next commit frees it.
    pub(crate) doomed: AtomicBool,
    /// Made without a name, and none was given to it yet.
    pub(crate) nameless: AtomicBool,
    /// Blocks behind the end are still to be freed.
    pub(crate) trim: AtomicBool,
    /// True while the reaper frees its blocks.
    pub(crate) reaping: AtomicBool,
    pub(crate) me: Weak<Node>,
    /// Contents that no write-back could bring to the disk.
    pub(crate) losses: Losses,
}

impl Node {
    pub(crate) fn new(id: u64, inode: Inode) -> Arc<Node> {
        Arc::new_cyclic(|me| Node {
            me: me.clone(),
            trim: AtomicBool::new(false),
            size_now: AtomicU64::new(inode.size),
            doomed: AtomicBool::new(false),
            nameless: AtomicBool::new(false),
            reaping: AtomicBool::new(false),
            id,
            name: name_of(id, inode.generation),
            kind: inode.kind,
            lock: AsyncRwLock::default(),
            state: TenantLock::new(State { inode, opens: 0, deleted: false, dirty: false, fresh: false }),
            index: TenantLock::default(),
            losses: Losses::default(),
        })
    }

    pub(crate) fn attributes(&self) -> Attributes {
        self.attributes_in(&self.state.lock())
    }

    /// Returns its attributes; the caller holds the lock of the state.
    pub(crate) fn attributes_in(&self, state: &State) -> Attributes {
        let inode = &state.inode;
        let is_device = matches!(self.kind, NodeKind::CharacterDevice | NodeKind::BlockDevice);
        Attributes {
            node: self.name,
            number: self.id,
            kind: self.kind,
            mode: inode.permissions,
            links: u32::from(inode.links),
            user: inode.user,
            group: inode.group,
            size_bytes: inode.size,
            blocks_512: u64::from(inode.sectors),
            device: if is_device { inode.device() } else { 0 },
            accessed_ns: inode.accessed_ns,
            modified_ns: inode.modified_ns,
            changed_ns: inode.changed_ns,
            losses: self.losses.told(),
        }
    }

    /// Waits for the right to read its contents.
    ///
    /// # Errors
    /// [`FileError::Stale`] if it was freed meanwhile: its number may be another node's.
    pub(crate) async fn to_read(&self) -> Result<LockGuard<'_>, FileError> {
        let guard = self.lock.shared().await;
        self.in_use().map(|()| guard)
    }

    /// Returns the right to read it, if it is free at once, for a holder that cannot keep a guard.
    pub(crate) fn hold(node: &Arc<Node>) -> Option<Held> {
        let guard = node.lock.try_shared()?;
        node.in_use().ok()?;
        guard.keep();
        Some(Held::new(node.clone()))
    }

    /// Waits for the right to change it.
    ///
    /// # Errors
    /// [`FileError::Stale`] if it is gone.
    pub(crate) async fn to_change(&self) -> Result<LockGuard<'_>, FileError> {
        let guard = self.lock.exclusive().await;
        self.in_use().map(|()| guard)
    }

    /// Refuses a node that is being freed or was.
    pub(crate) fn in_use(&self) -> Result<(), FileError> {
        if self.reaping.load(Ordering::Acquire) { Err(FileError::Stale) } else { Ok(()) }
    }

    /// Returns false if a crash cannot bring it back: without names and users, and its inode was never written or is
    /// being cleared.
    pub(crate) fn may_be_found(&self) -> bool {
        let state = self.state.lock();
        let is_gone = state.deleted && state.opens == 0;
        !is_gone || !state.fresh && !self.reaping.load(Ordering::Acquire)
    }

    pub(crate) fn size(&self) -> u64 {
        self.state.lock().inode.size
    }

    /// Returns whether it may be forgotten: it is not in use, and the disk's copy is as good.
    pub(crate) fn may_go(node: &Arc<Node>) -> bool {
        if Arc::strong_count(node) > 1 {
            return false;
        }
        let state = node.state.lock();
        state.opens == 0 && !state.dirty && !state.deleted && !node.trim.load(Ordering::Acquire)
    }

    pub(crate) fn expect(&self, kind: NodeKind) -> Result<(), FileError> {
        match (kind, self.kind) {
            _ if kind == self.kind => Ok(()),
            (NodeKind::Directory, _) => Err(FileError::NotDirectory),
            (_, NodeKind::Directory) => Err(FileError::IsDirectory),
            _ => Err(FileError::Invalid),
        }
    }
}

impl Hold for Node {
    fn let_go(&self) {
        self.lock.give_back_shared();
    }
}

impl Ext2 {
    /// Returns the node that others call so: the only way from their names to nodes, but for [`Ext2::near_node`].
    pub(crate) async fn node(&'static self, name: NodeId) -> Result<Arc<Node>, FileError> {
        let node = self.numbered(number_of(name)).await?;
        if node.name == name { Ok(node) } else { Err(FileError::Stale) }
    }

    /// Looks at a node in memory, without waiting; it may be nameless and closed.
    pub(crate) fn near_node<T>(
        &self,
        name: NodeId,
        look: impl FnOnce(&Arc<Node>) -> Result<T, FileError>,
    ) -> Option<Result<T, FileError>> {
        let look = |node: &mut Arc<Node>| if node.name == name { look(node) } else { Err(FileError::Stale) };
        self.nodes.with(&number_of(name), |node, _| look(node))
    }

    /// Returns the node with an inode, read from the disk if it is not in memory. Nodes without names are found only while they are open.
    pub(crate) async fn numbered(&'static self, id: u64) -> Result<Arc<Node>, FileError> {
        match self.nodes.get(&id) {
            Some(node) => living(node),
            None => Box::pin(self.load_node(id)).await,
        }
    }

    async fn load_node(&'static self, id: u64) -> Result<Arc<Node>, FileError> {
        let (block, offset) =
            self.geometry.inode_place(id).filter(|_| self.geometry.is_usable_inode(id)).ok_or(FileError::Damaged)?;
        let page = self.block(block).await?;
        let account = self.nodes.account();
        if !self.nodes.make_room(&account, &Node::may_go) {
            return Err(FileError::OutOfMemory);
        }
        // Decoded under the table's lock: the block holds the newest inode while no node is in memory.
        let decode = || {
            let mut raw = [0; 1024];
            let raw = raw.get_mut(..self.geometry.inode_bytes.min(1024)).unwrap_or(&mut []);
            page.read(offset, raw);
            match Inode::decode(raw) {
                // So that sums of places in it are none that could fail.
                Ok(inode) if inode.size > self.size_max() => (None, Err(FileError::Damaged)),
                Ok(inode) => {
                    let node = Node::new(id, inode);
                    (Some(node.clone()), Ok(node))
                }
                Err(error) => (None, Err(error)),
            }
        };
        self.nodes.with_or_add(id, account, |node| Ok(node.clone()), decode).and_then(living)
    }

    /// Returns the directory with an inode.
    pub(crate) async fn numbered_directory(&'static self, id: u64) -> Result<Arc<Node>, FileError> {
        let node = self.numbered(id).await?;
        node.expect(NodeKind::Directory)?;
        Ok(node)
    }

    /// Returns the node as a directory.
    pub(crate) async fn directory(&'static self, id: NodeId) -> Result<Arc<Node>, FileError> {
        let node = self.node(id).await?;
        node.expect(NodeKind::Directory)?;
        Ok(node)
    }
}

fn living(node: Arc<Node>) -> Result<Arc<Node>, FileError> {
    let state = node.state.lock();
    let gone = state.deleted && state.opens == 0;
    drop(state);
    if gone { Err(FileError::Stale) } else { Ok(node) }
}
