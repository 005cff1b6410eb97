//! The table of a disk's partitions (GUID partition table, UEFI 2.10 §5.3).

use alloc::{vec, vec::Vec};

const SECTOR_BYTES: u64 = 512;
/// Most partitions of a disk.
pub const ENTRIES: usize = 128;
const ENTRY_BYTES: usize = 128;
/// Sectors of header and entries at either end.
const TABLE_SECTORS: u64 = 33;
/// "Linux filesystem data", 0FC63DAF-8483-4772-8E79-3D69D8477DE4, as it lies on a disk.
const LINUX_DATA: [u8; 16] =
    [0xaf, 0x3d, 0xc6, 0x0f, 0x83, 0x84, 0x72, 0x47, 0x8e, 0x79, 0x3d, 0x69, 0xd8, 0x47, 0x7d, 0xe4];

/// Returns the protective master boot record, headers and entries: the place of each, and its bytes.
pub fn table(partitions: &[(u64, u64)], sectors: u64) -> Vec<(u64, Vec<u8>)> {
    let mut entries = vec![0; ENTRIES * ENTRY_BYTES];
    for (number, (entry, (first, last))) in entries.chunks_mut(ENTRY_BYTES).zip(partitions).enumerate() {
        put(entry, 0, &LINUX_DATA);
        put(entry, 16, &identity(number as u8 + 1));
        put(entry, 32, &first.to_le_bytes());
        put(entry, 40, &last.to_le_bytes());
    }
    let last = sectors - 1;
    let header = |own: u64, other: u64, entries_at: u64| {
        let mut header = vec![0; SECTOR_BYTES as usize];
        put(&mut header, 0, b"EFI PART");
        put(&mut header, 8, &0x0001_0000_u32.to_le_bytes());
        put(&mut header, 12, &92_u32.to_le_bytes());
        for (offset, value) in
            [(24, own), (32, other), (40, 1 + TABLE_SECTORS), (48, last - TABLE_SECTORS), (72, entries_at)]
        {
            put(&mut header, offset, &value.to_le_bytes());
        }
        put(&mut header, 56, &identity(0));
        put(&mut header, 80, &(ENTRIES as u32).to_le_bytes());
        put(&mut header, 84, &(ENTRY_BYTES as u32).to_le_bytes());
        put(&mut header, 88, &checksum(&entries).to_le_bytes());
        let sum = checksum(header.get(..92).unwrap_or(&[]));
        put(&mut header, 16, &sum.to_le_bytes());
        header
    };
    let mut record = vec![0; SECTOR_BYTES as usize];
    put(&mut record, 446, &[0, 0, 2, 0, 0xee, 0xff, 0xff, 0xff]);
    put(&mut record, 454, &1_u32.to_le_bytes());
    put(&mut record, 458, &u32::try_from(last).unwrap_or(u32::MAX).to_le_bytes());
    put(&mut record, 510, &[0x55, 0xaa]);
    let (front, back) = (header(1, last, 2), header(last, 1, sectors - TABLE_SECTORS));
    vec![(0, record), (1, front), (2, entries.clone()), (sectors - TABLE_SECTORS, entries.clone()), (last, back)]
}

/// Returns a fixed identity: the same machine file gives the same disk.
fn identity(number: u8) -> [u8; 16] {
    let mut identity = *b"gyre-partition\x40\0";
    identity[15] = number;
    identity
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + value.len()) {
        place.copy_from_slice(value);
    }
}

/// Returns the CRC-32 (ISO 3309).
fn checksum(bytes: &[u8]) -> u32 {
    let step = |sum: u32, byte: &u8| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| if sum & 1 == 1 { sum >> 1 ^ 0xedb8_8320 } else { sum >> 1 })
    };
    !bytes.iter().fold(u32::MAX, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_usual_one() {
        assert_eq!(checksum(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn tables_lie_at_both_ends_and_name_each_other() {
        let parts = table(&[(2048, 4095)], 10_000);
        let at = |sector| parts.iter().find(|(place, _)| *place == sector).map(|(_, bytes)| bytes).unwrap();
        assert_eq!(at(1)[24..32], 1_u64.to_le_bytes());
        assert_eq!(at(1)[32..40], 9_999_u64.to_le_bytes());
        assert_eq!(at(9_999)[72..80], 9_967_u64.to_le_bytes());
        assert_eq!(at(2)[32..40], 2048_u64.to_le_bytes());
        assert_eq!(at(0)[510..], [0x55, 0xaa]);
    }
}
