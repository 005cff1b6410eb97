//! What is in memory, shown without a message (see [`gyre_interface::near`]).
//!
//! Each method does what the handler of the same name does where that does not wait: the names' and nodes' shelves are changed by who
//! holds a directory's gate, and never disagree with the disk.

use crate::Ext2;
use crate::names::Known;
use crate::node::Node;
use gyre_interface::files::{Attributes, FileError, NodeId, NodeKind};
use gyre_interface::near::{NEAR_BYTES_MAX, Near, NearPages};
use gyre_machine::PAGE_BYTES;

impl Near for Ext2 {
    fn attributes(&'static self, node: NodeId) -> Option<Result<Attributes, FileError>> {
        self.near_node(node, |node| node.seen())
    }

    fn lookup(&'static self, directory: NodeId, name: &[u8]) -> Option<Result<Attributes, FileError>> {
        match self.names.get(directory, name)? {
            Known::Absent => Some(Err(FileError::NotFound)),
            // A name and its node may go while this looks: then the directory says what is there now. Names are kept by the directory's
            // own name, so that one that is gone has none here.
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
        into: &mut NearPages,
    ) -> Option<Result<usize, FileError>> {
        let node = match self.near_node(node, |node| Ok(node.clone()))? {
            Ok(node) => node,
            Err(error) => return Some(Err(error)),
        };
        if node.kind != NodeKind::File {
            return Some(node.expect(NodeKind::File).map(|()| 0));
        }
        // A writer makes the file longer before its pages have all of the contents.
        let _pass = node.gate.try_shared()?;
        node.in_use().ok()?;
        let size = match node.size_seen() {
            Ok(size) => size,
            Err(error) => return Some(Err(error)),
        };
        let end = size.min(offset.saturating_add(bytes.min(NEAR_BYTES_MAX) as u64));
        if offset >= end {
            return Some(Ok(0));
        }
        let first = offset / PAGE_BYTES as u64;
        let last = (end - 1) / PAGE_BYTES as u64;
        for (place, index) in into.iter_mut().zip(first..=last) {
            *place = Some(self.cache.get(self.page_key(node.id, index))?);
            self.page_was_read(&node, index);
        }
        Some(Ok((end - offset) as usize))
    }
}

impl Node {
    /// Its attributes, unless it is gone.
    fn seen(&self) -> Result<Attributes, FileError> {
        let state = self.state.lock();
        if state.deleted && state.opens == 0 { Err(FileError::Stale) } else { Ok(self.attributes_in(&state)) }
    }

    /// Its size, unless it is gone.
    fn size_seen(&self) -> Result<u64, FileError> {
        let state = self.state.lock();
        if state.deleted && state.opens == 0 { Err(FileError::Stale) } else { Ok(state.inode.size) }
    }

    /// Counts one more who has it open.
    fn opened(&self) -> Result<Attributes, FileError> {
        let mut state = self.state.lock();
        if state.deleted && state.opens == 0 {
            return Err(FileError::Stale);
        }
        state.opens += 1;
        Ok(self.attributes_in(&state))
    }

    /// Counts one less, unless that frees it: a message does that.
    fn closed_early(&self) -> bool {
        let mut state = self.state.lock();
        if state.opens == 0 || (state.opens == 1 && state.deleted) {
            return false;
        }
        state.opens -= 1;
        true
    }
}
