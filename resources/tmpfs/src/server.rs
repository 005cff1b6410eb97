//! The requests, one method each.

use crate::node::{Body, Node};
use crate::tree::{ROOT, Tree};
use crate::{FILE_BYTES_MAX, Tmpfs};
use alloc::vec::Vec;
use gyre_interface::files::{
    AttributeChange, Attributes, DirectoryEntry, FileError, FileSystemStatistics, Name, NewNode, NodeId, Presence,
    RenameMode, Sought, files,
};
use gyre_machine::PAGE_BYTES;
use gyre_object::{Bytes, Page};

const PAGE: u64 = PAGE_BYTES as u64;
/// What statfs gives for tmpfs (Linux, magic.h).
const MAGIC: u64 = 0x0102_1994;

impl files::Server for Tmpfs {
    async fn root(&'static self) -> Result<NodeId, FileError> {
        Ok(ROOT)
    }

    async fn lookup(&'static self, directory: NodeId, name: Name) -> Result<Attributes, FileError> {
        self.tree.lock().lookup(directory, &name)
    }

    async fn attributes(&'static self, node: NodeId) -> Result<Attributes, FileError> {
        Ok(self.tree.lock().node(node)?.attributes)
    }

    async fn set_attributes(&'static self, node: NodeId, change: AttributeChange) -> Result<Attributes, FileError> {
        let mut tree = self.tree.lock();
        if let Some(size) = change.size_bytes {
            resize(&mut tree, node, size)?;
        }
        let node = tree.node_mut(node)?;
        apply(node, &change);
        Ok(node.attributes)
    }

    async fn read_directory(
        &'static self,
        node: NodeId,
        from: u64,
        bytes_max: usize,
    ) -> Result<Vec<DirectoryEntry>, FileError> {
        let tree = self.tree.lock();
        Ok(tree.directory(node)?.read(node, from, bytes_max))
    }

    async fn create(&'static self, directory: NodeId, name: Name, new: NewNode) -> Result<Attributes, FileError> {
        self.tree.lock().create(directory, name, new)
    }

    async fn link(&'static self, node: NodeId, directory: NodeId, name: Name) -> Result<(), FileError> {
        self.tree.lock().link(node, directory, name)
    }

    async fn unlink(&'static self, directory: NodeId, name: Name) -> Result<(), FileError> {
        self.tree.lock().unlink(directory, &name)
    }

    async fn remove_directory(&'static self, directory: NodeId, name: Name) -> Result<(), FileError> {
        self.tree.lock().remove_directory(directory, &name)
    }

    async fn rename(
        &'static self,
        from: NodeId,
        from_name: Name,
        to: NodeId,
        to_name: Name,
        mode: RenameMode,
    ) -> Result<(), FileError> {
        self.tree.lock().rename(from, &from_name, to, to_name, mode)
    }

    async fn create_nameless(&'static self, directory: NodeId, new: NewNode) -> Result<Attributes, FileError> {
        self.tree.lock().create_nameless(directory, new)
    }

    async fn allocate(&'static self, node: NodeId, offset: u64, bytes: u64) -> Result<(), FileError> {
        allocate(&mut self.tree.lock(), node, offset, bytes)
    }

    async fn punch(&'static self, node: NodeId, offset: u64, bytes: u64) -> Result<(), FileError> {
        let mut tree = self.tree.lock();
        let size = file_size(tree.node(node)?)?;
        let end = offset.saturating_add(bytes);
        let node = tree.node_mut(node)?;
        let Body::File(content) = &mut node.body else {
            return Err(FileError::Invalid);
        };
        // Behind the end there is nothing to keep: the last page goes as a whole.
        let end = if end >= size { size.next_multiple_of(PAGE_BYTES as u64) } else { end };
        let freed = if offset < end { content.punch(offset, end) } else { 0 };
        node.attributes.blocks_512 = content.blocks_512();
        node.touch_contents();
        tree.pages_used = tree.pages_used.saturating_sub(freed);
        Ok(())
    }

    async fn seek(&'static self, node: NodeId, offset: u64, sought: Sought) -> Result<u64, FileError> {
        let tree = self.tree.lock();
        let node = tree.node(node)?;
        let size = file_size(node)?;
        let Body::File(content) = &node.body else {
            return Err(FileError::Invalid);
        };
        let found = content.next(offset / PAGE, sought == Sought::Data);
        let found = found.map(|index| index.saturating_mul(PAGE).max(offset));
        match (found.filter(|at| *at < size), sought) {
            _ if offset >= size => Err(FileError::NotFound),
            (Some(at), _) => Ok(at),
            (None, Sought::Hole) => Ok(size),
            (None, Sought::Data) => Err(FileError::NotFound),
        }
    }

