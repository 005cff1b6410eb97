//! The map from blocks of a file to blocks of the device, through up to three levels of pointers.
//!
//! ```text
//! inode: 12 pointers to data | 1 to a block of pointers | 1 of two levels | 1 of three levels
//! ```
//!
//! [`Path`] is the way to one block: the inode's pointer, then an index in each indirect block. Every pointer is
//! checked before it is used (it must be one that files may own). Look-ups wait only for blocks of pointers that are
//! not cached; the forms without waiting answer [`Unmapped`] then.

use crate::Ext2;
use crate::inode::POINTERS;
use crate::node::Node;
use gyre_interface::files::FileError;
use gyre_object::Page;
use smallvec::SmallVec;

/// Bytes of a pointer.
const POINTER_BYTES: usize = 4;
/// Pointers that are copied from an indirect block at once.
const POINTERS_AT_ONCE: usize = 32;
/// Returns the offset of a pointer in a block of pointers.
#[expect(clippy::arithmetic_side_effects, reason = "a block has at most 1024 pointers")]
pub(crate) fn place_of(slot: usize) -> usize {
    slot * POINTER_BYTES
}

/// Direct pointers.
pub(crate) const DIRECT: usize = 12;

/// Blocks of the device, in the order of a file.
pub(crate) type Blocks = SmallVec<[u32; 16]>;

/// The way to the pointer of a file's block: the inode's pointer, then an index in each indirect block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Path {
    pub(crate) root: usize,
    indices: [usize; 3],
    pub(crate) depth: usize,
}

impl Path {
    /// The path of a block; `None` beyond the largest file.
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "the rest was compared before; the largest span is that of three levels"
    )]
    pub(crate) fn of(index: u64, pointers_per_block: u64) -> Option<Path> {
        let mut rest = index;
        if rest < DIRECT as u64 {
            return Some(Path { root: rest as usize, indices: [0; 3], depth: 0 });
        }
        rest -= DIRECT as u64;
        let mut span = pointers_per_block;
        for depth in 1..=3 {
            if rest < span {
                return Some(Path { root: DIRECT + depth - 1, indices: split(rest, depth, pointers_per_block), depth });
            }
            rest -= span;
            span = span.checked_mul(pointers_per_block)?;
        }
        None
    }

    /// Returns the index in each indirect block, from the inode downwards.
    pub(crate) fn steps(&self) -> &[usize] {
        self.indices.get(..self.depth).unwrap_or(&[])
    }
}

#[expect(clippy::arithmetic_side_effects, reason = "a block has at least 256 pointers")]
fn split(mut rest: u64, depth: usize, base: u64) -> [usize; 3] {
    let mut indices = [0; 3];
    for index in indices.iter_mut().take(depth).rev() {
        *index = (rest % base) as usize;
        rest /= base;
    }
    indices
}

/// Why blocks are not known now.
pub(crate) enum Unmapped {
    /// This block of pointers is not in memory.
    Absent(u32),
    /// They are never to be had.
    Wrong(FileError),
}

impl From<FileError> for Unmapped {
    fn from(error: FileError) -> Unmapped {
        Unmapped::Wrong(error)
    }
}

impl Ext2 {
    pub(crate) fn pointers_per_block(&self) -> u64 {
        self.geometry.block_bytes as u64 / 4
    }

    pub(crate) fn path(&self, index: u64) -> Result<Path, FileError> {
        Path::of(index, self.pointers_per_block()).ok_or(FileError::TooLarge)
    }

    /// Returns a pointer from the disk: 0, or a block that a file may own.
    pub(crate) fn checked(&self, block: u32) -> Result<u32, FileError> {
        if block == 0 || self.geometry.is_data_block(block) { Ok(block) } else { Err(FileError::Damaged) }
    }

    /// Returns the block of the device behind a block of a node; 0 for a hole. The caller holds the lock.
    pub(crate) async fn map(&'static self, node: &Node, index: u64) -> Result<u32, FileError> {
        let path = self.path(index)?;
        let root = node.state.lock().inode.pointers.get(path.root).copied().unwrap_or(0);
        let root = self.checked(root)?;
        let Some((last, _)) = path.steps().split_last() else { return Ok(root) };
        match self.leaf(root, path).await? {
            Some(page) => self.checked(self.pointer(&page, *last)),
            None => Ok(0),
        }
    }

