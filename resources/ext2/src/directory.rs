//! Blocks of directories: entries one behind the other, the last one reaching to the block's end.
//!
//! ```text
//!   inode u32 | length u16 | name length u8 | kind u8 | name, padded to 4 bytes
//! ```
//!
//! A disk writes a sector whole or not at all, but not a block. So each change is one of a single sector: a new name
//! stands in the sector of the field that makes it visible, and the places at which entries cross from one sector to
//! the next stay. Then any mixture of a block's sectors before and after some changes is a sound block. Blocks made
//! here have an entry at the start of each sector; [`split`] gives free space in other blocks such entries.
//!
//! Pure: it works on the bytes of one block, which it does not believe. Callers copy a block, change it here and put
//! it back.

use crate::raw::{put_u16, put_u32, u16_at, u32_at};
use alloc::vec::Vec;
use gyre_interface::block::SECTOR_BYTES;
use gyre_interface::files::{FileError, NodeKind};

/// Bytes before the name.
pub(crate) const HEADER_BYTES: usize = 8;
const LENGTH_OFFSET: usize = 4;
/// The shortest entry that e2fsck takes for one.
const ENTRY_BYTES_MIN: usize = 12;

/// One entry; `inode` 0 is free space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) offset: usize,
    pub(crate) bytes: usize,
    pub(crate) inode: u32,
    pub(crate) kind_code: u8,
    pub(crate) name: &'a [u8],
}

/// Returns the bytes that an entry with a name of this length needs.
#[expect(clippy::arithmetic_side_effects, reason = "offsets in a block of at most 4096 bytes")]
pub(crate) fn entry_bytes(name_bytes: usize) -> usize {
    (HEADER_BYTES + name_bytes).next_multiple_of(4)
}

/// Returns the code of a kind in an entry.
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

/// Returns the kind that a code stands for; `None` if the inode must be asked.
pub(crate) fn kind_of_code(code: u8) -> Option<NodeKind> {
    use NodeKind::*;
    [File, Directory, CharacterDevice, BlockDevice, Pipe, Socket, SymbolicLink]
        .into_iter()
        .find(|kind| kind_code(*kind) == code)
}

/// Returns the entry at an offset, checked.
///
/// # Errors
/// [`FileError::Damaged`].
#[expect(clippy::arithmetic_side_effects, reason = "offsets in a block of at most 4096 bytes")]
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

/// Returns all entries of a block; ends after the first error.
#[expect(clippy::arithmetic_side_effects, reason = "offsets in a block of at most 4096 bytes")]
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

/// Returns the name of an entry that is told to programs: without bytes that no name may have. A comparison of names needs no such look.
///
/// # Errors
/// [`FileError::Damaged`].
pub(crate) fn shown_name<'a>(entry: &Entry<'a>) -> Result<&'a [u8], FileError> {
    if entry.name.iter().any(|byte| matches!(byte, 0 | b'/')) { Err(FileError::Damaged) } else { Ok(entry.name) }
}

/// Returns the entry with this name.
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
#[expect(clippy::arithmetic_side_effects, reason = "offsets in a block of at most 4096 bytes")]
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

/// Returns the sector of the block in which a byte lies.
pub(crate) fn sector_of(offset: usize) -> usize {
    offset / SECTOR_BYTES
}

/// Returns the field by which a name behind this entry, or in its place, becomes visible.
#[expect(clippy::arithmetic_side_effects, reason = "offsets in a block of at most 4096 bytes")]
fn shown_by(entry: &Entry<'_>) -> usize {
    if entry.inode == 0 { entry.offset } else { entry.offset + LENGTH_OFFSET }
}

/// Returns the bytes for a new entry in the sector in which it becomes visible.
#[expect(clippy::arithmetic_side_effects, reason = "offsets in a block of at most 4096 bytes")]
fn room(entry: &Entry<'_>) -> usize {
    let end = (sector_of(shown_by(entry)) + 1) * SECTOR_BYTES;
    entry.bytes.min(end - entry.offset).saturating_sub(used_bytes(entry))
}

