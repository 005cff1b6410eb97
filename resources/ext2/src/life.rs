//! The life of open files and of the mount: opening and closing, making durable, cleaning up in the background,
//! unmounting.
//!
//! A node lives while it has a name or is open; the last close of a nameless one dooms it, and a commit frees it.
//! Dirty data reaches the disk by age ([`Ext2::maintain`]), by limit (`write.rs`), and by a sync. The background
//! works in the name of the activities that made things dirty; work that they did not get done is done by the
//! infrastructure.
//!
//! Called by the server of requests, the assembly (`maintain`, `unmount`) and reclaim. An unmounted file system is
//! marked clean and refuses changes.

use crate::Ext2;
use crate::change::now_ns;
use crate::metadata::from_block;
use crate::node::Node;
use crate::tables::Mark;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use gyre_account::ActivityId;
use gyre_interface::block::BlockError;
use gyre_interface::files::*;
use gyre_message::{sleep_ns, spawn_on};

/// Most commits in a row that `sync_all` and `unmount` need: each writes the changes that the one before has made by
/// freeing.
const COMMITS_MAX: usize = 8;
/// Ages after which the infrastructure cleans up for others.
const OVERDUE_AGES: u64 = 4;

/// Times that one request waits for room: others may take the room that was made for it.
const WAITS_MAX: u32 = 32;

impl Ext2 {
    /// Does work that needs space; if there is none, repeats it after freed space has become usable.
    pub(crate) async fn with_space<T>(
        &'static self,
        act: impl AsyncFn() -> Result<T, FileError>,
    ) -> Result<T, FileError> {
        let result = self.with_room(&act).await;
        if !matches!(result, Err(FileError::NoSpace)) || !self.has_freed() {
            return result;
        }
        self.commit().await?;
        act().await
    }

    /// Does work that may find no room in the cache, for contents or for blocks of metadata, until it has found some. The caller holds no lock.
    pub(crate) async fn with_room<T>(&self, act: impl AsyncFn() -> Result<T, FileError>) -> Result<T, FileError> {
        let mut waits = 0;
        loop {
            match act().await {
                Err(FileError::OutOfMemory) => self.wait_for_room(&mut waits).await?,
                result => return result,
            }
        }
    }

    /// Waits for room in the cache, a few times; the caller holds no lock.
    pub(crate) async fn wait_for_room(&self, waits: &mut u32) -> Result<(), FileError> {
        *waits = waits.saturating_add(1);
        if *waits > WAITS_MAX {
            return Err(FileError::OutOfMemory);
        }
        self.cache.wait_for_room(waits.saturating_sub(1)).await.map_err(|_| FileError::OutOfMemory)
    }

    /// Returns a node like [`Ext2::node`], but waits for room if its inode has to come from the disk. The caller holds
    /// no lock.
    pub(crate) async fn node_to_use(&'static self, id: NodeId) -> Result<Arc<Node>, FileError> {
        match self.node(id).await {
            Err(FileError::OutOfMemory) => Box::pin(self.with_room(async || self.node(id).await)).await,
            result => result,
        }
    }

    fn has_freed(&self) -> bool {
        let allocator = self.allocator.lock();
        !allocator.freed.is_empty() || !allocator.doomed.is_empty()
    }

    pub(crate) async fn open_node(&'static self, id: NodeId) -> Result<Attributes, FileError> {
        let node = self.node_to_use(id).await?;
        {
            let mut state = node.state.lock();
            if state.deleted && state.opens == 0 {
                return Err(FileError::Stale);
            }
            state.opens = state.opens.checked_add(1).ok_or(FileError::TooMuch)?;
        }
        Ok(node.attributes())
    }

    pub(crate) async fn close_node(&'static self, id: NodeId) -> Result<(), FileError> {
        let node = self.near_node(id, |node| Ok(node.clone())).ok_or(FileError::Stale)??;
        let unused = {
            let mut state = node.state.lock();
            if state.opens == 0 {
                return Err(FileError::Invalid);
            }
            state.opens = state.opens.saturating_sub(1);
            state.opens == 0 && state.deleted
        };
        if unused {
            self.doom(node);
        }
        Ok(())
    }

