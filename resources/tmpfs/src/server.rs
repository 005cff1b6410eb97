//! The requests of the files protocol, one method each.
//!
//! Every method takes the instance's lock, works on the tree and answers at once, but for one that wants pages while memory is short. Methods that make or free many pages
//! do so in pieces, between which others run ([`PAGES_AT_ONCE`]). Pages are charged to the caller's activity when they
//! are made, within the instance's bound of pages and nodes. Contents are pages by reference: a read gives views of
//! them, a write takes whole pages over if it can. Left out: extended attributes, and everything that needs a device
//! (reads past the cache, write-back, eviction).
//!
//! Reads and look-ups that need no message are the near part's ([`crate::near`]), under the same lock. A write for
//! which there is too little room answers the part that was written.

use crate::node::{Body, Node};
use crate::tree::{PAGES_AT_ONCE, ROOT, Tree};
use crate::{FILE_BYTES_MAX, Tmpfs};
use alloc::vec::Vec;
use gyre_interface::files::{
    AttributeChange, Attributes, CACHED_PAGES_MAX, DirectoryEntry, FileError, FileSystemStatistics, Name, NewNode,
    NodeId, Pattern, Presence, RenameMode, Sought, files,
};
use gyre_machine::PAGE_BYTES;
use gyre_message::yield_now;
use gyre_object::{Bytes, Page};

const PAGE: u64 = PAGE_BYTES as u64;
/// The magic number of tmpfs for statfs (Linux, magic.h).
const MAGIC: u64 = 0x0102_1994;

impl Tmpfs {
    /// Frees all that it holds, in pieces, and leaves an empty root. Its owner's processes have ended: nobody has one of its files. It may be
    /// called again if that was broken off; one that a failure of the kernel has left closed stays as it is.
    pub async fn discard(&'static self) {
        while let Some(has_more) = self.tree.lock_unless_lost().map(|mut tree| tree.discard_some()) {
            self.free_pages().await;
            if !has_more {
                return;
            }
            yield_now().await;
        }
    }

