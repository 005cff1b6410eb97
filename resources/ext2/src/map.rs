//! From blocks of a file to blocks of the device, through up to three levels of pointers.

use crate::Ext2;
use crate::inode::POINTERS;
use crate::node::Node;
use alloc::vec::Vec;
use gyre_interface::files::FileError;
use gyre_object::Page;

/// Pointers that are copied at once.
const POINTERS_AT_ONCE: usize = 16;
/// Direct pointers.
pub(crate) const DIRECT: usize = 12;

/// Where the pointer to a block of a file lies: the inode's pointer, then an index in each indirect block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Path {
    pub(crate) root: usize,
    indices: [usize; 3],
    pub(crate) depth: usize,
}

impl Path {
    /// The path of a block; `None` beyond the largest file.
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

    /// The index in each indirect block, from the inode downwards.
    pub(crate) fn steps(&self) -> &[usize] {
        self.indices.get(..self.depth).unwrap_or(&[])
    }
}

fn split(mut rest: u64, depth: usize, base: u64) -> [usize; 3] {
    let mut indices = [0; 3];
    for index in indices.iter_mut().take(depth).rev() {
        *index = (rest % base) as usize;
        rest /= base;
    }
    indices
}

impl Ext2 {
    pub(crate) fn pointers_per_block(&self) -> u64 {
        self.geometry.block_bytes as u64 / 4
    }

    pub(crate) fn path(&self, index: u64) -> Result<Path, FileError> {
        Path::of(index, self.pointers_per_block()).ok_or(FileError::TooLarge)
    }

    /// A pointer from the disk: 0, or a block that a file may own.
    pub(crate) fn checked(&self, block: u32) -> Result<u32, FileError> {
        if block == 0 || self.geometry.is_data_block(block) { Ok(block) } else { Err(FileError::Damaged) }
    }

    /// The block of the device behind a block of a node; 0 for a hole. The caller holds the gate.
    pub(crate) async fn map(&'static self, node: &Node, index: u64) -> Result<u32, FileError> {
        Ok(self.map_run(node, index, 1).await?.first().copied().unwrap_or(0))
    }

    /// The blocks of the device behind `count` blocks of a node. The caller holds the gate.
    pub(crate) async fn map_run(&'static self, node: &Node, first: u64, count: usize) -> Result<Vec<u32>, FileError> {
        let roots: [u32; POINTERS] = node.state.lock().inode.pointers;
        let end = first.saturating_add(count as u64);
        let mut blocks = Vec::with_capacity(count);
        let mut index = first;
        while index < end {
            let path = self.path(index)?;
            let root = self.checked(roots.get(path.root).copied().unwrap_or(0))?;
            let Some((slot, _)) = path.steps().split_last() else {
                blocks.push(root);
                index += 1;
                continue;
            };
            let together = (end - index).min(self.pointers_per_block() - *slot as u64);
            match self.leaf(root, path).await? {
                Some(page) => self.add_pointers(&page, *slot, together as usize, &mut blocks)?,
                None => blocks.resize(blocks.len() + together as usize, 0),
            }
            index += together;
        }
        Ok(blocks)
    }

    /// Adds `count` pointers of an indirect block from `slot` on.
    fn add_pointers(&self, page: &Page, slot: usize, count: usize, blocks: &mut Vec<u32>) -> Result<(), FileError> {
        let mut raw = [0; 4 * POINTERS_AT_ONCE];
        for from in (slot..slot + count).step_by(POINTERS_AT_ONCE) {
            let bytes = (slot + count - from).min(POINTERS_AT_ONCE) * 4;
            let raw = raw.get_mut(..bytes).unwrap_or(&mut []);
            page.read(from * 4, raw);
            for pointer in raw.as_chunks().0 {
                blocks.push(self.checked(u32::from_le_bytes(*pointer))?);
            }
        }
        Ok(())
    }

    /// The last indirect block of a path, if there is one.
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