    pub(crate) async fn change_attributes(
        &'static self,
        id: NodeId,
        change: AttributeChange,
    ) -> Result<Attributes, FileError> {
        self.writable()?;
        let node = self.node(id).await?;
        if change.size_bytes.is_some() {
            node.expect(NodeKind::File)?;
        }
        // Held to the end, so that the node is not freed meanwhile.
        let _guard = if change.size_bytes.is_some() { node.to_change().await? } else { node.to_read().await? };
        if let Some(size) = change.size_bytes {
            self.resize(&node, size).await?;
        }
        let now = now_ns();
        self.change(&node, |inode| {
            inode.permissions = change.mode.map_or(inode.permissions, |mode| mode & 0xfff);
            inode.user = change.user.unwrap_or(inode.user);
            inode.group = change.group.unwrap_or(inode.group);
            inode.accessed_ns = change.accessed_ns.unwrap_or(inode.accessed_ns);
            inode.modified_ns = change.modified_ns.unwrap_or(inode.modified_ns);
            inode.changed_ns = now;
        });
        Ok(node.attributes())
    }

    /// Makes a node's contents durable, and the names and inodes that lead there.
    pub(crate) async fn sync_node(&'static self, id: NodeId) -> Result<(), FileError> {
        let node = self.node(id).await?;
        if node.kind == NodeKind::File {
            self.write_back_all(node.id).await?;
        }
        self.commit().await?;
        node.losses.tell()
    }

    /// Makes everything durable, and tells once if contents were lost since the last call (syncfs since Linux 5.8).
    pub(crate) async fn sync_everything(&'static self) -> Result<(), FileError> {
        self.make_durable().await?;
        if self.write_failed.swap(false, Ordering::AcqRel) { Err(FileError::Io) } else { Ok(()) }
    }

    /// Makes everything durable.
    async fn make_durable(&'static self) -> Result<(), FileError> {
        let result = self.write_back_files(&self.cache.dirty_nodes(self.file_system)).await;
        for _ in 0..COMMITS_MAX {
            self.commit().await?;
            if !self.has_changes() {
                break;
            }
        }
        if self.counts_stale.load(Ordering::Acquire) {
            self.write_counts().await?;
            self.disk.flush().await.map_err(from_block)?;
        }
        result
    }

    /// Writes back old dirty data for ever, as a task of the infrastructure, in the name of the activities that made
    /// it dirty. Sleeps without a timer while nothing is dirty. Ends when others than the tenant are kept out.
    pub async fn maintain(&'static self) {
        loop {
            self.metadata_changed.until(|| self.has_changes().then_some(())).await;
            sleep_ns(self.age_ns).await;
            let Some(_visit) = self.enter() else { return };
            self.clean_in_their_names(self.time_ago(self.age_ns / 2));
            self.clean_overdue(self.time_ago(self.age_ns.saturating_mul(OVERDUE_AGES))).await;
            if self.read_only.load(Ordering::Relaxed) {
                return;
            }
        }
    }

    fn time_ago(&self, ns: u64) -> u64 {
        gyre_machine::now().saturating_sub((ns / 1_000_000).saturating_mul(gyre_machine::cycles_per_ms()))
    }

    /// Starts tasks of the activities that made something dirty before that time.
    fn clean_in_their_names(&'static self, before_cycles: u64) {
        for activity in self.cache.dirty_activities(self.file_system) {
            let nodes = self.cache.aged_nodes(self.file_system, activity, before_cycles);
            in_name_of(activity, move || async move {
                // A failure is kept with the node for the next sync.
                let _ = self.write_back_files(&nodes).await;
            });
        }
        let payer = self.metadata.lock().since.map(|(_, activity)| activity);
        if let Some(activity) = payer {
            in_name_of(activity, move || async move {
                // A failure makes the file system read-only and is logged there.
                if self.commit().await.is_ok() {
                    let _ = self.write_counts().await;
                }
            });
        }
    }