    /// Frees the pages that files have given up, in pieces. The next call does what a killed one leaves.
    async fn free_pages(&'static self) {
        while self.tree.lock().has_gone() {
            let pages = self.tree.lock().take_gone();
            drop(pages);
            yield_now().await;
        }
    }
}

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
        let answer = {
            let mut tree = self.tree.lock();
            if let Some(size) = change.size_bytes {
                resize(&mut tree, node, size)?;
            }
            let node = tree.node_mut(node)?;
            apply(node, &change);
            node.attributes
        };
        self.free_pages().await;
        Ok(answer)
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
        self.tree.lock().unlink(directory, &name)?;
        self.free_pages().await;
        Ok(())
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
        self.tree.lock().rename(from, &from_name, to, to_name, mode)?;
        self.free_pages().await;
        Ok(())
    }

    async fn create_nameless(&'static self, directory: NodeId, new: NewNode) -> Result<Attributes, FileError> {
        self.tree.lock().create_nameless(directory, new)
    }

    async fn allocate(&'static self, node: NodeId, offset: u64, bytes: u64) -> Result<(), FileError> {
        check_room(&self.tree.lock(), node, offset, bytes)?;
        let end = offset.saturating_add(bytes);
        let mut at = offset;
        while at < end {
            let stop = end_of_piece(at).min(end);
            self.wait_for_room(node, at, stop).await?;
            allocate(&mut self.tree.lock(), node, at, stop)?;
            at = stop;
            if at < end {
                yield_now().await;
            }
        }
        grow(&mut self.tree.lock(), node, end)
    }

    async fn punch(&'static self, node: NodeId, offset: u64, bytes: u64) -> Result<(), FileError> {
        let mut at = offset;
        while let Some(next) = punch(&mut self.tree.lock(), node, at, offset.saturating_add(bytes))? {
            at = next;
            yield_now().await;
        }
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
        {
            let mut tree = self.tree.lock();
            let opened = tree.node_mut(node)?;
            opened.opens = opened.opens.checked_sub(1).ok_or(FileError::Invalid)?;
            tree.reap(node);
        }
        self.free_pages().await;
        Ok(())
    }

    async fn page(&'static self, node: NodeId, index: u64, _pattern: Pattern) -> Result<Page, FileError> {
        let offset = index.saturating_mul(PAGE_BYTES as u64);
        self.wait_for_room(node, offset, offset.saturating_add(1)).await?;
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

    async fn read_random(&'static self, node: NodeId, offset: u64, bytes: usize) -> Result<Vec<Bytes>, FileError> {
        self.read(node, offset, bytes).await
    }

    async fn write(&'static self, node: NodeId, offset: u64, data: Vec<Bytes>) -> Result<usize, FileError> {
        self.wait_for_room(node, offset, offset.saturating_add(bytes_of(&data))).await?;
        write(&mut self.tree.lock(), node, offset, &data)
    }

    /// Answers that there is no device.
    async fn read_direct(&'static self, _node: NodeId, _offset: u64, _into: Vec<Bytes>) -> Result<usize, FileError> {
        Err(FileError::Unsupported)
    }

    async fn write_direct(&'static self, _node: NodeId, _offset: u64, _from: Vec<Bytes>) -> Result<usize, FileError> {
        Err(FileError::Unsupported)
    }

    async fn append(&'static self, node: NodeId, data: Vec<Bytes>) -> Result<u64, FileError> {
        let offset = file_size(self.tree.lock().node(node)?)?;
        self.wait_for_room(node, offset, offset.saturating_add(bytes_of(&data))).await?;
        let mut tree = self.tree.lock();
        // Others may have appended meanwhile.
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

    /// Does nothing, since there is no device to write to.
    async fn write_back(&'static self, node: NodeId, _offset: u64, _bytes: u64) -> Result<(), FileError> {
        self.tree.lock().node(node).map(|_| ())
    }

    async fn cached(&'static self, node: NodeId, first: u64, pages: usize) -> Result<Vec<u8>, FileError> {
        let tree = self.tree.lock();
        let Body::File(content) = &tree.node(node)?.body else { return Err(FileError::Invalid) };
        let is_held = |at: usize| content.held(first.saturating_add(at as u64)).is_some();
        Ok((0..pages.min(CACHED_PAGES_MAX)).map(|at| u8::from(is_held(at))).collect())
    }

    /// Evicts nothing, since no page could be had again.
    async fn evict(&'static self, node: NodeId, _offset: u64, _bytes: u64) -> Result<u64, FileError> {
        self.tree.lock().node(node).map(|_| 0)
    }

    /// Evicts nothing, as `evict`.
    async fn evict_pages(&'static self, node: NodeId, _pages: Vec<u64>) -> Result<u64, FileError> {
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
    let gone = content.truncate(size);
    node.attributes.blocks_512 = content.blocks_512();
    node.attributes.size_bytes = size;
    node.touch_contents();
    tree.give_up(gone);
    Ok(())
}

/// Returns the end of the piece of a long walk that begins at `at`.
fn end_of_piece(at: u64) -> u64 {
    const PIECE: u64 = PAGES_AT_ONCE as u64 * PAGE;
    (at / PIECE).saturating_add(1).saturating_mul(PIECE)
}

/// Makes a piece of a range a hole; returns where the next one begins, if there is more.
fn punch(tree: &mut Tree, id: NodeId, offset: u64, end: u64) -> Result<Option<u64>, FileError> {
    let size = file_size(tree.node(id)?)?;
    let node = tree.node_mut(id)?;
    let Body::File(content) = &mut node.body else {
        return Err(FileError::Invalid);
    };
    // Behind the end there is nothing to keep: the last page goes as a whole.
    let end = if end >= size { size.next_multiple_of(PAGE_BYTES as u64) } else { end };
    // A part that has no pages is passed at once.
    let held = content.next(offset / PAGE, true).map_or(end, |page| page.saturating_mul(PAGE));
    let offset = offset.max(held.min(end));
    let stop = end_of_piece(offset).min(end);
    let freed = if offset < stop { content.punch(offset, stop) } else { 0 };
    node.attributes.blocks_512 = content.blocks_512();
    node.touch_contents();
    tree.pages_used = tree.pages_used.saturating_sub(freed);
    Ok((stop < end).then_some(stop))
}

fn check_room(tree: &Tree, id: NodeId, offset: u64, bytes: u64) -> Result<(), FileError> {
    file_size(tree.node(id)?)?;
    offset.checked_add(bytes).filter(|end| *end <= FILE_BYTES_MAX).ok_or(FileError::TooLarge)?;
    if bytes / PAGE > tree.room().0 { Err(FileError::NoSpace) } else { Ok(()) }
}

/// Gives the pages from `offset` to `end`, which are few, to a file.
fn allocate(tree: &mut Tree, id: NodeId, offset: u64, end: u64) -> Result<(), FileError> {
    let mut room = tree.room();
    let before = room.0;
    let node = tree.node_mut(id)?;
    let Body::File(content) = &mut node.body else {
        return Err(FileError::Invalid);
    };
    let pages = offset / PAGE..end.div_ceil(PAGE);
    let result = pages.into_iter().try_for_each(|index| content.page(index, &mut room).map(drop));
    node.attributes.blocks_512 = content.blocks_512();
    tree.count_pages(before, &room);
    result
}

/// Notes that a file has all its pages up to `end`.
fn grow(tree: &mut Tree, id: NodeId, end: u64) -> Result<(), FileError> {
    let node = tree.node_mut(id)?;
    node.attributes.size_bytes = node.attributes.size_bytes.max(end);
    node.touch_contents();
    Ok(())
}

fn bytes_of(data: &[Bytes]) -> u64 {
    data.iter().map(|piece| piece.len() as u64).sum()
}

fn write(tree: &mut Tree, id: NodeId, offset: u64, data: &[Bytes]) -> Result<usize, FileError> {
    let bytes = bytes_of(data);
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
