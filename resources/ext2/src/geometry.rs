//! The contents of the superblock and the group descriptors, checked once at mount.
//!
//! ```text
//!   byte 1024: superblock     next block: group descriptors, 32 bytes each
//!   group: [superblock copy, descriptors, reserved] block bitmap, inode bitmap, inode table, data
//! ```
//!
//! Every number that later code relies on is checked here: sizes of blocks and inodes, features that this code must
//! know, the place of each group's parts inside the group. So the sums that follow cannot overflow, and a block or
//! inode of a file is one that files may own ([`Geometry::is_shared`], [`Geometry::is_usable_inode`]). Damage and
//! unknown features refuse the mount.

use crate::raw::{u16_at, u32_at};
use alloc::vec::Vec;
use core::ops::Range;
use gyre_interface::block::SECTOR_BYTES;
use gyre_interface::files::FileError;

/// The offset of the superblock, bytes.
pub(crate) const SUPERBLOCK_OFFSET: usize = 1024;
/// Its length in bytes.
pub(crate) const SUPERBLOCK_BYTES: usize = 1024;
/// Marks a superblock.
pub(crate) const MAGIC: u16 = 0xef53;
/// The inode of the root directory.
pub(crate) const ROOT: u64 = 2;
/// Bytes of a group descriptor.
pub(crate) const DESCRIPTOR_BYTES: usize = 32;
/// State: unmounted in order.
pub(crate) const STATE_VALID: u16 = 1;

/// Groups that a file system may have here: 8 TiB with usual sizes. Bounds the memory that a hostile superblock can ask for.
const GROUPS_MAX: u32 = 1 << 16;
const BLOCKS_PER_GROUP_MIN: u32 = 256;

const INCOMPAT_FILE_TYPE: u32 = 2;
/// Inodes may have extended attributes.
pub(crate) const COMPAT_EXTENDED_ATTRIBUTES: u32 = 8;
const RO_COMPAT_SPARSE_SUPER: u32 = 1;
pub(crate) const RO_COMPAT_LARGE_FILE: u32 = 2;
const RO_COMPAT_HASHED_DIRECTORIES: u32 = 4;
const RO_COMPAT_KNOWN: u32 = RO_COMPAT_SPARSE_SUPER | RO_COMPAT_LARGE_FILE | RO_COMPAT_HASHED_DIRECTORIES;

/// Offsets in the superblock.
pub(crate) mod field {
    pub(crate) const BLOCKS_FREE: usize = 12;
    pub(crate) const INODES_FREE: usize = 16;
    pub(crate) const WRITTEN_AT: usize = 48;
    pub(crate) const STATE: usize = 58;
    pub(crate) const COMPAT: usize = 92;
    pub(crate) const RO_COMPAT: usize = 100;
}

/// The places of a group's parts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    pub(crate) block_bitmap: u32,
    pub(crate) inode_bitmap: u32,
    pub(crate) inode_table: u32,
    pub(crate) blocks_free: u16,
    pub(crate) inodes_free: u16,
    pub(crate) directories: u16,
    /// From here to the group's end all blocks are files' and directories'.
    data_from: u32,
}

/// The shape of the file system.
#[derive(Clone, Debug)]
pub(crate) struct Geometry {
    pub(crate) block_bytes: usize,
    pub(crate) blocks: u32,
    pub(crate) first_data_block: u32,
    pub(crate) blocks_per_group: u32,
    pub(crate) inodes: u32,
    pub(crate) inodes_per_group: u32,
    pub(crate) inode_bytes: usize,
    pub(crate) first_inode: u32,
    pub(crate) group_count: u32,
    pub(crate) has_file_type: bool,
    pub(crate) only_readable: bool,
    pub(crate) has_extended: bool,
    pub(crate) state: u16,
    sparse_super: bool,
    reserved_descriptor_blocks: u32,
    pub(crate) groups: Vec<Group>,
}