    async fn extended(&'static self, _node: NodeId, _name: Name) -> Result<Vec<u8>, FileError> {
        Err(FileError::Unsupported)
    }

    async fn set_extended(
        &'static self,
        _node: NodeId,
        _name: Name,
        _value: Vec<u8>,
        _demand: Presence,
    ) -> Result<(), FileError> {
        Err(FileError::Unsupported)
    }

    async fn remove_extended(&'static self, _node: NodeId, _name: Name) -> Result<(), FileError> {
        Err(FileError::Unsupported)
    }

    async fn list_extended(&'static self, node: NodeId) -> Result<Vec<Name>, FileError> {
        self.tree.lock().node(node).map(|_| Vec::new())
    }

    async fn write_out(&'static self, node: NodeId) -> Result<(), FileError> {
        self.tree.lock().node(node).map(|_| ())
    }

    async fn read_link(&'static self, node: NodeId) -> Result<Vec<u8>, FileError> {
        match &self.tree.lock().node(node)?.body {
            Body::Link(target) => Ok(target.clone()),
            _ => Err(FileError::Invalid),
        }
    }

    async fn open(&'static self, node: NodeId) -> Result<Attributes, FileError> {
        let mut tree = self.tree.lock();
        let node = tree.node_mut(node)?;
        node.opens = node.opens.checked_add(1).ok_or(FileError::OutOfMemory)?;
        Ok(node.attributes)
    }

    async fn close(&'static self, node: NodeId) -> Result<(), FileError> {
        let mut tree = self.tree.lock();
        let opened = tree.node_mut(node)?;
        opened.opens = opened.opens.checked_sub(1).ok_or(FileError::Invalid)?;
        tree.reap(node);
        Ok(())
    }

    async fn page(&'static self, node: NodeId, index: u64) -> Result<Page, FileError> {
        let mut tree = self.tree.lock();
        let size = file_size(tree.node(node)?)?;
        if index >= size.div_ceil(PAGE_BYTES as u64) {
            return Err(FileError::Invalid);
        }
        let mut room = tree.room();
        let before = room.0;
        let node = tree.node_mut(node)?;
        let Body::File(content) = &mut node.body else {
            return Err(FileError::Invalid);
        };
        let page = content.page(index, &mut room);
        node.attributes.blocks_512 = content.blocks_512();
        tree.count_pages(before, &room);
        page
    }

    async fn page_dirtied(&'static self, node: NodeId, _index: u64) -> Result<(), FileError> {
        self.tree.lock().node_mut(node)?.touch_contents();
        Ok(())
    }

    async fn read(&'static self, node: NodeId, offset: u64, bytes: usize) -> Result<Vec<Bytes>, FileError> {
        let mut tree = self.tree.lock();
        let zeroes = tree.zeroes()?;
        let node = tree.node(node)?;
        let size = file_size(node)?;
        let Body::File(content) = &node.body else {
            return Err(FileError::Invalid);
        };
        let end = offset.saturating_add(bytes as u64).min(size);
        Ok(content.read(offset, end, &zeroes))
    }

    async fn read_alone(&'static self, node: NodeId, offset: u64, bytes: usize) -> Result<Vec<Bytes>, FileError> {
        self.read(node, offset, bytes).await
    }

    async fn write(&'static self, node: NodeId, offset: u64, data: Vec<Bytes>) -> Result<usize, FileError> {
        write(&mut self.tree.lock(), node, offset, &data)
    }

    /// There is no device behind it.
    async fn read_direct(&'static self, _node: NodeId, _offset: u64, _into: Vec<Bytes>) -> Result<usize, FileError> {
        Err(FileError::Unsupported)
    }

    async fn write_direct(&'static self, _node: NodeId, _offset: u64, _from: Vec<Bytes>) -> Result<usize, FileError> {
        Err(FileError::Unsupported)
    }

    async fn append(&'static self, node: NodeId, data: Vec<Bytes>) -> Result<u64, FileError> {
        let mut tree = self.tree.lock();
        let offset = file_size(tree.node(node)?)?;
        let wanted: usize = data.iter().map(Bytes::len).sum();
        if write(&mut tree, node, offset, &data)? < wanted {
            resize(&mut tree, node, offset)?;
            return Err(FileError::NoSpace);
        }
        Ok(offset)
    }

    async fn sync(&'static self, node: NodeId) -> Result<(), FileError> {
        self.tree.lock().node(node).map(|_| ())
    }

