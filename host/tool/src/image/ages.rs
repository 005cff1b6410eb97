//! The ages in an image: equal inputs make equal bytes, whenever the image is made.
//!
//! `mke2fs` takes all times of a file from the host, where nobody can choose when a file was last looked at (atime) or given to somebody (ctime).
//! So they are written here, into the inodes of an ext2 file system that nobody uses yet:
//!
//! * A file keeps its age (mtime); this is all its other times, too. Whoever makes one with the image gives it [`MADE_S`].
//! * Folders, links and pipes have that age.
//!
//! Source: the Linux kernel's documentation of ext4, "Super Block", "Block Group Descriptors", "Index Nodes"; ext2 has the same places.

use std::{fs::File, io, os::unix::fs::FileExt as _, path::Path};

use crate::failure::{Context as _, Result};

/// The age of what is made with an image, seconds since 1970.
pub const MADE_S: i64 = 1_735_689_600;

const SUPERBLOCK_AT: u64 = 1024;
const GROUP_BYTES: u64 = 32;
const KIND: u16 = 0xf000;
const REGULAR: u16 = 0x8000;
/// Bytes of an inode that has nanoseconds for its times, and the time when it was made.
const INODE_BYTES: usize = 256;

/// Writes the ages of all files.
///
/// # Errors
/// When the image cannot be read or written.
pub fn settle(image: &Path) -> Result<()> {
    let open = || File::options().read(true).write(true).open(image);
    let settled = open().and_then(|file| Inodes::of(file)?.settle());
    settled.context(|| format!("cannot write the ages of {}", image.display()))
}

/// The inodes of a file system.
struct Inodes {
    file: File,
    block_bytes: u64,
    /// The first block of group descriptors.
    groups_at: u64,
    in_group: u64,
    count: u64,
}

impl Inodes {
    fn of(file: File) -> io::Result<Self> {
        let mut block = [0; 264];
        file.read_exact_at(&mut block, SUPERBLOCK_AT)?;
        let word = |at| u64::from(word(&block, at));
        let block_bytes = 1024 << word(24).min(6);
        let inode_bytes = usize::from(half(&block, 88));
        if half(&block, 56) != 0xef53 || inode_bytes != INODE_BYTES || word(40) == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it is no ext2 as mke2fs makes it"));
        }
        Ok(Self { file, block_bytes, groups_at: word(20) + 1, in_group: word(40), count: word(0) })
    }

    fn settle(&self) -> io::Result<()> {
        let table_bytes = usize::try_from(self.in_group).unwrap_or(usize::MAX).saturating_mul(INODE_BYTES);
        let mut table = vec![0; table_bytes];
        for group in 0..self.count.div_ceil(self.in_group) {
            let mut descriptor = [0; GROUP_BYTES as usize];
            self.file.read_exact_at(&mut descriptor, self.groups_at * self.block_bytes + group * GROUP_BYTES)?;
            let at = u64::from(word(&descriptor, 8)) * self.block_bytes;
            self.file.read_exact_at(&mut table, at)?;
            for (index, inode) in (0u64..).zip(table.chunks_exact_mut(INODE_BYTES)) {
                if half(inode, 26) != 0 {
                    age(inode);
                    self.file.write_all_at(inode, at + index * INODE_BYTES as u64)?;
                }
            }
        }
        Ok(())
    }
}

/// Gives an inode one age, at all its places.
fn age(inode: &mut [u8]) {
    let age_s = if half(inode, 0) & KIND == REGULAR { word(inode, 16) } else { MADE_S as u32 };
    // atime, ctime, mtime, and when it was made; then the nanoseconds of ctime, mtime, atime, and of that.
    for at in [8, 12, 16, 144] {
        inode[at..at + 4].copy_from_slice(&age_s.to_le_bytes());
    }
    for at in [132, 136, 140, 148] {
        inode[at..at + 4].fill(0);
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_le_bytes)
}

fn half(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).and_then(|bytes| bytes.try_into().ok()).map_or(0, u16::from_le_bytes)
}
