//! The server of the files protocol.
//!
//! Requests that the caches answer run through without waiting. Work that may wait is boxed: the future of a request
//! stays small, and a miss takes the memory that it needs itself.
//!
//! Each handler takes the node's lock, checks that the node still exists ([`crate::node`]), and calls the module that
//! does the work: names, contents, space, attributes. A read-only or failed file system refuses changes first.
//!
//! To add a request: its method here, its work in the module of its noun. Answers from memory without a message are
//! the near part's ([`crate::near`]), which looks under the same locks.

use crate::Ext2;
use crate::geometry::ROOT;
use crate::names::Known;
use crate::node::Node;
use crate::read::READ_BYTES_MAX;
use crate::wanted::{Beside, Wanted};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};
use gyre_interface::files::files::Server;
use gyre_interface::files::*;
use gyre_machine::PAGE_BYTES;
use gyre_object::{Bytes, Page};

pub(crate) fn check_name(name: &[u8]) -> Result<(), FileError> {
    match name.len() {
        0 => Err(FileError::NotFound),
        1..=NAME_BYTES_MAX if name.iter().any(|byte| matches!(byte, 0 | b'/')) => Err(FileError::Invalid),
        1..=NAME_BYTES_MAX => Ok(()),
        _ => Err(FileError::NameTooLong),
    }
}

impl Server for Ext2 {
    async fn root(&'static self) -> Result<NodeId, FileError> {
        Ok(NodeId(ROOT))
    }

    async fn lookup(&'static self, directory: NodeId, name: Name) -> Result<Attributes, FileError> {
        match self.names.get(directory, &name) {
            Some(Known::Absent) => return Err(FileError::NotFound),
            Some(Known::Node(id)) => {
                if let Some(node) = self.nodes.get(&id) {
                    return Ok(node.attributes());
                }
            }
            None => check_name(&name)?,
        }
        Box::pin(self.with_room(async || self.lookup_missed(directory, &name).await)).await
    }

    async fn attributes(&'static self, node: NodeId) -> Result<Attributes, FileError> {
        Ok(self.node_to_use(node).await?.attributes())
    }

    async fn read_directory(
        &'static self,
        node: NodeId,
        from: u64,
        bytes_max: usize,
    ) -> Result<Vec<DirectoryEntry>, FileError> {
        let read = async || {
            let node = self.directory(node).await?;
            let _guard = node.to_read().await?;
            self.list(&node, from, bytes_max).await
        };
        Box::pin(self.with_room(read)).await
    }

    async fn read_link(&'static self, node: NodeId) -> Result<Vec<u8>, FileError> {
        let node = self.node_to_use(node).await?;
        if node.kind != NodeKind::SymbolicLink {
            return Err(FileError::Invalid);
        }
        Box::pin(self.with_room(async || self.link_target(&node).await)).await
    }

    async fn page(&'static self, node: NodeId, index: u64, pattern: Pattern) -> Result<Page, FileError> {
        let node = self.node_to_use(node).await?;
        node.expect(NodeKind::File)?;
        let page = self.page_at(&node, index, Wanted::of_mapping(index, pattern)).await?;
        self.moved(PAGE_BYTES);
        // It may be lent, or have been lent since it came.
        let mapped = self.cache.map(self.page_key(node.id, index)).map_err(|_| FileError::OutOfMemory)?;
        Ok(mapped.map_or(page, |(mapped, _)| mapped))
    }

    async fn read(&'static self, node: NodeId, offset: u64, bytes: usize) -> Result<Vec<Bytes>, FileError> {
        self.read_pages(node, offset, bytes, true).await
    }

    async fn read_random(&'static self, node: NodeId, offset: u64, bytes: usize) -> Result<Vec<Bytes>, FileError> {
        self.read_pages(node, offset, bytes, false).await
    }

    async fn set_attributes(&'static self, node: NodeId, change: AttributeChange) -> Result<Attributes, FileError> {
        self.throttle_metadata().await?;
        Box::pin(self.with_space(async || self.change_attributes(node, change).await)).await
    }

    async fn create(&'static self, directory: NodeId, name: Name, new: NewNode) -> Result<Attributes, FileError> {
        self.throttle().await?;
        Box::pin(self.with_space(async || self.create_node(directory, &name, &new).await)).await
    }

    async fn link(&'static self, node: NodeId, directory: NodeId, name: Name) -> Result<(), FileError> {
        self.throttle_metadata().await?;
        Box::pin(self.with_space(async || self.link_node(node, directory, &name).await)).await
    }

