//! The files protocol.

use crate::Ext2;
use crate::geometry::ROOT;
use crate::names::Known;
use crate::node::Node;
use crate::read::READ_BYTES_MAX;
use alloc::sync::Arc;
use alloc::vec::Vec;
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
        match self.names.get(directory.0, &name) {
            Some(Known::Absent) => return Err(FileError::NotFound),
            Some(Known::Node(id)) => {
                if let Some(node) = self.nodes.get(&id) {
                    return Ok(node.attributes());
                }
            }
            None => check_name(&name)?,
        }
        let parent = self.directory(directory).await?;
        let id = {
            let _pass = parent.gate.shared().await;
            self.find(&parent, &name).await?
        };
        Ok(self.node(NodeId(id.ok_or(FileError::NotFound)?)).await?.attributes())
    }

    async fn attributes(&'static self, node: NodeId) -> Result<Attributes, FileError> {
        Ok(self.node(node).await?.attributes())
    }

    async fn read_directory(&'static self, node: NodeId, from: u64, bytes_max: usize) -> Result<Vec<DirectoryEntry>, FileError> {
        let node = self.directory(node).await?;
        let _pass = node.gate.shared().await;
        self.list(&node, from, bytes_max).await
    }

    async fn read_link(&'static self, node: NodeId) -> Result<Vec<u8>, FileError> {
        let node = self.node(node).await?;
        if node.kind != NodeKind::SymbolicLink {
            return Err(FileError::Invalid);
        }
        self.link_target(&node).await
    }

    async fn page(&'static self, node: NodeId, index: u64) -> Result<Page, FileError> {
        // The cache knows metadata too, under a number that is no inode's.
        if self.geometry.is_usable_inode(node.0)
            && let Some(page) = self.cache.get(self.page_key(node.0, index))
        {
            return Ok(page);
        }
        let node = self.node(node).await?;
        node.expect(NodeKind::File)?;
        self.page_at(&node, index, 1).await
    }

    async fn read(&'static self, node: NodeId, offset: u64, bytes: usize) -> Result<Vec<Bytes>, FileError> {
        let node = self.node(node).await?;
        node.expect(NodeKind::File)?;
        let page_bytes = PAGE_BYTES as u64;
        let end = node.size().min(offset.saturating_add((bytes as u64).min(READ_BYTES_MAX)));
        let mut views = Vec::with_capacity((end.saturating_sub(offset) / page_bytes) as usize + 2);
        let mut at = offset;
        while at < end {
            let (index, start) = (at / page_bytes, at % page_bytes);
            let count = (page_bytes - start).min(end - at);
            let wanted = (end - at + start).div_ceil(page_bytes);
            let page = self.page_at(&node, index, wanted).await?;
            views.push(Bytes::new(page, start as usize, count as usize));
            at += count;
        }
        Ok(views)
    }

    async fn set_attributes(&'static self, _n: NodeId, _c: AttributeChange) -> Result<Attributes, FileError> { Err(FileError::ReadOnly) }
    async fn create(&'static self, _d: NodeId, _n: Name, _w: NewNode) -> Result<Attributes, FileError> { Err(FileError::ReadOnly) }
    async fn link(&'static self, _n: NodeId, _d: NodeId, _a: Name) -> Result<(), FileError> { Err(FileError::ReadOnly) }
    async fn unlink(&'static self, _d: NodeId, _a: Name) -> Result<(), FileError> { Err(FileError::ReadOnly) }
    async fn remove_directory(&'static self, _d: NodeId, _a: Name) -> Result<(), FileError> { Err(FileError::ReadOnly) }
    async fn rename(&'static self, _f: NodeId, _n: Name, _t: NodeId, _o: Name) -> Result<(), FileError> { Err(FileError::ReadOnly) }
    async fn open(&'static self, node: NodeId) -> Result<Attributes, FileError> { self.attributes(node).await }
    async fn close(&'static self, _n: NodeId) -> Result<(), FileError> { Ok(()) }
    async fn page_dirtied(&'static self, _n: NodeId, _i: u64) -> Result<(), FileError> { Err(FileError::ReadOnly) }
    async fn write(&'static self, _n: NodeId, _o: u64, _d: Vec<Bytes>) -> Result<usize, FileError> { Err(FileError::ReadOnly) }
    async fn append(&'static self, _n: NodeId, _d: Vec<Bytes>) -> Result<u64, FileError> { Err(FileError::ReadOnly) }
    async fn sync(&'static self, _n: NodeId) -> Result<(), FileError> { Ok(()) }
    async fn sync_all(&'static self) -> Result<(), FileError> { Ok(()) }
    async fn statistics(&'static self) -> Result<FileSystemStatistics, FileError> { Err(FileError::Unsupported) }
}

impl Ext2 {
    /// A page of a file: from the cache, or from the disk; zeros where the file does not reach.
    pub(crate) async fn page_at(&'static self, node: &Arc<Node>, index: u64, wanted: u64) -> Result<Page, FileError> {
        if let Some(page) = self.cache.get(self.page_key(node.id, index)) {
            self.page_was_read(node, index);
            return Ok(page);
        }
        if index >= crate::read::pages(node.size()) {
            return Page::zeroed().map_err(|_| FileError::OutOfMemory);
        }
        self.page_missed(node, index, wanted).await
    }
}
