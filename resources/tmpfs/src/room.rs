//! Memory that files leave to the programs of their owner.
//!
//! Pages of files in memory stay until somebody deletes the files. If they took the last page, each process that needs one would be ended for
//! it, the one that should delete the files among them. So a file does not grow into the last part: the call says that there is no space, and a
//! program that touches a hole of a mapping gets SIGBUS, as on Linux if a tmpfs is full (mm/shmem.c, `shmem_fault`).

use crate::Tmpfs;
use crate::node::Body;
use gyre_account::current_activity;
use gyre_interface::files::{FileError, NodeId};
use gyre_interface::memory::memory;
use gyre_machine::PAGE_BYTES;

const PAGE: u64 = PAGE_BYTES as u64;

/// Bytes that a file in memory leaves, after all was taken back that can be.
pub const LEFT_BYTES: u64 = 64 * PAGE;

/// The memory resource, as a file system in memory knows it.
pub struct Memory {
    /// Asked for room if there is little.
    pub client: memory::Client,
    /// False if the current activity's limit is near. Short, never waits.
    pub has_room: &'static (dyn Fn() -> bool + Send + Sync),
}

impl Tmpfs {
    /// Waits for room for new pages of a file from `offset` to `end`. Nothing is asked if memory is not short, or if the file has all of them.
    ///
    /// # Errors
    /// [`FileError::NoSpace`] if less than [`LEFT_BYTES`] can be had.
    pub(crate) async fn wait_for_room(&self, node: NodeId, offset: u64, end: u64) -> Result<(), FileError> {
        let Some(memory) = self.memory.as_ref().filter(|memory| !(memory.has_room)()) else { return Ok(()) };
        if self.has_pages(node, offset, end)? {
            return Ok(());
        }
        memory.client.reserve(current_activity(), LEFT_BYTES).await.map_err(|_| FileError::NoSpace)
    }

    fn has_pages(&self, node: NodeId, offset: u64, end: u64) -> Result<bool, FileError> {
        let tree = self.tree.lock();
        let Body::File(content) = &tree.node(node)?.body else { return Err(FileError::Invalid) };
        let mut pages = offset / PAGE..end.div_ceil(PAGE);
        Ok(pages.all(|index| content.holds(index)))
    }
}
