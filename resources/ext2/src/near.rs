//! The near part (see [`gyre_interface::near`]): answers from memory, without a message.
//!
//! Each method does what the handler of the same name does if that need not wait. The shelves of names and nodes are
//! changed only by tasks that hold a directory's lock, so they never disagree with the disk.

use crate::Ext2;
use crate::names::Known;
use crate::node::Node;
use core::sync::atomic::Ordering;
use gyre_file_cache::{FileCache, PageKey};
use gyre_interface::around::Around;
use gyre_interface::begun::Begun;
use gyre_interface::files::{Attributes, FileError, NodeId, NodeKind};
use gyre_interface::near::{FEW_PAGES, Fill, NEAR_BYTES_MAX, NEAR_PAGES_MAX, Near};
use gyre_machine::PAGE_BYTES;
use gyre_object::{Bytes, Page};

const PAGE: u64 = PAGE_BYTES as u64;

impl Near for Ext2 {
    fn attributes(&'static self, node: NodeId) -> Option<Result<Attributes, FileError>> {
        self.near_node(node, |node| node.seen())
    }

    fn lookup(&'static self, directory: NodeId, name: &[u8]) -> Option<Result<Attributes, FileError>> {
        match self.names.get(directory, name)? {
            Known::Absent => Some(Err(FileError::NotFound)),
            // A name and its node may go during the look: the directory's present contents decide then. Names are
            // kept by the directory's own name, so that one that is gone has none here.
            Known::Node(id) => self.nodes.with(&id, |node, _| node.seen())?.ok().map(Ok),
        }
    }

    fn open(&'static self, node: NodeId) -> Option<Result<Attributes, FileError>> {
        self.near_node(node, |node| node.opened())
    }

    fn close(&'static self, node: NodeId) -> bool {
        matches!(self.near_node(node, |node| Ok(node.closed_early())), Some(Ok(true)))
    }

    fn read(
        &'static self,
        node: NodeId,
        offset: u64,
        bytes: usize,
        into: &mut [Option<Page>],
    ) -> Option<Result<usize, FileError>> {
        self.show(node, offset, bytes, into, FileCache::read)
    }

    fn lend(
        &'static self,
        node: NodeId,
        offset: u64,
        bytes: usize,
        into: &mut [Option<Page>],
    ) -> Option<Result<usize, FileError>> {
        self.show(node, offset, bytes, into, FileCache::lend)
    }

    fn to_map(&'static self, node: NodeId, around: &mut Around) {
        if let Some(Ok(node)) = self.near_node(node, |node| Ok(node.clone()))
            && node.kind == NodeKind::File
        {
            self.show_to_map(&node, around);
        }
    }

    fn fetch(&'static self, node: NodeId, offset: u64, bytes: usize, may_guess: bool) -> Option<Begun> {
        let node = self.near_node(node, |node| Ok(node.clone()))?.ok()?;
        self.begin_fetch(&node, offset, bytes, may_guess)
    }

    fn read_direct(&'static self, node: NodeId, offset: u64, into: &[Bytes]) -> Option<Begun> {
        let node = self.near_node(node, |node| Ok(node.clone()))?.ok()?;
        self.begin_read_past(&node, offset, into)
    }

    fn write_direct(&'static self, node: NodeId, offset: u64, from: &[Bytes]) -> Option<Begun> {
        let node = self.near_node(node, |node| Ok(node.clone()))?.ok()?;
        self.begin_write_past(&node, offset, from)
    }

    fn overwrite(&'static self, node: NodeId, offset: u64, bytes: usize, fill: Fill<'_>) -> Option<()> {
        // A write that must wait for the disk, or would fail, is left to a message.
        if bytes == 0 || bytes > NEAR_BYTES_MAX || self.cache.is_over_dirty_limit() || self.must_commit() {
            return None;
        }
        self.writable().ok()?;
        let node = self.near_node(node, |node| Ok(node.clone()))?.ok()?;
        let _guard = node.lock.try_exclusive()?;
        let end = offset.checked_add(bytes as u64)?;
        if node.kind != NodeKind::File || node.doomed.load(Ordering::Acquire) || end > node.size() {
            return None;
        }
        let is_done = match bytes <= PAGE_BYTES {
            true => self.overwrite_in::<FEW_PAGES>(node.id, offset, bytes, fill)?,
            false => self.overwrite_in::<NEAR_PAGES_MAX>(node.id, offset, bytes, fill)?,
        };
        self.wrote_until(&node, end);
        self.moved(if is_done { bytes } else { 0 });
        is_done.then_some(())
    }
}

