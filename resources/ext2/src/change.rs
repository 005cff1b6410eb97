//! Noting changes: the dirty blocks and nodes, and the order in which they must reach the disk.

use crate::Ext2;
use crate::inode::Inode;
use crate::metadata::Class;
use crate::node::Node;
use crate::walk::DirectoryBlock;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use gyre_interface::files::FileError;
use gyre_object::Page;

impl Ext2 {
    /// Refuses changes to a file system that is read-only.
    pub(crate) fn writable(&self) -> Result<(), FileError> {
        if self.read_only.load(Ordering::Relaxed) { Err(FileError::ReadOnly) } else { Ok(()) }
    }

    /// Notes that there is something to commit.
    pub(crate) fn note_change(&self) {
        self.metadata.lock().note(&self.metadata_changed);
    }

    /// Notes that a block of metadata was changed. A block that must be written early keeps its place.
    pub(crate) fn touch(&self, block: u32, page: &Page, class: Class) {
        let mut metadata = self.metadata.lock();
        metadata.note(&self.metadata_changed);
        metadata.touch(block, page, class);
    }

    /// Changes blocks of directories. Of each pair in `order` the first sector must reach the disk before the second.
    /// A commit takes all of it or nothing. The caller holds the locks of the directories.
    pub(crate) fn write_blocks(&self, order: &[(u64, u64)], blocks: &[(&DirectoryBlock, &[u8])]) {
        let mut metadata = self.metadata.lock();
        metadata.note(&self.metadata_changed);
        order.iter().for_each(|(first, second)| metadata.write_before(*first, *second));
        for (block, contents) in blocks {
            block.page.write(0, contents);
            metadata.touch(block.block, &block.page, Class::Directories);
        }
    }

    /// Changes an inode.
    pub(crate) fn change<T>(&self, node: &Node, act: impl FnOnce(&mut Inode) -> T) -> T {
        let mut state = node.state.lock();
        let was_dirty = core::mem::replace(&mut state.dirty, true);
        let answer = act(&mut state.inode);
        node.size_now.store(state.inode.size, Ordering::Release);
        drop(state);
        // A dirty node is noted already, and later changes are written with it.
        if let Some(me) = node.me.upgrade().filter(|_| !was_dirty) {
            let mut metadata = self.metadata.lock();
            // A node that is being freed is not written here, and its number may be another's by now.
            if node.in_use().is_ok() {
                metadata.note(&self.metadata_changed);
                metadata.nodes.insert(me.id, me);
            }
        }
        answer
    }

    /// Notes that blocks of a node's contents were taken: they are written before the inode.
    pub(crate) fn note_ordered(&self, node: u64) {
        self.metadata.lock().ordered.insert(node);
    }

    /// Hands a node without names and users to the next commit, which frees it.
    pub(crate) fn doom(&self, node: Arc<Node>) {
        node.doomed.store(true, Ordering::Release);
        self.allocator.lock().doomed.push(node);
        self.note_change();
    }
}

/// Returns the present time, ns since 1970.
pub(crate) fn now_ns() -> u64 {
    gyre_machine::wall_clock_ns()
}
