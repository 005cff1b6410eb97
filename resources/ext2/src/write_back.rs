//! Writing dirty pages back: those of many files together, so that small files that lie side by side on the disk go there in one request.
//!
//! * The locks of all nodes are held meanwhile, shared, in the order of their numbers.
//! * Programs lose the right to write a page before it is written ([`gyre_file_cache::FileCache::write_protect`]): what they write later is
//!   told again.
//! * A failure of the device is kept for the next sync of the file, and of the file system.
//! * The activity that made a block's page dirty pays for the block.
//! * [`FileError::OutOfMemory`] says that a block which says where pages lie found no room: nothing is lost, and the caller waits for room
//!   without locks ([`Ext2::with_room`]), or leaves it.

use crate::Ext2;
use crate::map::Blocks;
use crate::node::Node;
use crate::read::{CLUSTER_PAGES, Run, Runs};
use crate::shared::in_name_of;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use gyre_account::ActivityId;
use gyre_file_cache::Writing;
use gyre_interface::files::FileError;
use gyre_object::Bytes;

/// Pages that one write-back takes at once.
pub(crate) const BATCH_PAGES: usize = 16 * CLUSTER_PAGES as usize;
/// Files that one write-back holds at once.
const BATCH_NODES: usize = BATCH_PAGES;

/// A page on its way, and its node: an index among the nodes.
type Taken = (usize, Writing);

/// A block to write.
struct Part {
    block: u32,
    view: Bytes,
    payer: ActivityId,
    owner: usize,
}

impl Ext2 {
    /// Writes back all pages of a node that are dirty now, also those that another task is writing.
    pub(crate) async fn write_back_all(&'static self, id: u64) -> Result<(), FileError> {
        self.write_back_files(&[id]).await
    }

    /// Writes back all dirty pages of many nodes.
    pub(crate) async fn write_back_files(&'static self, ids: &[u64]) -> Result<(), FileError> {
        for ids in ids.chunks(BATCH_NODES) {
            let nodes = self.nodes_with_pages(ids).await?;
            // Writers hold the lock until the device has answered: passing through waits for them.
            for node in &nodes {
                drop(node.lock.exclusive().await);
            }
            while self.write_some_back(&nodes, 0, BATCH_PAGES).await? {}
            for node in &nodes {
                drop(node.lock.exclusive().await);
            }
        }
        Ok(())
    }

    /// Writes pages back that the current activity's payer dirtied first; false if all of them are being written.
    pub(crate) async fn write_oldest_back(&'static self) -> Result<bool, FileError> {
        let ids = self.cache.oldest_dirty_nodes(self.file_system, BATCH_PAGES);
        let nodes = self.nodes_with_pages(&ids).await?;
        self.write_some_back(&nodes, 0, BATCH_PAGES).await
    }

    /// Writes up to `count` dirty pages of a node back, from a page on; false if there are none.
    pub(crate) async fn write_back(&'static self, id: u64, from: u64, count: usize) -> Result<bool, FileError> {
        let nodes = self.nodes_with_pages(&[id]).await?;
        self.write_some_back(&nodes, from, count).await
    }

    /// Writes back up to `count` dirty pages of these nodes, of each from a page on; false if there are none. A
    /// failure of the device is kept for the next sync; the pages count as written, so that they do not fill the
    /// cache for ever.
    ///
    /// The locks of all nodes are held meanwhile, taken in the order of their numbers, so that two such tasks never
    /// wait for each other.
    async fn write_some_back(&'static self, nodes: &[Arc<Node>], from: u64, count: usize) -> Result<bool, FileError> {
        let mut guards = Vec::with_capacity(nodes.len());
        for node in nodes {
            guards.push(node.lock.shared().await);
        }
        self.write_some_held(nodes, from, count).await
    }

    /// Writes back as [`Ext2::write_some_back`] does; the caller holds the locks.
    pub(crate) async fn write_some_held(
        &'static self,
        nodes: &[Arc<Node>],
        from: u64,
        count: usize,
    ) -> Result<bool, FileError> {
        let mut taken: Vec<Taken> = Vec::new();
        for (owner, node) in nodes.iter().enumerate() {
            let indices = self.cache.dirty_pages(self.page_key(node.id, from), count.saturating_sub(taken.len()));
            let writings = indices.iter().filter_map(|index| self.cache.start_writing(self.page_key(node.id, *index)));
            taken.extend(writings.map(|writing| (owner, writing)));
        }
        if taken.is_empty() {
            return Ok(false);
        }
        self.write_taken(nodes, taken).await.map(|()| true)
    }

    /// Writes those of these pages of a node back that are dirty; a failure is kept for the next sync.
    pub(crate) async fn write_pages_back(&'static self, node: &Arc<Node>, pages: &[u64]) -> Result<(), FileError> {
        let _guard = node.lock.shared().await;
        let writings = pages.iter().filter_map(|index| self.cache.start_writing(self.page_key(node.id, *index)));
        let taken: Vec<Taken> = writings.take(BATCH_PAGES).map(|writing| (0, writing)).collect();
        self.write_taken(core::slice::from_ref(node), taken).await
    }

