//! Blocks of metadata: in the file cache under a node number of their own, dirty ones pinned here until they are committed.

use crate::Ext2;
use crate::node::Node;
use crate::shared::in_name_of;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec;
use gyre_account::ActivityId;
use gyre_file_cache::{Begin, PageKey};
use gyre_interface::block::BlockError;
use gyre_interface::files::FileError;
use gyre_message::WaitQueue;
use gyre_object::{Bytes, Page};

/// The node number under which the cache keeps blocks of the device.
pub(crate) const DEVICE_NODE: u64 = u64::MAX;

/// When a block is written in a commit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Class {
    /// First: indirect blocks, targets of links and attributes to which nothing on the disk leads yet.
    Fresh,
    /// With them: blocks of directories to which nothing on the disk leads yet.
    FreshDirectories,
    /// Indirect blocks that the disk knows already.
    Early,
    /// Inode tables: before any name that leads to them.
    Inodes,
    /// Blocks of directories, in the order of their dependencies.
    Directories,
}

pub(crate) struct DirtyBlock {
    pub(crate) class: Class,
    pub(crate) page: Page,
}

/// The dirty blocks.
#[derive(Default)]
pub(crate) struct Metadata {
    pub(crate) blocks: BTreeMap<u32, DirtyBlock>,
    /// The first sector of directory entries is written before the second: a moved name appears before it disappears.
    pub(crate) order: BTreeSet<(u64, u64)>,
    /// Nodes whose inode is not in the table's block yet.
    pub(crate) nodes: BTreeMap<u64, Arc<Node>>,
    /// Nodes that got blocks: their contents are written before their inodes.
    pub(crate) ordered: BTreeSet<u64>,
    /// Of these, nodes whose contents the running commit has not written yet, though it has copied the pointers to
    /// them.
    pub(crate) owed: BTreeSet<u64>,
    /// The time since when there is something to commit, and the activity that made the first change.
    pub(crate) since: Option<(u64, ActivityId)>,
}

impl Class {
    /// Returns whether they are names, which are copied before their nodes.
    pub(crate) fn holds_names(self) -> bool {
        matches!(self, Class::FreshDirectories | Class::Directories)
    }

    /// Returns whether nothing on the disk leads to such blocks yet.
    pub(crate) fn is_fresh(self) -> bool {
        matches!(self, Class::Fresh | Class::FreshDirectories)
    }
}

impl Metadata {
    /// Notes that something is to be committed.
    pub(crate) fn note(&mut self, changed: &WaitQueue) {
        if self.since.is_none() {
            self.since = Some((gyre_machine::now(), gyre_account::current_activity()));
            changed.wake_all();
        }
    }

    /// Notes that a block was changed. One that must be written early keeps its place.
    pub(crate) fn touch(&mut self, block: u32, page: &Page, class: Class) {
        let dirty = self.blocks.entry(block).or_insert_with(|| DirtyBlock { class, page: page.clone() });
        dirty.class = dirty.class.min(class);
    }

    /// Demands that one sector is written before another.
    pub(crate) fn write_before(&mut self, first: u64, second: u64) {
        if first != second {
            self.order.insert((first, second));
        }
    }

    /// Returns whether sector `from` must reach the disk before `to` already.
    pub(crate) fn precedes(&self, from: u64, to: u64) -> bool {
        let mut reached = BTreeSet::from([from]);
        let mut left = vec![from];
        while let Some(sector) = left.pop() {
            let later = self.order.range((sector, 0)..=(sector, u64::MAX)).map(|(_, later)| *later);
            left.extend(later.filter(|later| reached.insert(*later)));
        }
        from != to && reached.contains(&to)
    }
}

/// Returns the file error that a block error becomes.
pub(crate) fn from_block(error: BlockError) -> FileError {
    error.into()
}

impl Ext2 {
    pub(crate) fn device_key(&self, block: u32) -> PageKey {
        PageKey { file_system: self.file_system, node: DEVICE_NODE, index: u64::from(block) }
    }

    /// Returns the sector of the device that holds a byte of a block.
    pub(crate) fn sector_at(&self, block: u32, offset: usize) -> u64 {
        self.sector(block).saturating_add(crate::directory::sector_of(offset) as u64)
    }

    #[expect(clippy::arithmetic_side_effects, reason = "32 bits of blocks of at most 8 sectors")]
    pub(crate) fn sector(&self, block: u32) -> u64 {
        u64::from(block) * self.geometry.sectors_per_block()
    }

    /// Returns a block of metadata, read if it is not cached. The holder of the page keeps it cached.
    pub(crate) async fn block(&'static self, block: u32) -> Result<Page, FileError> {
        let key = self.device_key(block);
        loop {
            match in_name_of(self.payer_of(block), || self.begin_block(key))? {
                Begin::Here(page) => return Ok(page),
                Begin::Wait(waiting) => waiting.done().await,
                Begin::Lead(fetch) => {
                    let view = Bytes::new(fetch.page().clone(), 0, self.geometry.block_bytes);
                    let read = || self.disk.read(self.sector(block), vec![view]);
                    in_name_of(self.payer_of(block), read).await.map_err(from_block)?;
                    return Ok(fetch.done());
                }
            }
        }
    }

    /// Begins to fetch a block. Its caller holds locks and cannot wait for room: any page of its payer's that may go makes some.
    fn begin_block(&'static self, key: PageKey) -> Result<Begin, FileError> {
        let begin = || self.cache.begin(key).map_err(|_| FileError::OutOfMemory);
        begin().or_else(|_| {
            self.cache.reclaim(gyre_account::current_activity(), 1);
            begin()
        })
    }

    /// Returns the contents of a block of metadata; the caller holds its lock.
    pub(crate) fn contents<'a>(&self, page: &'a Page) -> &'a [u8] {
        page.as_slice().get(..self.geometry.block_bytes).unwrap_or(&[])
    }

    /// Returns a number in a block of metadata.
    pub(crate) fn pointer(&self, page: &Page, index: usize) -> u32 {
        let mut raw = [0; 4];
        page.read(crate::map::place_of(index), &mut raw);
        u32::from_le_bytes(raw)
    }
}
