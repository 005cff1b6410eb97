//! The medium of a disk: sectors behind a volatile cache. A crash keeps all that was flushed and a random part of the rest, sector by sector.

use crate::random::Random;

/// Bytes that are written as a whole or not at all.
pub const SECTOR_BYTES: usize = 512;

/// A write that no flush has covered.
#[derive(Clone, Debug)]
struct Volatile {
    number: u64,
    at: usize,
    bytes: Vec<u8>,
}

/// The sectors.
#[derive(Debug)]
pub struct Medium {
    /// As a reader sees them.
    data: Vec<u8>,
    /// As they are after a crash in any case.
    durable: Vec<u8>,
    volatile: Vec<Volatile>,
    writes: u64,
}

impl Medium {
    /// Sectors with these contents, all of them durable.
    pub fn new(data: Vec<u8>) -> Medium {
        Medium { durable: data.clone(), data, volatile: Vec::new(), writes: 0 }
    }

    /// Its size in bytes.
    pub fn bytes(&self) -> usize {
        self.data.len()
    }

    /// The contents as a reader sees them.
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// The contents that a crash leaves in any case.
    pub fn durable(&self) -> &[u8] {
        &self.durable
    }

    /// Some bytes as a reader sees them; `None` beyond the end.
    pub fn read(&self, at: usize, bytes: usize) -> Option<&[u8]> {
        self.data.get(at..at.checked_add(bytes)?)
    }

    /// Writes into the volatile cache; false beyond the end.
    pub fn write(&mut self, at: usize, bytes: &[u8]) -> bool {
        let Some(place) = at.checked_add(bytes.len()).and_then(|end| self.data.get_mut(at..end)) else {
            return false;
        };
        place.copy_from_slice(bytes);
        self.writes += 1;
        self.volatile.push(Volatile { number: self.writes, at, bytes: bytes.to_vec() });
        true
    }

    /// How many writes there were: what a flush that begins now has to cover.
    pub fn writes(&self) -> u64 {
        self.writes
    }

    /// Makes everything durable.
    pub fn flush(&mut self) {
        self.flush_to(self.writes);
    }

    /// Makes the first so many writes durable. If a later one lies over an earlier one, the earlier one is durable.
    pub fn flush_to(&mut self, number: u64) {
        let later = self.volatile.partition_point(|write| write.number <= number);
        for write in self.volatile.drain(..later) {
            self.durable[write.at..write.at + write.bytes.len()].copy_from_slice(&write.bytes);
        }
    }

    /// The contents that a crash now leaves. `under_way` are writes that the device has not done yet: each of their sectors may have got there.
    pub fn crash(&self, under_way: &[(usize, Vec<u8>)], random: &mut Random) -> Vec<u8> {
        let mut image = self.durable.clone();
        let volatile = self.volatile.iter().map(|write| (write.at, &write.bytes));
        for (at, bytes) in volatile.chain(under_way.iter().map(|(at, bytes)| (*at, bytes))) {
            for (index, sector) in bytes.chunks(SECTOR_BYTES).enumerate() {
                let place = image.get_mut(at + index * SECTOR_BYTES..).and_then(|rest| rest.get_mut(..sector.len()));
                if let (true, Some(place)) = (random.once_in(2), place) {
                    place.copy_from_slice(sector);
                }
            }
        }
        image
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crash_keeps_what_was_flushed_and_no_more_than_was_written() {
        let mut medium = Medium::new(vec![0; 8 * SECTOR_BYTES]);
        assert!(medium.write(0, &[1; 2 * SECTOR_BYTES]));
        let covered = medium.writes();
        assert!(medium.write(SECTOR_BYTES, &[2; 4 * SECTOR_BYTES]));
        medium.flush_to(covered);
        let mut seen = [false; 2];
        for seed in 0..20 {
            let image = medium.crash(&[(6 * SECTOR_BYTES, vec![3; SECTOR_BYTES])], &mut Random::new(seed, 0));
            assert_eq!(image[..SECTOR_BYTES], [1; SECTOR_BYTES]);
            assert!(matches!(image[SECTOR_BYTES], 1 | 2) && matches!(image[6 * SECTOR_BYTES], 0 | 3));
            seen[usize::from(image[2 * SECTOR_BYTES] == 2)] = true;
        }
        assert_eq!(seen, [true; 2], "some crashes lose a volatile sector, some keep it");
        assert_eq!(medium.read(SECTOR_BYTES, 1), Some(&[2][..]));
        assert!(!medium.write(8 * SECTOR_BYTES, &[1]) && medium.read(usize::MAX, 2).is_none());
    }
}