    async fn unlink(&'static self, directory: NodeId, name: Name) -> Result<(), FileError> {
        self.throttle_metadata().await?;
        Box::pin(self.with_room(async || self.unlink_name(directory, &name).await)).await
    }

    async fn remove_directory(&'static self, directory: NodeId, name: Name) -> Result<(), FileError> {
        self.throttle_metadata().await?;
        Box::pin(self.with_room(async || self.remove_empty(directory, &name).await)).await
    }

    async fn rename(
        &'static self,
        from: NodeId,
        from_name: Name,
        to: NodeId,
        to_name: Name,
        mode: RenameMode,
    ) -> Result<(), FileError> {
        self.throttle_metadata().await?;
        Box::pin(self.with_space(async || self.rename_node(from, &from_name, to, &to_name, mode).await)).await
    }

    async fn create_nameless(&'static self, directory: NodeId, new: NewNode) -> Result<Attributes, FileError> {
        self.throttle().await?;
        Box::pin(self.with_space(async || self.create_without_name(directory, &new).await)).await
    }

    async fn allocate(&'static self, node: NodeId, offset: u64, bytes: u64) -> Result<(), FileError> {
        Box::pin(self.with_space(async || self.allocate_range(node, offset, bytes).await)).await
    }

    async fn punch(&'static self, node: NodeId, offset: u64, bytes: u64) -> Result<(), FileError> {
        Box::pin(self.punch_range(node, offset, bytes)).await
    }

    async fn seek(&'static self, node: NodeId, offset: u64, sought: Sought) -> Result<u64, FileError> {
        Box::pin(self.with_room(async || self.seek_in(node, offset, sought).await)).await
    }

    async fn extended(&'static self, node: NodeId, name: Name) -> Result<Vec<u8>, FileError> {
        Box::pin(self.with_room(async || self.extended_value(node, &name).await)).await
    }

    async fn set_extended(
        &'static self,
        node: NodeId,
        name: Name,
        value: Vec<u8>,
        demand: Presence,
    ) -> Result<(), FileError> {
        self.throttle_metadata().await?;
        Box::pin(self.with_space(async || self.change_extended(node, &name, Some(&value), demand).await)).await
    }

    async fn remove_extended(&'static self, node: NodeId, name: Name) -> Result<(), FileError> {
        let remove = async || self.change_extended(node, &name, None, Presence::Present).await;
        Box::pin(self.with_space(remove)).await
    }

    async fn list_extended(&'static self, node: NodeId) -> Result<Vec<Name>, FileError> {
        Box::pin(self.with_room(async || self.extended_names(node).await)).await
    }

    async fn write_out(&'static self, node: NodeId) -> Result<(), FileError> {
        let node = self.node(node).await?;
        Box::pin(self.write_back_all(node.id)).await
    }

    async fn open(&'static self, node: NodeId) -> Result<Attributes, FileError> {
        self.open_node(node).await
    }

    async fn close(&'static self, node: NodeId) -> Result<(), FileError> {
        self.close_node(node).await
    }

    async fn page_dirtied(&'static self, node: NodeId, index: u64) -> Result<(), FileError> {
        self.throttle().await?;
        let dirty = async || {
            let node = self.file_to_change(node).await?;
            self.dirtied(&node, index).await
        };
        Box::pin(self.with_space(dirty)).await
    }

    async fn write(&'static self, node: NodeId, offset: u64, data: Vec<Bytes>) -> Result<usize, FileError> {
        self.throttle().await?;
        let written = AtomicUsize::new(0);
        let write = async || {
            let node = self.file_to_change(node).await?;
            let _guard = node.to_change().await?;
            self.write_at(&node, offset, &data, &written).await
        };
        let ended = Box::pin(self.with_space(write)).await;
        // A part is an answer: whoever writes the rest meets the error.
        match (ended, written.load(Ordering::Relaxed)) {
            (Err(error), 0) => Err(error),
            (_, bytes) => {
                self.moved(bytes);
                Ok(bytes)
            }
        }
    }

    async fn read_direct(&'static self, node: NodeId, offset: u64, into: Vec<Bytes>) -> Result<usize, FileError> {
        let node = self.node(node).await?;
        node.expect(NodeKind::File)?;
        Box::pin(self.read_past(&node, offset, &into)).await
    }

    async fn write_direct(&'static self, node: NodeId, offset: u64, from: Vec<Bytes>) -> Result<usize, FileError> {
        self.throttle_metadata().await?;
        let node = self.file_to_change(node).await?;
        Box::pin(self.write_past(&node, offset, &from)).await
    }

