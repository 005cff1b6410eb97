//! Blocks of directories: entries one behind the other, the last one reaching to the block's end.
//!
//! ```text
//!   inode u32 | length u16 | name length u8 | kind u8 | name, padded to 4 bytes
//! ```

use crate::raw::{put_u16, put_u32, u16_at, u32_at};
use gyre_interface::files::{FileError, NodeKind};

/// Bytes before the name.
pub(crate) const HEADER_BYTES: usize = 8;

/// One entry; `inode` 0 is free space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) offset: usize,
    pub(crate) bytes: usize,
    pub(crate) inode: u32,
    pub(crate) kind_code: u8,
    pub(crate) name: &'a [u8],
}

/// Bytes that an entry with a name of this length needs.
pub(crate) fn entry_bytes(name_bytes: usize) -> usize {
    (HEADER_BYTES + name_bytes).next_multiple_of(4)
}

/// The code of a kind in an entry.
pub(crate) fn kind_code(kind: NodeKind) -> u8 {
    match kind {
        NodeKind::File => 1,
        NodeKind::Directory => 2,
        NodeKind::CharacterDevice => 3,
        NodeKind::BlockDevice => 4,
        NodeKind::Pipe => 5,
        NodeKind::Socket => 6,
        NodeKind::SymbolicLink => 7,
    }
}

/// The kind that a code stands for; `None` where the inode must be asked.
pub(crate) fn kind_of_code(code: u8) -> Option<NodeKind> {
    use NodeKind::*;
    [File, Directory, CharacterDevice, BlockDevice, Pipe, Socket, SymbolicLink]
        .into_iter()
        .find(|kind| kind_code(*kind) == code)
}

/// The entry at an offset, checked.
///
/// # Errors
/// [`FileError::Damaged`].
pub(crate) fn entry_at(block: &[u8], offset: usize) -> Result<Entry<'_>, FileError> {
    let raw = block.get(offset..).filter(|raw| raw.len() >= HEADER_BYTES).ok_or(FileError::Damaged)?;
    let (inode, bytes, name_bytes) =
        (u32_at(raw, 0), usize::from(u16_at(raw, 4)), usize::from(raw.get(6).copied().unwrap_or(0)));
    let sound =
        bytes >= HEADER_BYTES && bytes.is_multiple_of(4) && bytes <= raw.len() && HEADER_BYTES + name_bytes <= bytes;
    let name = raw.get(HEADER_BYTES..HEADER_BYTES + name_bytes).filter(|_| sound).ok_or(FileError::Damaged)?;
    if inode != 0 && name.is_empty() {
        return Err(FileError::Damaged);
    }
    Ok(Entry { offset, bytes, inode, kind_code: raw.get(7).copied().unwrap_or(0), name })
}

/// All entries of a block; ends after the first error.
pub(crate) fn entries(block: &[u8]) -> impl Iterator<Item = Result<Entry<'_>, FileError>> {
    let mut offset = 0;
    core::iter::from_fn(move || {
        if offset >= block.len() {
            return None;
        }
        let entry = entry_at(block, offset);
        offset = entry.map_or(block.len(), |entry| entry.offset + entry.bytes);
        Some(entry)
    })
}

/// The name of an entry that is told to programs: without bytes that no name may have. Who compares names needs no such look.
///
/// # Errors
/// [`FileError::Damaged`].
pub(crate) fn shown_name<'a>(entry: &Entry<'a>) -> Result<&'a [u8], FileError> {
    if entry.name.iter().any(|byte| matches!(byte, 0 | b'/')) { Err(FileError::Damaged) } else { Ok(entry.name) }
}

/// The entry with this name.
///
/// # Errors
/// [`FileError::Damaged`].
pub(crate) fn find<'a>(block: &'a [u8], name: &[u8]) -> Result<Option<Entry<'a>>, FileError> {
    for entry in entries(block) {
        let entry = entry?;
        if entry.inode != 0 && entry.name == name {
            return Ok(Some(entry));
        }
    }
    Ok(None)
}

/// Writes an entry's header and name.
pub(crate) fn write_entry(block: &mut [u8], offset: usize, bytes: usize, inode: u32, code: u8, name: &[u8]) {
    put_u32(block, offset, inode);
    put_u16(block, offset + 4, bytes as u16);
    put_u16(block, offset + 6, name.len() as u16 | u16::from(code) << 8);
    if let Some(place) = block.get_mut(offset + HEADER_BYTES..offset + HEADER_BYTES + name.len()) {
        place.copy_from_slice(name);
    }
}

fn used_bytes(entry: &Entry<'_>) -> usize {
    if entry.inode == 0 { 0 } else { entry_bytes(entry.name.len()) }
}

