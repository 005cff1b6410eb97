//! An index of a large directory in memory, built when it is first searched: from names to blocks, and how much room each block has.
//!
//! The hashed directories of the format (`dir_index`) are read linearly and lose their index on the disk when they change; this one
//! never reaches the disk, so that no crash can damage it. It is kept with the node in memory and goes with it.

use crate::Ext2;
use crate::directory;
use crate::node::Node;
use crate::walk::DirectoryBlock;
use alloc::vec::Vec;
use gyre_interface::files::FileError;
use hashbrown::HashTable;

/// Blocks up to which a directory is searched from its start.
const LINEAR_BLOCKS: u64 = 1;

/// The blocks in which a directory's names are.
#[derive(Default)]
pub(crate) struct Index {
    /// Tags of names with the block that holds them, 8 bytes each.
    names: HashTable<(u32, u32)>,
    /// The longest entry that may fit in each block, bytes: none is longer, the longest may be shorter.
    room: Vec<u16>,
}

/// Returns the FNV-1a hash, folded.
fn tag_of(name: &[u8]) -> u32 {
    let hash = name
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3));
    (hash ^ hash >> 32) as u32
}

fn spread(entry: &(u32, u32)) -> u64 {
    u64::from(entry.0).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Index {
    /// Adds the names of a block; false if there is no memory.
    fn read_block(&mut self, index: u64, contents: &[u8]) -> Result<bool, FileError> {
        for entry in directory::entries(contents) {
            let entry = entry?;
            if entry.inode != 0 && !self.add(index, entry.name) {
                return Ok(false);
            }
        }
        self.set_room(index, contents)?;
        Ok(true)
    }

    fn add(&mut self, index: u64, name: &[u8]) -> bool {
        if self.names.try_reserve(1, spread).is_err() {
            return false;
        }
        let entry = (tag_of(name), index as u32);
        self.names.insert_unique(spread(&entry), entry, spread);
        true
    }

    fn remove(&mut self, index: u64, name: &[u8]) {
        let entry = (tag_of(name), index as u32);
        if let Ok(found) = self.names.find_entry(spread(&entry), |other| *other == entry) {
            found.remove();
        }
    }

    fn raise_room(&mut self, index: u64, room: usize) {
        let place = self.room.get_mut(index as usize);
        place.into_iter().for_each(|place| *place = (*place).max(room.min(usize::from(u16::MAX)) as u16));
    }

    fn set_room(&mut self, index: u64, contents: &[u8]) -> Result<(), FileError> {
        let room = directory::largest_room(contents)?.min(usize::from(u16::MAX)) as u16;
        let index = index as usize;
        if index >= self.room.len() {
            self.room.resize(index.saturating_add(1), 0);
        }
        self.room.get_mut(index).into_iter().for_each(|place| *place = room);
        Ok(())
    }

    fn blocks_of(&self, name: &[u8]) -> Vec<u64> {
        let tag = tag_of(name);
        let found = self.names.iter_hash(spread(&(tag, 0))).filter(|entry| entry.0 == tag);
        let mut blocks: Vec<u64> = found.map(|entry| u64::from(entry.1)).collect();
        blocks.sort_unstable();
        blocks.dedup();
        blocks
    }
}

/// The change of a block's names.
#[derive(Clone, Copy, Default)]
pub(crate) struct NamesChanged<'a> {
    pub(crate) added: Option<&'a [u8]>,
    /// With the longest entry that fits in its place, bytes.
    pub(crate) removed: Option<(&'a [u8], usize)>,
}

impl Ext2 {
    /// Returns the blocks in which a name may be, in order. The caller holds the directory's lock.
    pub(crate) async fn candidates(&'static self, directory: &Node, name: &[u8]) -> Result<Vec<u64>, FileError> {
        let blocks = self.directory_blocks(directory)?;
        if blocks > LINEAR_BLOCKS {
            self.build_index(directory, blocks).await?;
            if let Some(index) = &*directory.index.lock() {
                return Ok(index.blocks_of(name));
            }
        }
        Ok((0..blocks).collect())
    }

    /// Returns the blocks in which a new name may fit, in order. The caller holds the directory's lock.
    pub(crate) async fn roomy_blocks(&'static self, directory: &Node, name: &[u8]) -> Result<Vec<u64>, FileError> {
        let blocks = self.directory_blocks(directory)?;
        if blocks > LINEAR_BLOCKS {
            self.build_index(directory, blocks).await?;
            if let Some(index) = &*directory.index.lock() {
                let needed = directory::entry_bytes(name.len());
                let first = index.room.iter().position(|room| usize::from(*room) >= needed);
                return Ok(first.map(|index| index as u64).into_iter().collect());
            }
        }
        Ok((0..blocks).collect())
    }

    /// Reads the whole directory once. Without memory for it there is no index, and searches are linear.
    async fn build_index(&'static self, directory: &Node, blocks: u64) -> Result<(), FileError> {
        if directory.index.lock().is_some() {
            return Ok(());
        }
        let mut index = Index::default();
        for number in 0..blocks {
            let block = self.directory_block(directory, number).await?;
            if !index.read_block(number, self.contents(&block.page))? {
                return Ok(());
            }
        }
        let before = directory.index.lock().replace(index);
        drop(before);
        Ok(())
    }

    /// Keeps the index true to a block whose contents are about to be `contents`. The caller holds the directory's lock exclusively.
    pub(crate) fn reindex(&self, directory: &Node, block: &DirectoryBlock, contents: &[u8], names: NamesChanged<'_>) {
        let mut place = directory.index.lock();
        let Some(index) = &mut *place else { return };
        if let Some((name, room)) = names.removed {
            index.remove(block.index, name);
            index.raise_room(block.index, room);
        }
        let added = names.added.is_none_or(|name| index.add(block.index, name));
        let is_new = block.index >= index.room.len() as u64;
        if !added || is_new && index.set_room(block.index, contents).is_err() {
            *place = None;
        }
    }

    /// Looks how much room a block has that had less than was thought; false if there is no index.
    pub(crate) fn correct_room(&self, directory: &Node, block: &DirectoryBlock) -> Result<bool, FileError> {
        let mut place = directory.index.lock();
        let Some(index) = &mut *place else { return Ok(false) };
        index.set_room(block.index, self.contents(&block.page)).map(|()| true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::vec;

    #[test]
    fn names_are_found_in_their_blocks_until_they_are_removed() {
        let mut index = Index::default();
        for number in 0..5_000_u64 {
            assert!(index.add(number / 100, format!("name{number}").as_bytes()));
        }
        assert!((0..5_000).all(|number| index.blocks_of(format!("name{number}").as_bytes()).contains(&(number / 100))));
        assert!(index.blocks_of(b"other").len() < 2);
        index.remove(7, b"name700");
        assert!(!index.blocks_of(b"name700").contains(&7));
    }

    #[test]
    fn room_follows_the_contents() {
        let mut index = Index::default();
        let mut block = vec![0; 1024];
        directory::empty_block(&mut block);
        index.set_room(3, &block).unwrap();
        assert_eq!(index.room, [0, 0, 0, 512]);
        for name in [b"a name", b"b name"] {
            directory::insert(&mut block, 12, 1, &[&name[..], &[b'x'; 200]].concat()).unwrap();
        }
        index.set_room(3, &block).unwrap();
        assert_eq!(index.room[3], 512, "the other sector is empty");
        directory::insert(&mut block, 12, 1, &[b'y'; 250]).unwrap();
        index.set_room(3, &block).unwrap();
        assert_eq!(index.room[3], 512 - 260);
    }
}