/// Returns whether a new entry of so many bytes has room; most have none at all.
#[expect(clippy::arithmetic_side_effects, reason = "offsets in a block of at most 4096 bytes")]
fn fits(entry: &Entry<'_>, needed: usize) -> bool {
    entry.bytes >= used_bytes(entry) + needed && room(entry) >= needed
}

/// Returns whether a name of this length fits.
///
/// # Errors
/// [`FileError::Damaged`].
pub(crate) fn has_room(block: &[u8], name_bytes: usize) -> Result<bool, FileError> {
    let needed = entry_bytes(name_bytes);
    for entry in entries(block) {
        if fits(&entry?, needed) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the longest entry that fits, bytes.
///
/// # Errors
/// [`FileError::Damaged`].
#[expect(clippy::arithmetic_side_effects, reason = "offsets in a block of at most 4096 bytes")]
pub(crate) fn largest_room(block: &[u8]) -> Result<usize, FileError> {
    let mut largest = 0;
    for entry in entries(block) {
        let entry = entry?;
        if fits(&entry, largest + 1) {
            largest = room(&entry);
        }
    }
    Ok(largest)
}

/// Makes a name lead to another inode. Returns the offset of the changed field.
///
/// # Errors
/// [`FileError::Damaged`], [`FileError::NotFound`].
#[expect(clippy::arithmetic_side_effects, reason = "offsets in a block of at most 4096 bytes")]
pub(crate) fn redirect(block: &mut [u8], name: &[u8], inode: u32, code: u8) -> Result<usize, FileError> {
    let offset = find(block, name)?.ok_or(FileError::NotFound)?.offset;
    put_u32(block, offset, inode);
    if let Some(place) = block.get_mut(offset + 7) {
        *place = code;
    }
    Ok(offset)
}

/// Makes a block without names.
pub(crate) fn empty_block(block: &mut [u8]) {
    block.fill(0);
    free_from(block, 0);
}

/// Writes free entries from a sector's start to the end of the block, one in each sector.
#[expect(clippy::arithmetic_side_effects, reason = "offsets in a block of at most 4096 bytes")]
fn free_from(block: &mut [u8], start: usize) {
    for offset in (start..block.len()).step_by(SECTOR_BYTES) {
        write_entry(block, offset, SECTOR_BYTES.min(block.len() - offset), 0, 0, &[]);
    }
}

/// Adds a name if there is room. Answers the offset of the field that makes it visible; nothing if there is no room.
///
/// # Errors
/// [`FileError::Damaged`]; nothing has changed then.
#[expect(clippy::arithmetic_side_effects, reason = "offsets in a block of at most 4096 bytes")]
pub(crate) fn insert(block: &mut [u8], inode: u32, code: u8, name: &[u8]) -> Result<Option<usize>, FileError> {
    let needed = entry_bytes(name.len());
    let mut place = None;
    for entry in entries(block) {
        let entry = entry?;
        if fits(&entry, needed) {
            place = Some((entry.offset, used_bytes(&entry), entry.bytes, shown_by(&entry)));
            break;
        }
    }
    let Some((offset, used, bytes, shown_by)) = place else {
        return Ok(None);
    };
    if used > 0 {
        put_u16(block, offset + LENGTH_OFFSET, used as u16);
    }
    write_entry(block, offset + used, bytes - used, inode, code, name);
    Ok(Some(shown_by))
}

/// The result of a removal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Removed {
    /// The offset of the field that hides the name.
    pub(crate) hidden_by: usize,
    /// The longest entry that fits there now, bytes.
    pub(crate) room: usize,
}

/// Removes a name: its space goes to the entry before it in the same sector, or stays as a free entry.
///
/// # Errors
/// [`FileError::Damaged`], [`FileError::NotFound`].
#[expect(clippy::arithmetic_side_effects, reason = "offsets in a block of at most 4096 bytes")]
pub(crate) fn remove(block: &mut [u8], name: &[u8]) -> Result<Removed, FileError> {
    let mut before: Option<(usize, usize)> = None;
    let mut found = None;
    for entry in entries(block) {
        let entry = entry?;
        if entry.inode != 0 && entry.name == name {
            found = Some((entry.offset, entry.bytes));
            break;
        }
        before = Some((entry.offset, entry.bytes));
    }
    let (offset, bytes) = found.ok_or(FileError::NotFound)?;
    let sector = |entry: usize| sector_of(entry + LENGTH_OFFSET);
    let (place, hidden_by) = match before.filter(|(before, _)| sector(*before) == sector(offset)) {
        Some((before, before_bytes)) => {
            put_u16(block, before + LENGTH_OFFSET, (before_bytes + bytes) as u16);
            (before, before + LENGTH_OFFSET)
        }
        None => {
            put_u32(block, offset, 0);
            (offset, offset)
        }
    };
    Ok(Removed { hidden_by, room: room(&entry_at(block, place)?) })
}

/// The changes of [`split`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Split {
    /// The offsets of new entries, in space that was free before.
    pub(crate) entries: Vec<usize>,
    /// The field that makes them visible.
    pub(crate) shown_by: usize,
}

