//! Damage: five bytes of an input choose a field of the metadata, and what is written there.

use crate::hostile::mutant::WILD;
use crate::support::Layout;
use std::ops::Range;

/// Bytes of an input that say one damage.
pub const BYTES: usize = 5;

/// The places of an image that can be damaged, by what they are.
pub struct Places(Vec<Vec<Range<usize>>>);

impl Places {
    pub fn of(image: &[u8]) -> Places {
        let kinds = Layout::of(image).metadata();
        assert!(kinds.iter().all(|kind| !kind.is_empty()), "the image has not all kinds of metadata");
        Places(kinds.into())
    }

    /// Returns the place with a number of a kind; numbers are as those of the bytes of all ranges.
    fn place(&self, kind: u8, number: usize) -> usize {
        let ranges = &self.0[usize::from(kind) % self.0.len()];
        let mut left = number % ranges.iter().map(Range::len).sum::<usize>();
        for range in ranges {
            if left < range.len() {
                return range.start + left;
            }
            left -= range.len();
        }
        unreachable!("the number is one of theirs")
    }

    /// Returns where a damage is written, and its bytes.
    pub fn write(&self, image: &[u8], damage: [u8; BYTES]) -> (usize, Vec<u8>) {
        let [kind, low, high, how, value] = damage;
        // One byte reaches the beginnings of all, both reach each byte.
        let at = self.place(kind, usize::from(low) * 4 + usize::from(high) * 1021);
        let field = |at: usize| at / 4 * 4;
        let wild = WILD[usize::from(value) % WILD.len()].to_le_bytes();
        match how % 8 {
            0 => (at, vec![image[at] ^ 1 << (value % 8)]),
            1 => (at + usize::from(how / 8) % 4, vec![value]),
            2 => (at / 2 * 2, wild[..2].to_vec()),
            3 | 4 => (field(at), wild.to_vec()),
            5 => (field(at), u32::from(value).to_le_bytes().to_vec()),
            6 => (field(at), (u32::from(how / 8) << 8 | u32::from(value)).to_le_bytes().to_vec()),
            _ => {
                let from = field(self.place(kind, usize::from(value) * 4));
                (field(at), image[from..from + 4].to_vec())
            }
        }
    }
}
