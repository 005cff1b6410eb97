//! Extended attributes as bytes: in the free end of an inode, and in a block of their own.
//!
//! ```text
//!   inode: magic u32 | entries ... 0 u32 | ... values, from the end backwards; offsets count from the first entry
//!   block: magic u32, users u32, blocks u32 (1), hash u32, 16 bytes | entries ... 0 u32 | ... values; offsets count from the block
//!   entry: name length u8 | prefix u8 | value offset u16 | 0 u32 | value bytes u32 | hash u32 | name, padded to 4 bytes
//! ```

use crate::inode::ATTRIBUTES_MAGIC;
use crate::raw::{put_u16, put_u32, u16_at, u32_at};
use alloc::vec;
use alloc::vec::Vec;
use gyre_interface::files::FileError;

const ENTRY_BYTES: usize = 16;
/// Bytes before the entries of a block.
const BLOCK_HEADER_BYTES: usize = 32;
/// Bytes before the entries in an inode.
const INODE_HEADER_BYTES: usize = 4;

/// Prefixes by their numbers in the format. Access control lists (2, 3) have a form of their own and are not offered.
const PREFIXES: [(u8, &[u8]); 3] = [(1, b"user."), (4, b"trusted."), (6, b"security.")];

/// An attribute.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Attribute {
    pub(crate) prefix: u8,
    /// Without the prefix.
    pub(crate) name: Vec<u8>,
    pub(crate) value: Vec<u8>,
}

impl Attribute {
    /// Returns the whole name; `None` for prefixes that are not offered here.
    pub(crate) fn full_name(&self) -> Option<Vec<u8>> {
        let (_, prefix) = PREFIXES.iter().find(|(number, _)| *number == self.prefix)?;
        Some([prefix, &self.name[..]].concat())
    }

    #[expect(clippy::arithmetic_side_effects, reason = "a name has at most 255 bytes")]
    fn entry_bytes(&self) -> usize {
        ENTRY_BYTES + self.name.len().next_multiple_of(4)
    }

    /// Returns the bytes that it takes.
    fn bytes(&self) -> usize {
        self.value
            .len()
            .checked_next_multiple_of(4)
            .and_then(|value| value.checked_add(self.entry_bytes()))
            .unwrap_or(usize::MAX)
    }

    /// Returns the hash that e2fsck compares (e2fsprogs `ext2fs_ext_attr_hash_entry`): of the name, then of the value in words.
    fn hash(&self) -> u32 {
        let name = self.name.iter().fold(0_u32, |hash, byte| hash.rotate_left(5) ^ u32::from(*byte));
        let word = |bytes: &[u8]| bytes.iter().rev().fold(0_u32, |word, byte| word << 8 | u32::from(*byte));
        self.value.chunks(4).fold(name, |hash, bytes| hash.rotate_left(16) ^ word(bytes))
    }
}

/// Returns the number of the prefix and the rest of a whole name.
///
/// # Errors
/// [`FileError::Unsupported`] for other prefixes, [`FileError::Invalid`] for names that are only a prefix.
pub(crate) fn split_name(name: &[u8]) -> Result<(u8, &[u8]), FileError> {
    let split = |(number, prefix): &(u8, &[u8])| name.strip_prefix(*prefix).map(|rest| (*number, rest));
    match PREFIXES.iter().find_map(split) {
        Some((_, b"")) => Err(FileError::Invalid),
        Some((_, rest)) if rest.len() > 255 => Err(FileError::NameTooLong),
        found => found.ok_or(FileError::Unsupported),
    }
}

/// Reads entries from `start` on; offsets of values count from `base`.
fn decode(raw: &[u8], start: usize, base: usize) -> Result<Vec<Attribute>, FileError> {
    let mut found = Vec::new();
    let mut at = start;
    while u32_at(raw, at) != 0 {
        let rest = raw.get(at..).unwrap_or(&[]);
        let (entry, rest) = rest.split_at_checked(ENTRY_BYTES).ok_or(FileError::Damaged)?;
        let name_bytes = usize::from(entry.first().copied().unwrap_or(0));
        let prefix = entry.get(1).copied().unwrap_or(0);
        let (offset, bytes) = (usize::from(u16_at(entry, 2)), u32_at(entry, 8) as usize);
        let name = rest.get(..name_bytes).ok_or(FileError::Damaged)?;
        let values = base.checked_add(offset).and_then(|start| raw.get(start..)).unwrap_or(&[]);
        // Values in inodes of their own belong to a format that is refused at mount.
        if u32_at(entry, 4) != 0 {
            return Err(FileError::Damaged);
        }
        let value = values.get(..bytes).ok_or(FileError::Damaged)?;
        let attribute = Attribute { prefix, name: name.to_vec(), value: value.to_vec() };
        at = at.saturating_add(attribute.entry_bytes());
        found.push(attribute);
    }
    Ok(found)
}

/// Returns attributes in an inode's own space, its magic number included.
///
/// # Errors
/// [`FileError::Damaged`].
pub(crate) fn decode_inode(area: &[u8]) -> Result<Vec<Attribute>, FileError> {
    decode(area, INODE_HEADER_BYTES, INODE_HEADER_BYTES)
}