/// Gives the first free space that reaches over sectors an entry at the start of each of them; nothing if there is none.
///
/// # Errors
/// [`FileError::Damaged`].
#[expect(clippy::arithmetic_side_effects, reason = "offsets in a block of at most 4096 bytes")]
pub(crate) fn split(block: &mut [u8]) -> Result<Option<Split>, FileError> {
    let mut found = None;
    for entry in entries(block) {
        let entry = entry?;
        let free = entry.offset + used_bytes(&entry).max(ENTRY_BYTES_MIN);
        let end = entry.offset + entry.bytes;
        let starts = (free.next_multiple_of(SECTOR_BYTES)..end).step_by(SECTOR_BYTES);
        let starts: Vec<usize> = starts.filter(|start| end - start >= ENTRY_BYTES_MIN).collect();
        if !starts.is_empty() {
            found = Some((entry.offset, starts, end));
            break;
        }
    }
    let Some((offset, starts, end)) = found else {
        return Ok(None);
    };
    let ends = starts.iter().skip(1).copied().chain([end]);
    for (start, end) in starts.iter().zip(ends) {
        write_entry(block, *start, end - start, 0, 0, &[]);
    }
    let first = starts.first().copied().unwrap_or(end);
    put_u16(block, offset + LENGTH_OFFSET, (first - offset) as u16);
    Ok(Some(Split { entries: starts, shown_by: offset + LENGTH_OFFSET }))
}

