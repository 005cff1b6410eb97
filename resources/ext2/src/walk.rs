//! Walking a directory's blocks, under its lock.

use crate::Ext2;
use crate::directory::{self, kind_of_code};
use crate::names::Known;
use crate::node::Node;
use alloc::vec::Vec;
use gyre_interface::files::{DirectoryEntry, FileError};
use gyre_object::Page;

/// Blocks after which a long walk lets others go first.
const BLOCKS_PER_TURN: u64 = 64;

/// A block of a directory.
pub(crate) struct DirectoryBlock {
    /// Its place in the directory.
    pub(crate) index: u64,
    /// Its place on the device.
    pub(crate) block: u32,
    pub(crate) page: Page,
}

impl Ext2 {
    /// Returns how many blocks a directory has; its size is a multiple of a block and less than the device.
    #[expect(clippy::arithmetic_side_effects, reason = "a block has at least 1024 bytes")]
    pub(crate) fn directory_blocks(&self, node: &Node) -> Result<u64, FileError> {
        let (size, block_bytes) = (node.size(), self.geometry.block_bytes as u64);
        let blocks = size / block_bytes;
        if !size.is_multiple_of(block_bytes) || blocks > u64::from(self.geometry.blocks) {
            return Err(FileError::Damaged);
        }
        Ok(blocks)
    }

    /// Returns a block of a directory; directories have no holes.
    pub(crate) async fn directory_block(&'static self, node: &Node, index: u64) -> Result<DirectoryBlock, FileError> {
        if index % BLOCKS_PER_TURN == BLOCKS_PER_TURN - 1 {
            gyre_message::yield_now().await;
        }
        let block = self.map(node, index).await?;
        if block == 0 {
            return Err(FileError::Damaged);
        }
        Ok(DirectoryBlock { index, block, page: self.block(block).await? })
    }

    /// Returns the inode behind a name, from the names' cache or the disk.
    pub(crate) async fn find(&'static self, directory: &Node, name: &[u8]) -> Result<Option<u64>, FileError> {
        match self.names.get(directory.name, name) {
            Some(Known::Node(id)) => return Ok(Some(id)),
            Some(Known::Absent) => return Ok(None),
            None => {}
        }
        let found = self.find_block(directory, name).await?.map(|(inode, _)| u64::from(inode));
        self.names.set(directory.name, name, found.map_or(Known::Absent, Known::Node));
        Ok(found)
    }

    /// Returns the inode behind a name, with the block that holds it.
    pub(crate) async fn find_block(
        &'static self,
        directory: &Node,
        name: &[u8],
    ) -> Result<Option<(u32, DirectoryBlock)>, FileError> {
        for index in self.candidates(directory, name).await? {
            let block = self.directory_block(directory, index).await?;
            let found = directory::find(self.contents(&block.page), name)?.map(|entry| entry.inode);
            if let Some(inode) = found {
                if !self.geometry.is_usable_inode(u64::from(inode)) {
                    return Err(FileError::Damaged);
                }
                return Ok(Some((inode, block)));
            }
        }
        Ok(None)
    }

    /// Entries from a position on.
    pub(crate) async fn list(
        &'static self,
        node: &Node,
        from: u64,
        bytes_max: usize,
    ) -> Result<Vec<DirectoryEntry>, FileError> {
        let block_bytes = self.geometry.block_bytes as u64;
        let mut found = Vec::new();
        let mut bytes = 0_usize;
        'walk: for index in self.blocks_between(from, from).0..self.directory_blocks(node)? {
            let block = self.directory_block(node, index).await?;
            let start = index.saturating_mul(block_bytes);
            for entry in directory::entries(self.contents(&block.page)) {
                let entry = entry?;
                if entry.inode == 0 || start.saturating_add(entry.offset as u64) < from {
                    continue;
                }
                if bytes >= bytes_max.max(1) {
                    break 'walk;
                }
                bytes = bytes.saturating_add(entry.name.len());
                found.push((
                    entry.inode,
                    entry.kind_code,
                    directory::shown_name(&entry)?.to_vec(),
                    start.saturating_add(entry.offset as u64).saturating_add(entry.bytes as u64),
                ));
            }
            if bytes >= bytes_max {
                break;
            }
        }
        self.with_kinds(found).await
    }
}

type RawEntry = (u32, u8, Vec<u8>, u64);

impl Ext2 {
    /// Adds the kinds; images without kinds in their entries cost a look at each inode.
    async fn with_kinds(&'static self, raw: Vec<RawEntry>) -> Result<Vec<DirectoryEntry>, FileError> {
        let mut entries = Vec::with_capacity(raw.len());
        for (inode, code, name, next) in raw {
            let number = u64::from(inode);
            let kind = match kind_of_code(code).filter(|_| self.geometry.has_file_type) {
                Some(kind) => kind,
                None => self.numbered(number).await?.kind,
            };
            entries.push(DirectoryEntry { name, number, kind, next });
        }
        Ok(entries)
    }

    /// Returns the target of a symbolic link.
    pub(crate) async fn link_target(&'static self, node: &Node) -> Result<Vec<u8>, FileError> {
        let _guard = node.to_read().await?;
        let inode = node.state.lock().inode.clone();
        let bytes = inode.size as usize;
        if inode.is_fast_link(self.geometry.sectors_per_block()) {
            return Ok(inode.fast_target().get(..bytes).unwrap_or(&[]).to_vec());
        }
        let block = self.map(node, 0).await?;
        if block == 0 || inode.size > self.geometry.block_bytes as u64 {
            return Err(FileError::Damaged);
        }
        let page = self.block(block).await?;
        let mut target = alloc::vec![0; bytes];
        page.read(0, &mut target);
        Ok(target)
    }
}