    /// Writes back data whose own activity has not done it: it has ended, or gets too little time.
    async fn clean_overdue(&'static self, before_cycles: u64) {
        for activity in self.cache.dirty_activities(self.file_system) {
            let nodes = self.cache.aged_nodes(self.file_system, activity, before_cycles);
            let _ = self.write_back_files(&nodes).await;
        }
        let since = self.metadata.lock().since;
        if since.is_some_and(|(since, _)| since <= before_cycles) {
            let _ = self.commit().await;
            let _ = self.write_counts().await;
        }
    }

    /// Refuses further changes, makes everything durable and says on the disk that it was unmounted in order.
    ///
    /// # Errors
    /// Errors of the device; the file system stays read-only.
    pub async fn unmount(&'static self) -> Result<(), FileError> {
        if self.read_only.swap(true, Ordering::AcqRel) {
            // Never written to, or unmounted before; or a failure made it so, and then the disk says that it is in use.
            return if self.marked_unclean.load(Ordering::Acquire) { Err(FileError::Io) } else { Ok(()) };
        }
        self.doom_nameless();
        for _ in 0..COMMITS_MAX {
            self.make_durable().await?;
            // While this holds the lock no other commit can mark the file system as in use; earlier work is written
            // first.
            let _guard = self.commit_lock.exclusive().await;
            if self.has_changes() || self.counts_stale.load(Ordering::Acquire) {
                continue;
            }
            self.unmounted.store(true, Ordering::Release);
            if self.marked_unclean.load(Ordering::Acquire) {
                self.write_superblock(Mark::Clean).await?;
                self.disk.flush().await.map_err(from_block)?;
                self.marked_unclean.store(false, Ordering::Release);
            }
            return Ok(());
        }
        Err(FileError::Io)
    }

    /// Drops the names and nodes that it remembers, and its pages in the cache: it is unmounted, and nobody has a file open.
    pub async fn forget_all(&self) {
        self.names.forget_all();
        self.nodes.remove_all(|_, _| true);
        for part in 0..self.cache.parts() {
            self.cache.evict_file_system(self.file_system, part);
            gyre_message::yield_now().await;
        }
    }

    /// Dooms nodes without names that are still open: they end with the file system, since they could never be found
    /// afterwards.
    fn doom_nameless(&self) {
        let mut nameless = Vec::new();
        self.nodes.remove_all(|_, node| {
            let mut state = node.state.lock();
            if state.deleted && core::mem::take(&mut state.opens) > 0 {
                nameless.push(node.clone());
            }
            false
        });
        nameless.into_iter().for_each(|node| self.doom(node));
    }

    /// Requests that the disk has not carried out: files and tables that could not be read or written.
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Returns whether nothing can be changed: it was mounted so, or a failure of the disk has made it so.
    pub fn is_read_only(&self) -> bool {
        self.read_only.load(Ordering::Relaxed)
    }

    /// Returns the file error of a block error; counts errors of the disk itself.
    pub(crate) fn failed(&self, error: BlockError) -> FileError {
        if error == BlockError::Io {
            self.failures.fetch_add(1, Ordering::Relaxed);
        }
        from_block(error)
    }

    pub(crate) fn statistics_now(&self) -> FileSystemStatistics {
        let (blocks_free, inodes_free) = self.free_counts();
        FileSystemStatistics {
            block_bytes: self.geometry.block_bytes as u32,
            blocks: u64::from(self.geometry.data_blocks()),
            blocks_free: u64::from(blocks_free),
            nodes: u64::from(self.geometry.inodes),
            nodes_free: u64::from(inodes_free),
            magic: u64::from(crate::geometry::MAGIC),
        }
    }
}

/// Starts a task of `activity` on this core.
fn in_name_of<F: Future<Output = ()> + 'static>(activity: ActivityId, task: impl FnOnce() -> F + Send + 'static) {
    spawn_on(gyre_machine::core_index(), activity, Box::new(move || Box::pin(task())));
}