impl Geometry {
    /// Reads a superblock of [`SUPERBLOCK_BYTES`]; the groups are added later.
    pub(crate) fn parse(raw: &[u8], device_sectors: u64) -> Result<Geometry, FileError> {
        if u16_at(raw, 56) != MAGIC {
            return Err(FileError::Invalid);
        }
        let dynamic = u32_at(raw, 76) >= 1;
        let features = |offset| if dynamic { u32_at(raw, offset) } else { 0 };
        let (incompat, ro_compat) = (features(96), features(field::RO_COMPAT));
        if incompat & !INCOMPAT_FILE_TYPE != 0 {
            log::error!(
                "ext2: the disk has features {:#x} that are not supported: make it with mke2fs -t ext2",
                incompat & !INCOMPAT_FILE_TYPE
            );
            return Err(FileError::Unsupported);
        }
        let log_block_size = u32_at(raw, 24);
        if log_block_size > 2 {
            return Err(FileError::Damaged);
        }
        let mut geometry = Geometry {
            block_bytes: 1024 << log_block_size,
            blocks: u32_at(raw, 4),
            first_data_block: u32_at(raw, 20),
            blocks_per_group: u32_at(raw, 32),
            inodes: u32_at(raw, 0),
            inodes_per_group: u32_at(raw, 40),
            inode_bytes: if dynamic { usize::from(u16_at(raw, 88)) } else { 128 },
            first_inode: if dynamic { u32_at(raw, 84) } else { 11 },
            group_count: 0,
            has_file_type: incompat & INCOMPAT_FILE_TYPE != 0,
            only_readable: ro_compat & !RO_COMPAT_KNOWN != 0,
            has_extended: features(field::COMPAT) & COMPAT_EXTENDED_ATTRIBUTES != 0,
            state: u16_at(raw, field::STATE),
            sparse_super: ro_compat & RO_COMPAT_SPARSE_SUPER != 0,
            reserved_descriptor_blocks: u32::from(u16_at(raw, 206)),
            groups: Vec::new(),
        };
        geometry.check(device_sectors)?;
        Ok(geometry)
    }

    fn check(&mut self, device_sectors: u64) -> Result<(), FileError> {
        let bits = (self.block_bytes as u32).saturating_mul(8);
        let sound = self.first_data_block == u32::from(self.block_bytes == 1024)
            && self.blocks > self.first_data_block
            && (BLOCKS_PER_GROUP_MIN..=bits).contains(&self.blocks_per_group)
            && (1..=bits).contains(&self.inodes_per_group)
            && self.inode_bytes.is_power_of_two()
            && (128..=self.block_bytes).contains(&self.inode_bytes)
            && (11..=self.inodes).contains(&self.first_inode)
            && u64::from(self.blocks).checked_mul(self.sectors_per_block()).is_some_and(|end| end <= device_sectors);
        if !sound {
            return Err(FileError::Damaged);
        }
        self.group_count = self.data_blocks().div_ceil(self.blocks_per_group);
        let inodes = self.group_count.checked_mul(self.inodes_per_group);
        if self.group_count > GROUPS_MAX || inodes != Some(self.inodes) {
            return Err(FileError::Damaged);
        }
        Ok(())
    }

    /// Adds a group from its descriptor; its parts must lie in the group and not overlap.
    pub(crate) fn add_group(&mut self, raw: &[u8]) -> Result<(), FileError> {
        let number = self.groups.len() as u32;
        let mut group = Group {
            data_from: u32::MAX,
            block_bitmap: u32_at(raw, 0),
            inode_bitmap: u32_at(raw, 4),
            inode_table: u32_at(raw, 8),
            blocks_free: u16_at(raw, 12),
            inodes_free: u16_at(raw, 14),
            directories: u16_at(raw, 16),
        };
        let (start, end) = self.group_blocks(number);
        let free_from = start.saturating_add(self.header_blocks(number));
        let table_end = group.inode_table.checked_add(self.table_blocks()).ok_or(FileError::Damaged)?;
        let behind = |block: u32| block.checked_add(1).ok_or(FileError::Damaged);
        let in_table = |block| (group.inode_table..table_end).contains(&block);
        let sound = [group.block_bitmap, group.inode_bitmap]
            .iter()
            .all(|block| (free_from..end).contains(block) && !in_table(*block))
            && group.block_bitmap != group.inode_bitmap
            && group.inode_table >= free_from
            && table_end <= end;
        if !sound {
            return Err(FileError::Damaged);
        }
        group.data_from = table_end.max(free_from).max(behind(group.block_bitmap)?).max(behind(group.inode_bitmap)?);
        self.groups.push(group);
        Ok(())
    }

    pub(crate) fn sectors_per_block(&self) -> u64 {
        (self.block_bytes / SECTOR_BYTES) as u64
    }

    /// Returns the first block of a group, and the one behind its last.
    #[expect(clippy::arithmetic_side_effects, reason = "products and sums of numbers of 32 bits in 64")]
    pub(crate) fn group_blocks(&self, group: u32) -> (u32, u32) {
        let start = u64::from(self.first_data_block) + u64::from(group) * u64::from(self.blocks_per_group);
        let end = (start + u64::from(self.blocks_per_group)).min(u64::from(self.blocks));
        (start.min(end) as u32, end as u32)
    }