    async fn sync_all(&'static self) -> Result<(), FileError> {
        Ok(())
    }

    /// There is nowhere to write it.
    async fn write_back(&'static self, node: NodeId, _offset: u64, _bytes: u64) -> Result<(), FileError> {
        self.tree.lock().node(node).map(|_| ())
    }

    /// Nothing here could be had again.
    async fn evict(&'static self, node: NodeId, _offset: u64, _bytes: u64) -> Result<u64, FileError> {
        self.tree.lock().node(node).map(|_| 0)
    }

    async fn statistics(&'static self) -> Result<FileSystemStatistics, FileError> {
        let tree = self.tree.lock();
        let limits = tree.limits;
        Ok(FileSystemStatistics {
            block_bytes: PAGE_BYTES as u32,
            blocks: limits.pages_max,
            blocks_free: limits.pages_max.saturating_sub(tree.pages_used),
            nodes: limits.nodes_max,
            nodes_free: limits.nodes_max.saturating_sub(tree.node_count()),
            magic: MAGIC,
        })
    }
}

fn file_size(node: &Node) -> Result<u64, FileError> {
    match node.body {
        Body::File(_) => Ok(node.attributes.size_bytes),
        Body::Directory(_) => Err(FileError::IsDirectory),
        Body::Link(_) | Body::Special => Err(FileError::Invalid),
    }
}

fn apply(node: &mut Node, change: &AttributeChange) {
    node.touch();
    let attributes = &mut node.attributes;
    attributes.mode = change.mode.map_or(attributes.mode, |mode| mode & 0o7777);
    attributes.user = change.user.unwrap_or(attributes.user);
    attributes.group = change.group.unwrap_or(attributes.group);
    attributes.accessed_ns = change.accessed_ns.unwrap_or(attributes.accessed_ns);
    attributes.modified_ns = change.modified_ns.unwrap_or(attributes.modified_ns);
}

fn resize(tree: &mut Tree, id: NodeId, size: u64) -> Result<(), FileError> {
    if size > FILE_BYTES_MAX {
        return Err(FileError::TooLarge);
    }
    let node = tree.node_mut(id)?;
    file_size(node)?;
    let Body::File(content) = &mut node.body else {
        return Err(FileError::Invalid);
    };
    let freed = content.truncate(size);
    node.attributes.blocks_512 = content.blocks_512();
    node.attributes.size_bytes = size;
    node.touch_contents();
    tree.pages_used = tree.pages_used.saturating_sub(freed);
    Ok(())
}

fn allocate(tree: &mut Tree, id: NodeId, offset: u64, bytes: u64) -> Result<(), FileError> {
    file_size(tree.node(id)?)?;
    let end = offset.checked_add(bytes).filter(|end| *end <= FILE_BYTES_MAX).ok_or(FileError::TooLarge)?;
    let mut room = tree.room();
    let before = room.0;
    if bytes / PAGE > before {
        return Err(FileError::NoSpace);
    }
    let node = tree.node_mut(id)?;
    let Body::File(content) = &mut node.body else {
        return Err(FileError::Invalid);
    };
    let pages = offset / PAGE..end.div_ceil(PAGE);
    let result = pages.into_iter().try_for_each(|index| content.page(index, &mut room).map(drop));
    node.attributes.blocks_512 = content.blocks_512();
    if result.is_ok() {
        node.attributes.size_bytes = node.attributes.size_bytes.max(end);
        node.touch_contents();
    }
    tree.count_pages(before, &room);
    result
}

fn write(tree: &mut Tree, id: NodeId, offset: u64, data: &[Bytes]) -> Result<usize, FileError> {
    let bytes: u64 = data.iter().map(|piece| piece.len() as u64).sum();
    file_size(tree.node(id)?)?;
    if offset.checked_add(bytes).is_none_or(|end| end > FILE_BYTES_MAX) {
        return Err(FileError::TooLarge);
    }
    let mut room = tree.room();
    let before = room.0;
    let node = tree.node_mut(id)?;
    let Body::File(content) = &mut node.body else {
        return Err(FileError::Invalid);
    };
    let (written, stopped) = content.write(offset, data, &mut room);
    node.attributes.blocks_512 = content.blocks_512();
    if written > 0 {
        let end = offset.saturating_add(written as u64);
        node.attributes.size_bytes = node.attributes.size_bytes.max(end);
        node.touch_contents();
    }
    tree.count_pages(before, &room);
    match stopped {
        Some(error) if written == 0 => Err(error),
        _ => Ok(written),
    }
}