    /// Writes pages that were taken. The caller holds the locks of their nodes.
    async fn write_taken(&'static self, nodes: &[Arc<Node>], taken: Vec<Taken>) -> Result<(), FileError> {
        self.write_protect(nodes, &taken).await;
        let mut parts = self.parts_of(nodes, &taken).await?;
        parts.sort_unstable_by_key(|part| part.block);
        self.send(nodes, parts).await;
        taken.into_iter().for_each(|(_, writing)| writing.done());
        Ok(())
    }

    /// Lets no program write the pages from here on without a word. The pages of a file are together.
    async fn write_protect(&self, nodes: &[Arc<Node>], taken: &[Taken]) {
        for of_file in taken.chunk_by(|(owner, _), (next, _)| owner == next) {
            let node = of_file.first().and_then(|(owner, _)| nodes.get(*owner));
            if let Some(node) = node {
                self.cache.write_protect(node.name, of_file.iter().map(|(_, writing)| writing)).await;
            }
        }
    }

    /// Returns the blocks of pages; of pages that follow each other they are looked up together.
    async fn parts_of(&'static self, nodes: &[Arc<Node>], taken: &[Taken]) -> Result<Vec<Part>, FileError> {
        let mut parts = Vec::with_capacity(taken.len());
        let mut rest = taken;
        while let Some((owner, first)) = rest.first() {
            let Some(node) = nodes.get(*owner) else { break };
            let start = first.key().index;
            let follows = |(other, index): (&Taken, u64)| other.0 == *owner && other.1.key().index == index;
            let count = rest.iter().zip(start..).take_while(|pair| follows(*pair)).count();
            let (together, others) = rest.split_at(count);
            let used = self.blocks_until(start, count, node.size());
            let blocks = match self.map_run(node, self.first_block_of(start), used).await {
                Ok(blocks) => blocks,
                Err(FileError::OutOfMemory) => return Err(FileError::OutOfMemory),
                Err(_) => {
                    // Its owner hears of it; the others' pages must not wait for it.
                    self.note_write_failure(node);
                    Blocks::new()
                }
            };
            let views = together.iter().flat_map(|(_, writing)| {
                let payer = writing.payer();
                self.parts(writing.page()).map(move |view| (view, payer))
            });
            let known = blocks.into_iter().zip(views).filter(|(block, _)| *block != 0);
            parts.extend(known.map(|(block, (view, payer))| Part { block, view, payer, owner: *owner }));
            rest = others;
        }
        Ok(parts)
    }

    /// Sends blocks in the name of the activities that made them dirty, neighbours together, and waits for the
    /// device.
    async fn send(&'static self, nodes: &[Arc<Node>], parts: Vec<Part>) {
        let mut runs = Runs::merged();
        let mut owners: Vec<Vec<usize>> = Vec::new();
        for part in parts {
            runs.add(self.sector(part.block), part.view, part.payer);
            owners.resize_with(runs.0.len(), Vec::new);
            if let Some(owners) = owners.last_mut().filter(|owners| owners.last() != Some(&part.owner)) {
                owners.push(part.owner);
            }
        }
        let start = |run: Run| {
            let call = in_name_of(run.payer, || self.disk.write(run.sector, run.views.clone()));
            (run, call)
        };
        let calls: Vec<_> = runs.0.into_iter().map(start).collect();
        for ((run, call), owners) in calls.into_iter().zip(owners) {
            if call.await.is_ok()
                || self.disk.write(run.sector, run.views).await.map_err(|error| self.failed(error)).is_ok()
            {
                continue;
            }
            owners.iter().filter_map(|owner| nodes.get(*owner)).for_each(|node| self.note_write_failure(node));
        }
    }

    /// Notes that contents are lost: a sync of the file, and one of the file system, tells it.
    fn note_write_failure(&self, node: &Node) {
        node.losses.note();
        self.note_loss();
    }

    /// Notes that contents of some file are lost.
    fn note_loss(&self) {
        if !self.write_failed.swap(true, Ordering::AcqRel) {
            log::error!(
                "ext2 {}: the disk failed to take written data: it may be lost, and the next sync answers EIO",
                self.file_system
            );
        }
    }

    /// Returns the nodes of dirty pages in the order of their numbers, but those to which nothing on the disk leads any more, or ever did.
    async fn nodes_with_pages(&'static self, ids: &[u64]) -> Result<Vec<Arc<Node>>, FileError> {
        let mut nodes: Vec<Arc<Node>> = Vec::with_capacity(ids.len());
        for id in ids {
            // A node without names is on the disk until the commit after next: its blocks there must not show older
            // contents.
            let found = match self.nodes.get(id) {
                Some(node) => Ok(node),
                None => self.numbered(*id).await,
            };
            match found {
                Ok(node) if node.may_be_found() => nodes.push(node),
                Ok(_) | Err(FileError::Stale) => self.cache.forget(self.file_system, *id, 0, u64::MAX),
                Err(error) => return Err(error),
            }
        }
        nodes.sort_unstable_by_key(|node| node.id);
        nodes.dedup_by_key(|node| node.id);
        Ok(nodes)
    }
}
