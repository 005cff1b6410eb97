//! Giving blocks to files and directories.

use crate::Ext2;
use crate::map::Path;
use crate::metadata::Class;
use crate::node::Node;
use gyre_file_cache::Begin;
use gyre_interface::files::FileError;
use gyre_object::Page;

impl Ext2 {
    /// Returns a block of metadata that was just taken: zeroed, without reading it from the disk.
    pub(crate) async fn fresh_block(&'static self, block: u32) -> Result<Page, FileError> {
        let key = self.device_key(block);
        loop {
            match self.cache.begin(key).map_err(|_| FileError::OutOfMemory)? {
                Begin::Here(page) => {
                    page.write(0, &[0; gyre_machine::PAGE_BYTES]);
                    return Ok(page);
                }
                Begin::Wait(waiting) => waiting.done().await,
                Begin::Lead(fetch) => return Ok(fetch.done()),
            }
        }
    }

    /// Returns the block near which to look for a free block for a node: behind its last one, or in its group.
    fn goal(&self, node: &Node, before: u32) -> u32 {
        if before != 0 {
            return before.saturating_add(1);
        }
        let group = self.geometry.group_of_inode(node.id as u32);
        self.geometry.group_blocks(group.min(self.geometry.group_count.saturating_sub(1))).0
    }

    /// Returns the block behind a block of a node, taken if it is a hole, and whether it was. `pointing` is called
    /// right before something points to a new block: then its contents must be dirty and the size right. The caller
    /// holds the lock exclusively.
    pub(crate) async fn ensure(
        &'static self,
        node: &Node,
        index: u64,
        pointing: impl FnOnce(),
    ) -> Result<(u32, bool), FileError> {
        self.ensure_leaf(node, index, None, pointing).await
    }

    /// Puts a block that was claimed behind a block of a node that is a hole.
    pub(crate) async fn ensure_with(
        &'static self,
        node: &Node,
        index: u64,
        block: Claimed,
        pointing: impl FnOnce(),
    ) -> Result<(), FileError> {
        match self.ensure_leaf(node, index, Some(block), pointing).await? {
            (_, true) => Ok(()),
            (_, false) => Err(FileError::Damaged),
        }
    }

    async fn ensure_leaf(
        &'static self,
        node: &Node,
        index: u64,
        mut claimed: Option<Claimed>,
        pointing: impl FnOnce(),
    ) -> Result<(u32, bool), FileError> {
        let path = self.path(index)?;
        let mut parent: Option<(u32, Page)> = None;
        for level in 0..=path.depth {
            let slot = slot(&path, level);
            let present = match &parent {
                None => self.checked(node.state.lock().inode.pointers.get(slot).copied().unwrap_or(0))?,
                Some((_, page)) => self.checked(self.pointer(page, slot))?,
            };
            let is_leaf = level == path.depth;
            if is_leaf && present != 0 {
                return Ok((present, false));
            }
            let (block, page) = match (present, is_leaf) {
                (0, true) => match claimed.take() {
                    Some(claimed) => (claimed.keep(), None),
                    None => (self.take_block(self.goal_of(node, index).await?).await?, None),
                },
                (0, false) => self.take_indirect(self.goal_of(node, index).await?).await?,
                (present, _) => (present, Some(self.block(present).await?)),
            };
            if present == 0 {
                if is_leaf {
                    pointing();
                    self.point(node, parent.as_ref(), slot, block);
                    return Ok((block, true));
                }
                // From here to the end of the step nothing waits: the block has an owner at any time.
                self.point(node, parent.as_ref(), slot, block);
            }
            parent = page.map(|page| (block, page));
        }
        Err(FileError::Damaged)
    }

    /// Returns the block near which to look for a block of a node: behind the one before it.
    async fn goal_of(&'static self, node: &Node, index: u64) -> Result<u32, FileError> {
        let before = match index.checked_sub(1) {
            Some(before) => self.map(node, before).await?,
            None => 0,
        };
        Ok(self.goal(node, before))
    }

    /// Returns a taken, zeroed indirect block, dirty already.
    async fn take_indirect(&'static self, goal: u32) -> Result<(u32, Option<Page>), FileError> {
        let block = Claimed { file_system: self, block: self.take_block(goal).await?, kept: false };
        let page = self.fresh_block(block.block).await?;
        self.touch(block.block, &page, Class::Fresh);
        Ok((block.keep(), Some(page)))
    }

    /// Makes a pointer, in the inode or in an indirect block.
    fn point(&self, node: &Node, parent: Option<&(u32, Page)>, slot: usize, block: u32) {
        if let Some((parent, page)) = parent {
            page.write(crate::map::place_of(slot), &block.to_le_bytes());
            self.touch(*parent, page, Class::Early);
        }
        let sectors = self.geometry.sectors_per_block() as u32;
        self.change(node, |inode| {
            if parent.is_none()
                && let Some(pointer) = inode.pointers.get_mut(slot)
            {
                *pointer = block;
            }
            inode.sectors = inode.sectors.saturating_add(sectors);
        });
    }

    /// Returns a block that was just taken, held until something points to it.
    pub(crate) async fn claim_block(&'static self, goal_of: &Node) -> Result<Claimed, FileError> {
        let block = self.take_block(self.goal(goal_of, 0)).await?;
        Ok(Claimed { file_system: self, block, kept: false })
    }
}

fn slot(path: &Path, level: usize) -> usize {
    match level.checked_sub(1) {
        None => path.root,
        Some(step) => path.steps().get(step).copied().unwrap_or(0),
    }
}

/// A block that nothing points to yet; free again when dropped.
pub(crate) struct Claimed {
    file_system: &'static Ext2,
    pub(crate) block: u32,
    kept: bool,
}

impl Claimed {
    /// Keeps it, since something points to it now.
    pub(crate) fn keep(mut self) -> u32 {
        self.kept = true;
        self.block
    }
}

impl Drop for Claimed {
    fn drop(&mut self) {
        if !self.kept {
            self.file_system.free_block(self.block);
        }
    }
}