/// Makes the first block of a new directory.
#[expect(clippy::arithmetic_side_effects, reason = "offsets in a block of at most 4096 bytes")]
pub(crate) fn first_block(block: &mut [u8], own: u32, parent: u32, code: u8) {
    let first_sector = SECTOR_BYTES.min(block.len());
    write_entry(block, 0, 12, own, code, b".");
    write_entry(block, 12, first_sector - 12, parent, code, b"..");
    free_from(block, first_sector);
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
        while insert(&mut block, 10 + count, 1, alloc::format!("name{count}").as_bytes()).unwrap().is_some() {
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
        assert!(insert(&mut block, 99, 1, b"again").unwrap().is_some());
        assert_eq!(find(&block, b"again").unwrap().unwrap().inode, 99);
        remove(&mut block, b".").unwrap();
        assert_eq!(find(&block, b".").unwrap(), None);
    }

    /// Returns the names of a block with the inodes that they lead to.
    fn names(block: &[u8]) -> Vec<(Vec<u8>, u32)> {
        let entries = entries(block).map(|entry| entry.expect("the block is sound"));
        entries.filter(|entry| entry.inode != 0).map(|entry| (entry.name.to_vec(), entry.inode)).collect()
    }

    /// Returns a block as mke2fs makes it: one entry behind the other, over all sectors.
    fn foreign_block(bytes: usize) -> Vec<u8> {
        let mut block = vec![0; bytes];
        write_entry(&mut block, 0, 12, 5, 2, b".");
        write_entry(&mut block, 12, bytes - 12, 2, 2, b"..");
        block
    }

    fn changed_sectors(before: &[u8], after: &[u8]) -> Vec<usize> {
        let sectors = before.chunks(SECTOR_BYTES).zip(after.chunks(SECTOR_BYTES)).enumerate();
        sectors.filter(|(_, (before, after))| before != after).map(|(number, _)| number).collect()
    }

    /// Adds, redirects or removes a name.
    fn change_something(block: &mut [u8], number: u32, random: &mut gyre_machine::random::Random) {
        let there = names(block);
        let some = there.get(random.below(there.len() as u64) as usize).map(|(name, _)| name.clone());
        let some = some.filter(|name| !name.starts_with(b"."));
        match (random.below(5), some) {
            (0, Some(name)) => drop(redirect(block, &name, 1000 + number, 1).unwrap()),
            (1, Some(name)) => drop(remove(block, &name).unwrap()),
            _ => {
                let width = 1 + random.below(60) as usize;
                let name = alloc::format!("{number:0width$}");
                insert(block, 1000 + number, 1, name.as_bytes()).unwrap();
            }
        }
    }

    #[test]
    fn each_change_is_one_of_a_single_sector_and_sectors_of_different_times_make_a_sound_block() {
        for seed in 0..60 {
            let mut random = gyre_machine::random::Random::new(seed, 0);
            let mut block = foreign_block(1024 << (seed % 3));
            if seed % 2 == 0 {
                first_block(&mut block, 5, 2, 2);
            }
            let mut old = block.clone();
            for number in 0..400 {
                let before = block.clone();
                change_something(&mut block, number, &mut random);
                assert!(changed_sectors(&before, &block).len() <= 1, "seed {seed}, change {number}");
                let mut torn = old.clone();
                for (to, from) in torn.chunks_mut(SECTOR_BYTES).zip(block.chunks(SECTOR_BYTES)) {
                    if random.once_in(2) {
                        to.copy_from_slice(from);
                    }
                }
                let (was, is, found) = (names(&old), names(&block), names(&torn));
                assert!(
                    found.iter().all(|name| was.contains(name) || is.contains(name)),
                    "seed {seed}, change {number}"
                );
                assert!(was.iter().filter(|name| is.contains(name)).all(|name| found.contains(name)), "seed {seed}");
                if random.once_in(10) {
                    old.clone_from(&block);
                }
            }
        }
    }

    #[test]
    fn space_over_sectors_is_split_in_an_order_in_which_nothing_is_lost() {
        let mut block = foreign_block(4096);
        assert!(
            !has_room(&[&block[..12], &block[12..]].concat(), 255).unwrap() || largest_room(&block).unwrap() <= 512
        );
        let before = block.clone();
        let split = split(&mut block).unwrap().unwrap();
        assert_eq!(names(&before), names(&block));
        assert_eq!((split.entries.len(), sector_of(split.shown_by)), (7, 0));
        let mut entries_only = block.clone();
        entries_only[..SECTOR_BYTES].copy_from_slice(&before[..SECTOR_BYTES]);
        assert_eq!(names(&entries_only), names(&before), "the entries are there, and nothing shows them");
        assert_eq!(super::split(&mut block).unwrap(), None);
        let mut count = 0;
        while insert(&mut block, 99, 1, alloc::format!("name{count:04}").as_bytes()).unwrap().is_some() {
            count += 1;
        }
        assert!(count > 4096 / 16 / 10 * 8, "{count} names in a block");
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
