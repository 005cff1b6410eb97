//! The places of metadata in an image of one group or more, as mke2fs lays it out.

use std::ops::Range;

/// Bytes of the superblock that say something, and of one group's descriptor.
const SUPERBLOCK_BYTES: usize = 236;
const DESCRIPTOR_BYTES: usize = 32;
/// Fields of an inode: its mode, its flags, its pointers and the block of its extended attributes.
const POINTERS: usize = 40;
const ATTRIBUTES: usize = 104;
const DIRECT: usize = 12;

/// An image whose numbers are right.
pub struct Layout<'a> {
    image: &'a [u8],
    pub block_bytes: usize,
    pub inode_bytes: usize,
}

impl<'a> Layout<'a> {
    pub fn of(image: &'a [u8]) -> Layout<'a> {
        let mut layout = Layout { image, block_bytes: 0, inode_bytes: 0 };
        layout.block_bytes = 1024 << layout.word(layout.superblock(24));
        layout.inode_bytes = layout.half(layout.superblock(88));
        layout
    }

    pub fn word(&self, at: usize) -> usize {
        u32::from_le_bytes(self.image[at..at + 4].try_into().unwrap()) as usize
    }

    pub fn half(&self, at: usize) -> usize {
        usize::from(u16::from_le_bytes(self.image[at..at + 2].try_into().unwrap()))
    }

    fn superblock(&self, field: usize) -> usize {
        1024 + field
    }

    fn descriptors(&self) -> usize {
        (self.word(self.superblock(20)) + 1) * self.block_bytes
    }

    fn groups(&self) -> usize {
        self.word(self.superblock(0)) / self.word(self.superblock(40))
    }

    /// Returns the places of all inodes in use.
    pub fn inodes(&self) -> Vec<usize> {
        let (inodes, per_group) = (self.word(self.superblock(0)), self.word(self.superblock(40)));
        let place = |inode: usize| {
            let table = self.word(self.descriptors() + inode / per_group * DESCRIPTOR_BYTES + 8) * self.block_bytes;
            table + inode % per_group * self.inode_bytes
        };
        (0..inodes).map(place).filter(|at| self.half(*at) != 0).collect()
    }

    fn block(&self, number: usize) -> Option<Range<usize>> {
        let start = number * self.block_bytes;
        (number != 0).then_some(start..start + self.block_bytes)
    }

    /// Returns metadata by what it is: superblock, descriptors, bitmaps, inodes, indirect blocks, directories, extended attributes.
    pub fn metadata(&self) -> [Vec<Range<usize>>; 7] {
        let descriptors = (0..self.groups()).map(|group| self.descriptors() + group * DESCRIPTOR_BYTES);
        let bitmaps = descriptors.clone().flat_map(|at| [at, at + 4]).filter_map(|at| self.block(self.word(at)));
        // Behind them there are only bits of what does not exist.
        let bitmaps = bitmaps.map(|block| block.start..block.start + 136);
        let inodes = self.inodes();
        let field = |at: usize| self.block(self.word(at));
        let pointers = |at: &usize, from: usize, to: usize| -> Vec<Range<usize>> {
            (from..to).filter_map(|slot| field(at + POINTERS + 4 * slot)).collect()
        };
        let is_a = |at: usize, kind: usize| self.half(at) >> 12 == kind;
        let with_blocks = inodes.iter().filter(|at| is_a(**at, 4) || is_a(**at, 8));
        let single: Vec<_> = with_blocks.clone().flat_map(|at| pointers(at, DIRECT, DIRECT + 1)).collect();
        let double: Vec<_> = with_blocks.flat_map(|at| pointers(at, DIRECT + 1, DIRECT + 2)).collect();
        let below = double.iter().flat_map(|block| block.clone().step_by(4)).filter_map(field).collect::<Vec<_>>();
        let directories = inodes.iter().filter(|at| is_a(**at, 4)).flat_map(|at| pointers(at, 0, DIRECT));
        let attributes = inodes.iter().filter_map(|at| field(at + ATTRIBUTES));
        [
            std::iter::once(1024..1024 + SUPERBLOCK_BYTES).collect(),
            descriptors.map(|at| at..at + DESCRIPTOR_BYTES).collect(),
            bitmaps.collect(),
            inodes.iter().map(|at| *at..at + self.inode_bytes).collect(),
            [single, double, below].concat(),
            directories.collect(),
            attributes.collect(),
        ]
    }
}