    async fn append(&'static self, node: NodeId, data: Vec<Bytes>) -> Result<u64, FileError> {
        self.throttle().await?;
        let append = async || {
            let node = self.file_to_change(node).await?;
            let _guard = node.to_change().await?;
            let (offset, written) = (node.size(), AtomicUsize::new(0));
            if let Err(error) = self.write_at(&node, offset, &data, &written).await {
                // All or nothing: the answer has no place for a part.
                self.resize(&node, offset).await?;
                return Err(error);
            }
            self.moved(written.load(Ordering::Relaxed));
            Ok(offset)
        };
        Box::pin(self.with_space(append)).await
    }

    async fn sync(&'static self, node: NodeId) -> Result<(), FileError> {
        Box::pin(self.with_room(async || self.sync_node(node).await)).await
    }

    async fn sync_all(&'static self) -> Result<(), FileError> {
        Box::pin(self.with_room(async || self.sync_everything().await)).await
    }

    async fn write_back(&'static self, node: NodeId, offset: u64, bytes: u64) -> Result<(), FileError> {
        Box::pin(self.with_room(async || self.write_range_back(node, offset, bytes).await)).await
    }

    async fn cached(&'static self, node: NodeId, first: u64, pages: usize) -> Result<Vec<u8>, FileError> {
        let node = self.node(node).await?;
        node.expect(NodeKind::File)?;
        Ok(self.cached_pages(&node, first, pages.min(CACHED_PAGES_MAX)))
    }

    async fn evict(&'static self, node: NodeId, offset: u64, bytes: u64) -> Result<u64, FileError> {
        let node = self.node(node).await?;
        Ok(self.evict_range(&node, offset, bytes))
    }

    async fn evict_pages(&'static self, node: NodeId, pages: Vec<u64>) -> Result<u64, FileError> {
        let node = self.node(node).await?;
        Ok(Box::pin(self.evict_unused(&node, &pages)).await.saturating_mul(PAGE_BYTES) as u64)
    }

    async fn statistics(&'static self) -> Result<FileSystemStatistics, FileError> {
        Ok(self.statistics_now())
    }
}

impl Ext2 {
    /// Looks a name up that the caches do not know, or not all of it.
    async fn lookup_missed(&'static self, directory: NodeId, name: &[u8]) -> Result<Attributes, FileError> {
        let parent = self.directory(directory).await?;
        // Held until the node is found, so that its last name is not taken away meanwhile.
        let _guard = parent.to_read().await?;
        let id = self.find(&parent, name).await?;
        Ok(self.numbered(id.ok_or(FileError::NotFound)?).await?.attributes())
    }

    async fn read_pages(
        &'static self,
        node: NodeId,
        offset: u64,
        bytes: usize,
        may_guess: bool,
    ) -> Result<Vec<Bytes>, FileError> {
        let node = self.node_to_use(node).await?;
        node.expect(NodeKind::File)?;
        const PAGE: u64 = PAGE_BYTES as u64;
        // A writer makes the file longer before its pages have all of the contents: such a part is not read.
        let guard = node.to_read().await?;
        let end = node.size().min(offset.saturating_add((bytes as u64).min(READ_BYTES_MAX)));
        drop(guard);
        let behind = end.div_ceil(PAGE);
        let mut views = Vec::with_capacity(behind.saturating_sub(offset / PAGE) as usize);
        let mut at = offset;
        while at < end {
            let (index, start) = (at / PAGE, at % PAGE);
            let count = PAGE.saturating_sub(start).min(end.saturating_sub(at));
            let pages = behind.saturating_sub(index);
            let page = self.page_at(&node, index, Wanted { pages, may_guess, beside: Beside::NONE }).await?;
            views.push(Bytes::new(page, start as usize, count as usize));
            at = at.saturating_add(count);
        }
        self.moved(at.saturating_sub(offset) as usize);
        Ok(views)
    }

    /// Returns a page of a file: from the cache, or from the disk; zeros in holes and behind the end.
    pub(crate) async fn page_at(
        &'static self,
        node: &Arc<Node>,
        index: u64,
        wanted: Wanted,
    ) -> Result<Page, FileError> {
        if let Some((page, is_marked)) = self.cache.read(self.page_key(node.id, index)) {
            node.in_use()?;
            if is_marked {
                self.read_on(node, index);
            }
            return Ok(page);
        }
        if index >= crate::read::pages(node.size()) {
            return Box::pin(self.with_room(async || Page::zeroed().map_err(|_| FileError::OutOfMemory))).await;
        }
        Box::pin(self.page_missed(node, index, wanted)).await
    }
}
