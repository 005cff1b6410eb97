//! The table of partitions.
//!
//! ```text
//!   sector 1   "EFI PART" | revision u32 | header bytes u32 | CRC u32 | ... | 72 first entry sector u64 | 80 entries u32 | 84 entry bytes u32 | 88 CRC u32
//!   entry      type 16 bytes (0: unused) | own id 16 bytes | 32 first sector u64 | 40 last sector u64 | ...
//! ```

use gyre_interface::block::{BlockError, SECTOR_BYTES};

/// The sector of the table.
pub(crate) const HEADER_SECTOR: u64 = 1;
const SIGNATURE: &[u8] = b"EFI PART";
const HEADER_BYTES_MIN: usize = 92;
const ENTRY_BYTES: usize = 128;
/// Most entries that are read: as many as every partitioning tool makes.
pub(crate) const ENTRIES_MAX: usize = 128;

/// Why a volume cannot be opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VolumeError {
    /// The disk has no table of partitions.
    NoTable,
    /// The table's numbers or checksums are wrong.
    Damaged,
    /// There is no partition of that number.
    Missing,
    /// The disk failed.
    Disk(BlockError),
}

impl From<BlockError> for VolumeError {
    fn from(error: BlockError) -> VolumeError {
        VolumeError::Disk(error)
    }
}

/// Returns the checksum of the table (ISO 3309, reflected polynomial 0xedb88320).
pub(crate) fn checksum(parts: &[&[u8]]) -> u32 {
    let mut sum = u32::MAX;
    for byte in parts.iter().copied().flatten() {
        sum ^= u32::from(*byte);
        for _ in 0..8 {
            sum = if sum & 1 == 1 { sum >> 1 ^ 0xedb8_8320 } else { sum >> 1 };
        }
    }
    !sum
}

fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    bytes.get(offset..).and_then(<[u8]>::first_chunk).copied().map_or(0, u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    bytes.get(offset..).and_then(<[u8]>::first_chunk).copied().map_or(0, u64::from_le_bytes)
}

/// The place of the entries.
pub(crate) struct Table {
    pub(crate) entries_sector: u64,
    pub(crate) entries: usize,
    checksum: u32,
}

impl Table {
    /// Reads the header of a disk of `sectors`.
    pub(crate) fn parse(raw: &[u8], sectors: u64) -> Result<Table, VolumeError> {
        if raw.get(..SIGNATURE.len()) != Some(SIGNATURE) {
            return Err(VolumeError::NoTable);
        }
        let bytes = u32_at(raw, 12) as usize;
        let header = raw.get(..bytes).filter(|_| bytes >= HEADER_BYTES_MIN).ok_or(VolumeError::Damaged)?;
        let (before, after) = (header.get(..16).unwrap_or(&[]), header.get(20..).unwrap_or(&[]));
        let table =
            Table { entries_sector: u64_at(raw, 72), entries: u32_at(raw, 80) as usize, checksum: u32_at(raw, 88) };
        let sound = checksum(&[before, &[0; 4], after]) == u32_at(raw, 16)
            && u32_at(raw, 84) as usize == ENTRY_BYTES
            && (1..=ENTRIES_MAX).contains(&table.entries)
            && table.entries_sector > HEADER_SECTOR
            && table.end_sector().is_some_and(|end| end <= sectors);
        if sound { Ok(table) } else { Err(VolumeError::Damaged) }
    }

    /// Sectors that the entries fill.
    pub(crate) fn sectors(&self) -> usize {
        self.bytes().div_ceil(SECTOR_BYTES)
    }

    fn bytes(&self) -> usize {
        self.entries.saturating_mul(ENTRY_BYTES)
    }

    /// Returns the first sector behind the entries.
    fn end_sector(&self) -> Option<u64> {
        self.entries_sector.checked_add(self.sectors() as u64)
    }

    /// Returns first sector and length in sectors of partition `number`, counted from 1.
    pub(crate) fn partition(&self, entries: &[u8], number: u16, sectors: u64) -> Result<(u64, u64), VolumeError> {
        let entries = entries.get(..self.bytes()).ok_or(VolumeError::Damaged)?;
        if checksum(&[entries]) != self.checksum {
            return Err(VolumeError::Damaged);
        }
        let index = usize::from(number).checked_sub(1).ok_or(VolumeError::Missing)?;
        let entry = entries.chunks(ENTRY_BYTES).nth(index).ok_or(VolumeError::Missing)?;
        if entry.iter().take(16).all(|byte| *byte == 0) {
            return Err(VolumeError::Missing);
        }
        let (first, last) = (u64_at(entry, 32), u64_at(entry, 40));
        let inside = self.end_sector().is_some_and(|end| first >= end) && last < sectors;
        let length = last.checked_sub(first).and_then(|length| length.checked_add(1));
        length.filter(|_| inside).map(|length| (first, length)).ok_or(VolumeError::Damaged)
    }
}
