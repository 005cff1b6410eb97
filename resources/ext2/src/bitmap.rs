//! A bitmap of blocks or inodes of one group.

use alloc::vec::Vec;

/// One block of bits, as words.
#[derive(Clone)]
pub(crate) struct Bitmap {
    words: Vec<u64>,
    /// No bit before this one is clear.
    first: u32,
    /// Bits in use by the group; those behind count as taken.
    limit: u32,
}

impl Bitmap {
    pub(crate) fn decode(raw: &[u8], limit: u32) -> Bitmap {
        let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        Bitmap { words: raw.chunks(8).map(word).collect(), first: 0, limit }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        self.words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    pub(crate) fn get(&self, bit: u32) -> bool {
        bit >= self.limit || self.words.get(bit as usize / 64).is_none_or(|word| word >> (bit % 64) & 1 == 1)
    }

    /// Sets or clears a bit; returns its value before.
    pub(crate) fn put(&mut self, bit: u32, value: bool) -> bool {
        let before = self.get(bit);
        if let Some(word) = self.words.get_mut(bit as usize / 64).filter(|_| bit < self.limit) {
            let mask = 1 << (bit % 64);
            *word = if value { *word | mask } else { *word & !mask };
            if !value {
                self.first = self.first.min(bit);
            }
        }
        before
    }

    /// Returns the first clear bit from `start` on, then from the beginning.
    pub(crate) fn first_clear(&mut self, start: u32) -> Option<u32> {
        if start > self.first {
            return self.clear_in(start, self.limit).or_else(|| self.clear_in(self.first, start.min(self.limit)));
        }
        let found = self.clear_in(self.first, self.limit);
        self.first = found.unwrap_or(self.limit);
        found
    }

    #[expect(clippy::arithmetic_side_effects, reason = "bits of one group")]
    fn clear_in(&self, start: u32, end: u32) -> Option<u32> {
        let mut at = start;
        while at < end {
            let free = !self.words.get(at as usize / 64).copied().unwrap_or(u64::MAX) >> (at % 64);
            if free != 0 {
                return Some(at + free.trailing_zeros()).filter(|bit| *bit < end);
            }
            at = (at / 64 + 1) * 64;
        }
        None
    }

    /// Returns the number of clear bits.
    pub(crate) fn count_clear(&self) -> u32 {
        (0..self.limit).filter(|bit| !self.get(*bit)).count() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clear_bits_are_found_from_anywhere_and_never_behind_the_limit() {
        let mut bits = Bitmap::decode(&[0xff; 32], 200);
        assert_eq!(bits.first_clear(0), None);
        for bit in [0, 63, 64, 130, 199] {
            bits.put(bit, false);
        }
        assert_eq!(bits.count_clear(), 5);
        let found: Vec<_> =
            [0, 1, 64, 65, 131, 200].map(|start| bits.first_clear(start)).into_iter().flatten().collect();
        assert_eq!(found, [0, 63, 64, 130, 199, 0]);
        assert_eq!(Bitmap::decode(&bits.encode(), 200).words, bits.words);
        assert!(bits.put(199, true) == false && bits.get(199));
        assert!(bits.get(200));
    }

    /// Compares with a look at every bit.
    #[test]
    fn bits_are_found_as_by_looking_at_each() {
        let (mut bits, mut plain, mut random) = (Bitmap::decode(&[0; 32], 250), [false; 250], 1_u64);
        for _ in 0..5_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (bit, start) = ((random >> 33) as usize % 250, (random >> 45) as usize % 260);
            let value = random >> 60 > 4;
            bits.put(bit as u32, value);
            plain[bit] = value;
            let start = if random >> 59 & 1 == 0 { 0 } else { start };
            let expected = (start..250).chain(0..start.min(250)).find(|bit| !plain[*bit]);
            assert_eq!(bits.first_clear(start as u32), expected.map(|bit| bit as u32));
        }
    }
}