    /// Blocks from the first one that belongs to a group on.
    pub(crate) fn data_blocks(&self) -> u32 {
        self.blocks.saturating_sub(self.first_data_block)
    }

    /// Returns the group of an inode.
    #[expect(clippy::arithmetic_side_effects, reason = "a group has inodes: checked at mount")]
    pub(crate) fn group_of_inode(&self, inode: u32) -> u32 {
        inode.saturating_sub(1) / self.inodes_per_group
    }

    /// Blocks of a group's inode table.
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "at most 65,536 groups, with inodes and blocks for a bitmap of one block: checked at mount"
    )]
    pub(crate) fn table_blocks(&self) -> u32 {
        (self.inodes_per_group as usize * self.inode_bytes).div_ceil(self.block_bytes) as u32
    }

    /// Blocks of the group descriptors.
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "at most 65,536 groups, with inodes and blocks for a bitmap of one block: checked at mount"
    )]
    pub(crate) fn descriptor_blocks(&self) -> u32 {
        (self.group_count as usize * DESCRIPTOR_BYTES).div_ceil(self.block_bytes) as u32
    }

    /// The first block of the group descriptors.
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "at most 65,536 groups, with inodes and blocks for a bitmap of one block: checked at mount"
    )]
    pub(crate) fn descriptors_start(&self) -> u32 {
        self.first_data_block + 1
    }

    /// Blocks at a group's start that hold copies of the superblock and the descriptors.
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "at most 65,536 groups, with inodes and blocks for a bitmap of one block: checked at mount"
    )]
    pub(crate) fn header_blocks(&self, group: u32) -> u32 {
        let power_of = |base: u32| {
            let mut power = base;
            while power < group {
                power = power.saturating_mul(base);
            }
            power == group
        };
        let has_copy = group <= 1 || !self.sparse_super || [3, 5, 7].into_iter().any(power_of);
        if has_copy { 1 + self.descriptor_blocks() + self.reserved_descriptor_blocks } else { 0 }
    }

    /// The group of a block.
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "at most 65,536 groups, with inodes and blocks for a bitmap of one block: checked at mount"
    )]
    pub(crate) fn group_of_block(&self, block: u32) -> u32 {
        block.saturating_sub(self.first_data_block) / self.blocks_per_group
    }

    /// True for blocks that files and directories may own.
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "at most 65,536 groups, with inodes and blocks for a bitmap of one block: checked at mount"
    )]
    pub(crate) fn is_data_block(&self, block: u32) -> bool {
        if block < self.first_data_block || block >= self.blocks {
            return false;
        }
        let number = self.group_of_block(block);
        let Some(group) = self.groups.get(number as usize) else {
            return false;
        };
        if block >= group.data_from {
            return true;
        }
        let (start, _) = self.group_blocks(number);
        block >= start.saturating_add(self.header_blocks(number))
            && block != group.block_bitmap
            && block != group.inode_bitmap
            && !(group.inode_table..group.inode_table + self.table_blocks()).contains(&block)
    }

    /// Returns the range of blocks, from one that files may own, that are all such: to the end of its group if its
    /// tables lie before it.
    pub(crate) fn data_blocks_from(&self, block: u32) -> Range<u32> {
        let number = self.group_of_block(block);
        let is_behind = self.groups.get(number as usize).is_some_and(|group| block >= group.data_from);
        let end = if is_behind { self.group_blocks(number).1 } else { block.saturating_add(1) };
        block..end
    }

    /// Returns whether a block holds information on several files: one that no file or directory may own.
    pub(crate) fn is_shared(&self, block: u32) -> bool {
        block < self.blocks && !self.is_data_block(block)
    }

    /// Block and offset in it of an inode; `None` for numbers that do not exist.
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "at most 65,536 groups, with inodes and blocks for a bitmap of one block: checked at mount"
    )]
    pub(crate) fn inode_place(&self, inode: u64) -> Option<(u32, usize)> {
        let index = u32::try_from(inode).ok()?.checked_sub(1).filter(|_| inode <= u64::from(self.inodes))?;
        let group = self.groups.get((index / self.inodes_per_group) as usize)?;
        let offset = (index % self.inodes_per_group) as usize * self.inode_bytes;
        Some((group.inode_table + (offset / self.block_bytes) as u32, offset % self.block_bytes))
    }

    /// Returns whether a name may lead to an inode.
    pub(crate) fn is_usable_inode(&self, inode: u64) -> bool {
        inode == ROOT || (u64::from(self.first_inode)..=u64::from(self.inodes)).contains(&inode)
    }
}