/// Returns attributes in a block.
///
/// # Errors
/// [`FileError::Damaged`].
pub(crate) fn decode_block(block: &[u8]) -> Result<Vec<Attribute>, FileError> {
    if u32_at(block, 0) != ATTRIBUTES_MAGIC || u32_at(block, 8) != 1 {
        return Err(FileError::Damaged);
    }
    decode(block, BLOCK_HEADER_BYTES, 0)
}

#[expect(clippy::arithmetic_side_effects, reason = "all attributes have room: `encode_all` has counted their bytes")]
fn encode(raw: &mut [u8], start: usize, base: usize, attributes: &[Attribute]) {
    let mut at = start;
    let mut value_start = raw.len();
    for attribute in attributes {
        value_start -= attribute.value.len().next_multiple_of(4);
        let offset = if attribute.value.is_empty() { 0 } else { value_start - base };
        put_u16(raw, at, attribute.name.len() as u16 | u16::from(attribute.prefix) << 8);
        put_u16(raw, at + 2, offset as u16);
        put_u32(raw, at + 8, attribute.value.len() as u32);
        put_u32(raw, at + 12, attribute.hash());
        let name = at + ENTRY_BYTES;
        raw.get_mut(name..name + attribute.name.len()).into_iter().for_each(|to| to.copy_from_slice(&attribute.name));
        let value = value_start..value_start + attribute.value.len();
        raw.get_mut(value).into_iter().for_each(|to| to.copy_from_slice(&attribute.value));
        at += attribute.entry_bytes();
    }
}

/// Divides attributes among an inode's own space and a block: small ones first into the inode. Answers both as bytes; `None` if nothing
/// is to be kept there.
///
/// # Errors
/// [`FileError::TooMuch`] if they do not fit.
pub(crate) fn encode_all(
    mut attributes: Vec<Attribute>,
    inode_bytes: usize,
    block_bytes: usize,
) -> Result<(Option<Vec<u8>>, Option<Vec<u8>>), FileError> {
    attributes.sort_by_key(Attribute::bytes);
    // Four bytes of zeroes end the entries.
    let mut room = inode_bytes.saturating_sub(INODE_HEADER_BYTES + 4);
    let mut inside = Vec::new();
    let mut outside = Vec::new();
    for attribute in attributes {
        match room.checked_sub(attribute.bytes()) {
            Some(rest) => {
                room = rest;
                inside.push(attribute);
            }
            None => outside.push(attribute),
        }
    }
    let needed = outside.iter().map(Attribute::bytes).fold(BLOCK_HEADER_BYTES + 4, usize::saturating_add);
    if needed > block_bytes {
        return Err(FileError::TooMuch);
    }
    let inode = (!inside.is_empty()).then(|| {
        let mut raw = vec![0; inode_bytes];
        put_u32(&mut raw, 0, ATTRIBUTES_MAGIC);
        encode(&mut raw, INODE_HEADER_BYTES, INODE_HEADER_BYTES, &inside);
        raw
    });
    Ok((inode, (!outside.is_empty()).then(|| encode_block(outside, block_bytes))))
}

/// Returns a block in the order that the format demands.
fn encode_block(mut attributes: Vec<Attribute>, block_bytes: usize) -> Vec<u8> {
    attributes.sort_by(|a, b| (a.prefix, a.name.len(), &a.name).cmp(&(b.prefix, b.name.len(), &b.name)));
    let mut raw = vec![0; block_bytes];
    put_u32(&mut raw, 0, ATTRIBUTES_MAGIC);
    put_u32(&mut raw, 4, 1);
    put_u32(&mut raw, 8, 1);
    let hash = attributes.iter().fold(0_u32, |hash, attribute| hash.rotate_left(16) ^ attribute.hash());
    put_u32(&mut raw, 12, hash);
    encode(&mut raw, BLOCK_HEADER_BYTES, 0, &attributes);
    raw
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(prefix: u8, name: &str, bytes: usize) -> Attribute {
        Attribute { prefix, name: name.as_bytes().to_vec(), value: vec![7; bytes] }
    }

    #[test]
    fn attributes_come_back_from_inode_and_block() {
        let all = vec![attribute(1, "large", 3000), attribute(6, "selinux", 20), attribute(1, "empty", 0)];
        let (inode, block) = encode_all(all.clone(), 96, 4096).unwrap();
        let mut back = decode_inode(&inode.unwrap()).unwrap();
        assert_eq!(back.len(), 2);
        back.extend(decode_block(&block.unwrap()).unwrap());
        assert!(all.iter().all(|one| back.contains(one)));
        assert_eq!(encode_all(vec![attribute(1, "x", 5000)], 96, 4096), Err(FileError::TooMuch));
    }

    #[test]
    fn wild_bytes_are_damage_or_nothing() {
        let (inode, _) = encode_all(vec![attribute(1, "name", 9)], 96, 4096).unwrap();
        let sound = inode.unwrap();
        for at in 0..sound.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut raw = sound.clone();
                raw[at] = value;
                _ = decode_inode(&raw);
            }
        }
        assert_eq!(decode_inode(&[0xff; 96]), Err(FileError::Damaged));
    }
}
