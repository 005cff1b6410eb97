//! QEMU's log of a disk's writes (driver blklogwrites, the format of Linux's dm-log-writes), and the states that crashes leave.
//!
//! ```text
//!   sector 0   magic u64, version u64, entries u64, sector bytes u32
//!   then       entry: sector u64, sectors u64, flags u64, data bytes u64 in a sector of its own, followed by the data
//! ```

use crate::failure::{Failure, Result};

const MAGIC: u64 = 0x006a_7366_7773_6872;
const SECTOR_BYTES: usize = 512;
const FLUSH: u64 = 1;
const DISCARD: u64 = 4;
/// A request of a guest is smaller; longer entries are data taken for an entry.
const SECTORS_MAX: u64 = 1 << 16;

/// One write, or a flush.
#[derive(Clone, Copy)]
struct Entry {
    /// The place of its data in the log, and its length.
    data: (usize, usize),
    /// Its place on the disk, bytes.
    at: usize,
    flushes: bool,
}

/// Small deterministic random numbers (splitmix64).
pub struct Chance(pub u64);

impl Chance {
    /// Returns the next one.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// A log, read.
pub struct DiskLog {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
}

impl DiskLog {
    /// Reads a log as far as it goes.
    ///
    /// # Errors
    /// When it is no such log.
    pub fn parse(bytes: Vec<u8>) -> Result<Self> {
        if bytes.len() < SECTOR_BYTES || long(&bytes, 0) != MAGIC {
            return Err(Failure::new("QEMU wrote no log of the disk's writes"));
        }
        let mut entries = vec![];
        let mut at = SECTOR_BYTES;
        while at + SECTOR_BYTES <= bytes.len() {
            match entry(&bytes, at) {
                Some((found, next)) => {
                    entries.push(found);
                    at = next;
                }
                // A request that was under way has left a gap: no program was told that it is done.
                None => at += SECTOR_BYTES,
            }
        }
        Ok(Self { bytes, entries })
    }

    /// Writes to `disk` the state that a crash leaves if the log was `end` bytes long: everything up to the last flush, and of the writes
    /// after it some sectors, by chance.
    pub fn crash(&self, disk: &mut [u8], end: u64, chance: &mut Chance) {
        let (until, durable) = self.before(end);
        let written = self.entries.get(..until).unwrap_or(&[]);
        for (number, entry) in written.iter().enumerate() {
            let data = self.bytes.get(entry.data.0..entry.data.0 + entry.data.1).unwrap_or(&[]);
            for (index, sector) in data.chunks(SECTOR_BYTES).enumerate() {
                let at = entry.at + index * SECTOR_BYTES;
                let stays = number < durable || chance.next() & 1 == 0;
                if let Some(place) = disk.get_mut(at..at + sector.len()).filter(|_| stays) {
                    place.copy_from_slice(sector);
                }
            }
        }
    }

    /// Writes and flushes in the log when it was `end` bytes long, and how many of them the last flush has made durable.
    pub fn before(&self, end: u64) -> (usize, usize) {
        let end = usize::try_from(end).unwrap_or(usize::MAX);
        let until = self.entries.partition_point(|entry| entry.data.0 + entry.data.1 <= end);
        let written = self.entries.get(..until).unwrap_or(&[]);
        (until, written.iter().rposition(|entry| entry.flushes).map_or(0, |last| last + 1))
    }

    /// Writes and flushes.
    pub fn len(&self) -> usize {
        self.entries.len()
    }
}

fn long(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|part| part.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// Reads the entry at a place, and the place at which the next one begins.
fn entry(bytes: &[u8], at: usize) -> Option<(Entry, usize)> {
    let (sector, sectors, flags) = (long(bytes, at), long(bytes, at + 8), long(bytes, at + 16));
    if sector | sectors | flags == 0 || flags >= 16 || sectors > SECTORS_MAX || sector > u64::from(u32::MAX) {
        return None;
    }
    let length = if flags & DISCARD != 0 { 0 } else { sectors as usize * SECTOR_BYTES };
    let data = at + SECTOR_BYTES;
    if data + length > bytes.len() {
        return None;
    }
    let found = Entry { data: (data, length), at: sector as usize * SECTOR_BYTES, flushes: flags & FLUSH != 0 };
    Some((found, data + length))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(entries: &[(u64, u64, u64, u8)]) -> Vec<u8> {
        let mut bytes = vec![0; SECTOR_BYTES];
        bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
        for (sector, sectors, flags, fill) in entries {
            let mut head = vec![0; SECTOR_BYTES];
            for (place, value) in head.chunks_mut(8).zip([sector, sectors, flags]) {
                place.copy_from_slice(&value.to_le_bytes());
            }
            bytes.extend(head);
            bytes.extend(vec![*fill; *sectors as usize * SECTOR_BYTES]);
        }
        bytes
    }

    #[test]
    fn what_was_flushed_stays_and_of_the_rest_some() {
        let bytes = log(&[(1, 2, 0, 7), (0, 0, FLUSH, 0), (4, 64, 0, 9)]);
        let end = bytes.len() as u64;
        let log = DiskLog::parse(bytes).unwrap_or_else(|_| panic!("a log"));
        assert_eq!(log.len(), 3);
        let mut disk = vec![0; 100 * SECTOR_BYTES];
        log.crash(&mut disk, end, &mut Chance(1));
        assert!(disk[SECTOR_BYTES..3 * SECTOR_BYTES].iter().all(|byte| *byte == 7));
        let torn = disk[4 * SECTOR_BYTES..68 * SECTOR_BYTES].chunks(SECTOR_BYTES).filter(|part| part[0] == 9).count();
        assert!(torn > 10 && torn < 54, "{torn} of 64 sectors");
        let mut before = vec![0; 100 * SECTOR_BYTES];
        log.crash(&mut before, SECTOR_BYTES as u64, &mut Chance(1));
        assert!(before.iter().all(|byte| *byte == 0));
    }

    #[test]
    fn a_gap_of_a_request_under_way_hides_nothing_behind_it() {
        let mut bytes = log(&[(1, 1, 0, 7)]);
        bytes.extend(vec![0; 9 * SECTOR_BYTES]);
        bytes.extend(&log(&[(2, 1, 0, 8), (0, 0, FLUSH, 0)])[SECTOR_BYTES..]);
        assert_eq!(DiskLog::parse(bytes).map(|log| log.len()).unwrap_or(0), 3);
    }
}
