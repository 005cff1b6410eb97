//! The near part (see [`gyre_interface::near`]): everything here is in memory.

use crate::Tmpfs;
use crate::node::Body;
use gyre_interface::around::Around;
use gyre_interface::files::{Attributes, FileError, NodeId};
use gyre_interface::near::{NEAR_BYTES_MAX, Near};
use gyre_machine::PAGE_BYTES;
use gyre_object::Page;

impl Near for Tmpfs {
    fn attributes(&'static self, node: NodeId) -> Option<Result<Attributes, FileError>> {
        Some(self.tree.lock().node(node).map(|node| node.attributes))
    }

    fn lookup(&'static self, directory: NodeId, name: &[u8]) -> Option<Result<Attributes, FileError>> {
        Some(self.tree.lock().lookup(directory, name))
    }

    fn open(&'static self, node: NodeId) -> Option<Result<Attributes, FileError>> {
        let mut tree = self.tree.lock();
        let node = match tree.node_mut(node) {
            Ok(node) => node,
            Err(error) => return Some(Err(error)),
        };
        node.opens = node.opens.checked_add(1)?;
        Some(Ok(node.attributes))
    }

    fn close(&'static self, node: NodeId) -> bool {
        let mut tree = self.tree.lock();
        let Ok(node) = tree.node_mut(node) else { return false };
        // The last use of a file without a name frees its pages: a message does that.
        if node.opens == 0 || (node.opens == 1 && node.attributes.links == 0) {
            return false;
        }
        node.opens = node.opens.saturating_sub(1);
        true
    }

    fn read(
        &'static self,
        node: NodeId,
        offset: u64,
        bytes: usize,
        into: &mut [Option<Page>],
    ) -> Option<Result<usize, FileError>> {
        let mut tree = self.tree.lock();
        let zeroes = tree.zeroes().ok()?;
        let node = tree.node(node).ok()?;
        let Body::File(content) = &node.body else { return None };
        let end = node.attributes.size_bytes.min(offset.saturating_add(bytes.min(NEAR_BYTES_MAX) as u64));
        if offset >= end {
            return Some(Ok(0));
        }
        content.pages_from(offset, end, &zeroes).zip(into).for_each(|(page, place)| *place = Some(page.clone()));
        Some(Ok(end.saturating_sub(offset) as usize))
    }

    fn to_map(&'static self, node: NodeId, around: &mut Around) {
        let tree = self.tree.lock();
        let Ok(node) = tree.node(node) else { return };
        if let Body::File(content) = &node.body {
            // A hole gets a page by a message, which counts it.
            around.take(node.attributes.size_bytes.div_ceil(PAGE_BYTES as u64), |index, _| content.held(index));
        }
    }
}