/// A look at a page in the cache; and whether its reader should read on.
type Look = fn(&FileCache, PageKey) -> Option<(Page, bool)>;

impl Ext2 {
    /// Returns the pages of a range by a look at each of them, and the bytes that the file has there.
    #[inline(always)]
    fn show(
        &'static self,
        node: NodeId,
        offset: u64,
        bytes: usize,
        into: &mut [Option<Page>],
        look: Look,
    ) -> Option<Result<usize, FileError>> {
        let node = match self.near_node(node, |node| Ok(node.clone()))? {
            Ok(node) => node,
            Err(error) => return Some(Err(error)),
        };
        if node.kind != NodeKind::File {
            return Some(node.expect(NodeKind::File).map(|()| 0));
        }
        // A writer makes the file longer before its pages have all of the contents.
        let version = node.lock.version()?;
        if node.doomed.load(Ordering::Acquire) {
            return Some(Err(FileError::Stale));
        }
        let size = node.size_now.load(Ordering::Acquire);
        let end = size.min(offset.saturating_add(bytes.min(NEAR_BYTES_MAX) as u64));
        if offset >= end {
            return Some(Ok(0));
        }
        let first = offset / PAGE;
        for (place, index) in into.iter_mut().zip(first..end.div_ceil(PAGE)) {
            let (page, is_marked) = look(&self.cache, self.page_key(node.id, index))?;
            *place = Some(page);
            if is_marked {
                self.read_on(&node, index);
            }
        }
        if !node.lock.is_unchanged(version) || node.doomed.load(Ordering::Acquire) {
            return None;
        }
        // The caller may have room for less.
        let room = into.len().saturating_mul(PAGE_BYTES).saturating_sub((offset % PAGE) as usize);
        let count = end.saturating_sub(offset).min(room as u64) as usize;
        self.moved(count);
        Some(Ok(count))
    }

    /// Lets `fill` write to pages that are here and have their places on the disk; `None` if not all are.
    fn overwrite_in<const PAGES: usize>(&self, node: u64, offset: u64, bytes: usize, fill: Fill<'_>) -> Option<bool> {
        let mut pages: [Option<Page>; PAGES] = [const { None }; PAGES];
        let (first, start) = (offset / PAGE, (offset % PAGE) as usize);
        let count = start.saturating_add(bytes).div_ceil(PAGE_BYTES);
        for (place, index) in pages.iter_mut().take(count).zip(first..) {
            *place = Some(self.cache.overwrite(self.page_key(node, index))?);
        }
        Some(fill(&pages, start, bytes))
    }
}

impl Node {
    /// Returns its attributes, unless it is gone.
    fn seen(&self) -> Result<Attributes, FileError> {
        let state = self.state.lock();
        if state.deleted && state.opens == 0 { Err(FileError::Stale) } else { Ok(self.attributes_in(&state)) }
    }

    /// Counts one more open.
    fn opened(&self) -> Result<Attributes, FileError> {
        let mut state = self.state.lock();
        if state.deleted && state.opens == 0 {
            return Err(FileError::Stale);
        }
        state.opens = state.opens.checked_add(1).ok_or(FileError::TooMuch)?;
        Ok(self.attributes_in(&state))
    }

    /// Counts one less, unless that frees it: a message does that.
    fn closed_early(&self) -> bool {
        let mut state = self.state.lock();
        if state.opens == 0 || (state.opens == 1 && state.deleted) {
            return false;
        }
        state.opens = state.opens.saturating_sub(1);
        true
    }
}