    /// Returns the blocks of the device behind `count` blocks of a node. The caller holds the lock.
    pub(crate) async fn map_run(&'static self, node: &Node, first: u64, count: usize) -> Result<Blocks, FileError> {
        // Held, so that they are still there when the next one is.
        let mut pointers: SmallVec<[Page; 2]> = SmallVec::new();
        loop {
            match self.map_run_now(node, first, count) {
                Err(Unmapped::Absent(block)) => pointers.push(self.block(block).await?),
                Err(Unmapped::Wrong(error)) => return Err(error),
                Ok(blocks) => return Ok(blocks),
            }
        }
    }

    /// Maps as [`Ext2::map_run`] does, without waiting.
    #[expect(clippy::arithmetic_side_effects, reason = "places in a file lie below the largest file")]
    pub(crate) fn map_run_now(&self, node: &Node, first: u64, count: usize) -> Result<Blocks, Unmapped> {
        let roots: [u32; POINTERS] = node.state.lock().inode.pointers;
        let mut blocks = Blocks::with_capacity(count);
        let (mut index, end) = (first, first.saturating_add(count as u64));
        while index < end {
            let path = self.path(index)?;
            let root = self.checked(roots.get(path.root).copied().unwrap_or(0))?;
            let Some((last, _)) = path.steps().split_last() else {
                blocks.push(root);
                index += 1;
                continue;
            };
            let leaf = self.leaf_now(root, path)?;
            let here = (self.pointers_per_block() - *last as u64).min(end - index);
            match &leaf {
                Some(page) => self.add_pointers(page, *last, here as usize, &mut blocks)?,
                None => blocks.resize(blocks.len() + here as usize, 0),
            }
            index += here;
        }
        Ok(blocks)
    }

    /// Adds the blocks behind `count` pointers of an indirect block, from `first` on.
    #[expect(clippy::arithmetic_side_effects, reason = "pointers of one block")]
    fn add_pointers(&self, page: &Page, first: usize, count: usize, blocks: &mut Blocks) -> Result<(), FileError> {
        let mut raw = [0; POINTERS_AT_ONCE * POINTER_BYTES];
        // Neighbours are mostly of one group: a check of one block holds for the range.
        let mut sound = 0..0;
        for start in (first..first + count).step_by(POINTERS_AT_ONCE) {
            let some = POINTERS_AT_ONCE.min(first + count - start);
            let raw = raw.get_mut(..some * POINTER_BYTES).unwrap_or_default();
            page.read(start * POINTER_BYTES, raw);
            for pointer in raw.chunks_exact(POINTER_BYTES) {
                let block = crate::raw::u32_at(pointer, 0);
                if !sound.contains(&block) && self.checked(block)? != 0 {
                    sound = self.geometry.data_blocks_from(block);
                }
                blocks.push(block);
            }
        }
        Ok(())
    }

    /// Returns the last indirect block of a path, if there is one, if all of them are in memory.
    fn leaf_now(&self, root: u32, path: Path) -> Result<Option<Page>, Unmapped> {
        let look = |block| self.cache.get(self.device_key(block)).ok_or(Unmapped::Absent(block));
        let mut block = root;
        let inner = path.steps().split_last().map_or(&[][..], |(_, inner)| inner);
        for step in inner {
            if block == 0 {
                return Ok(None);
            }
            block = self.checked(self.pointer(&look(block)?, *step))?;
        }
        if block == 0 { Ok(None) } else { look(block).map(Some) }
    }

    /// Returns the last indirect block of a path, if there is one.
    async fn leaf(&'static self, root: u32, path: Path) -> Result<Option<Page>, FileError> {
        let mut block = root;
        let inner = path.steps().split_last().map_or(&[][..], |(_, inner)| inner);
        for step in inner {
            if block == 0 {
                return Ok(None);
            }
            let page = self.block(block).await?;
            block = self.checked(self.pointer(&page, *step))?;
        }
        if block == 0 { Ok(None) } else { self.block(block).await.map(Some) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_the_block_they_were_made_of() {
        for base in [256, 512, 1024_u64] {
            let edges = [0, 11, 12, 12 + base - 1, 12 + base, 12 + base + base * base - 1, 12 + base + base * base];
            for index in edges.into_iter().flat_map(|edge| edge.saturating_sub(2)..edge + 3) {
                let path = Path::of(index, base).unwrap();
                let value = path.steps().iter().fold(0, |value, step| value * base + *step as u64);
                let before: u64 = [0, 12, 12 + base, 12 + base + base * base][path.depth];
                let direct = if path.depth == 0 { path.root as u64 } else { 0 };
                assert_eq!(before + value + direct, index);
            }
            assert_eq!(Path::of(12 + base + base * base + base * base * base, base), None);
        }
    }
}