/// True where a name of this length fits.
///
/// # Errors
/// [`FileError::Damaged`].
pub(crate) fn has_room(block: &[u8], name_bytes: usize) -> Result<bool, FileError> {
    let needed = entry_bytes(name_bytes);
    for entry in entries(block) {
        let entry = entry?;
        if entry.bytes >= used_bytes(&entry) + needed {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The longest entry that fits, bytes.
///
/// # Errors
/// [`FileError::Damaged`].
pub(crate) fn largest_room(block: &[u8]) -> Result<usize, FileError> {
    let mut largest = 0;
    for entry in entries(block) {
        let entry = entry?;
        largest = largest.max(entry.bytes.saturating_sub(used_bytes(&entry)));
    }
    Ok(largest)
}

/// Makes a name lead elsewhere.
///
/// # Errors
/// [`FileError::Damaged`], [`FileError::NotFound`].
pub(crate) fn redirect(block: &mut [u8], name: &[u8], inode: u32, code: u8) -> Result<(), FileError> {
    let offset = find(block, name)?.ok_or(FileError::NotFound)?.offset;
    put_u32(block, offset, inode);
    if let Some(place) = block.get_mut(offset + 7) {
        *place = code;
    }
    Ok(())
}

/// A block without names.
pub(crate) fn empty_block(block: &mut [u8]) {
    let bytes = block.len();
    block.fill(0);
    write_entry(block, 0, bytes, 0, 0, &[]);
}

/// Adds a name where there is room; false where there is none.
///
/// # Errors
/// [`FileError::Damaged`]; nothing has changed then.
pub(crate) fn insert(block: &mut [u8], inode: u32, code: u8, name: &[u8]) -> Result<bool, FileError> {
    let needed = entry_bytes(name.len());
    let mut place = None;
    for entry in entries(block) {
        let entry = entry?;
        let used = used_bytes(&entry);
        if entry.bytes >= used + needed {
            place = Some((entry.offset, used, entry.bytes));
            break;
        }
    }
    let Some((offset, used, bytes)) = place else {
        return Ok(false);
    };
    if used > 0 {
        put_u16(block, offset + 4, used as u16);
    }
    write_entry(block, offset + used, bytes - used, inode, code, name);
    Ok(true)
}

/// Removes a name: its space goes to the entry before it, or stays as free space at the block's start. Answers the longest entry that
/// fits there now, bytes.
///
/// # Errors
/// [`FileError::Damaged`], [`FileError::NotFound`].
pub(crate) fn remove(block: &mut [u8], name: &[u8]) -> Result<usize, FileError> {
    let mut before: Option<(usize, usize, usize)> = None;
    let mut found = None;
    for entry in entries(block) {
        let entry = entry?;
        if entry.inode != 0 && entry.name == name {
            found = Some((entry.offset, entry.bytes, before));
            break;
        }
        before = Some((entry.offset, entry.bytes, used_bytes(&entry)));
    }
    let (offset, bytes, before) = found.ok_or(FileError::NotFound)?;
    match before {
        Some((before, before_bytes, used)) => {
            put_u16(block, before + 4, (before_bytes + bytes) as u16);
            Ok((before_bytes + bytes).saturating_sub(used))
        }
        None => {
            put_u32(block, offset, 0);
            Ok(bytes)
        }
    }
}

/// The first block of a new directory.
pub(crate) fn first_block(block: &mut [u8], own: u32, parent: u32, code: u8) {
    let bytes = block.len();
    write_entry(block, 0, 12, own, code, b".");
    write_entry(block, 12, bytes - 12, parent, code, b"..");
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn names_come_and_go_and_the_block_stays_whole() {
        let mut block = vec![0; 1024];
        first_block(&mut block, 5, 2, 2);
        let mut count = 0;
        while insert(&mut block, 10 + count, 1, alloc::format!("name{count}").as_bytes()).unwrap() {
            count += 1;
        }
        assert!(count > 50);
        for number in (0..count).step_by(2) {
            remove(&mut block, alloc::format!("name{number}").as_bytes()).unwrap();
        }
        let left: alloc::vec::Vec<_> =
            entries(&block).map(|entry| entry.unwrap()).filter(|entry| entry.inode > 5).collect();
        assert_eq!(left.len() as u32, count / 2);
        assert_eq!(entries(&block).map(|entry| entry.unwrap().bytes).sum::<usize>(), 1024);
        assert!(insert(&mut block, 99, 1, b"again").unwrap());
        assert_eq!(find(&block, b"again").unwrap().unwrap().inode, 99);
        remove(&mut block, b".").unwrap();
        assert_eq!(find(&block, b".").unwrap(), None);
    }

    #[test]
    fn broken_lengths_are_damage() {
        for (offset, value) in [(4, 0), (4, 7), (4, 2000), (6, 0xff), (4, 10)] {
            let mut block = vec![0; 64];
            first_block(&mut block, 5, 2, 2);
            put_u16(&mut block, offset, value);
            assert_eq!(find(&block, b"x"), Err(FileError::Damaged), "{offset} {value}");
        }
        let mut slash = vec![0; 64];
        first_block(&mut slash, 5, 2, 2);
        slash[8] = b'/';
        let entry = entries(&slash).next().unwrap().unwrap();
        assert_eq!(shown_name(&entry), Err(FileError::Damaged));
    }
}
