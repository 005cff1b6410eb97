//! The Internet checksum (RFC 1071) over data in pieces.
//!
//! The one's complement sum does not depend on byte order, so words are added as the machine reads them, eight bytes at a
//! time with the carry fed back, and folded once at the end. A piece that starts at an odd offset is summed alone and its
//! two bytes are swapped (RFC 1071 section 2 B).

/// A sum in progress.
#[derive(Clone, Copy, Default, Debug)]
pub struct Sum {
    folded: u32,
    odd: bool,
}

impl Sum {
    /// Returns the sum of the pseudo header of TCP and UDP (RFC 9293 section 3.1).
    pub fn pseudo(source: [u8; 4], destination: [u8; 4], protocol: u8, bytes: usize) -> Sum {
        let mut sum = Sum::default();
        sum.add(&source);
        sum.add(&destination);
        sum.add(&[0, protocol]);
        sum.add(&u16::try_from(bytes).unwrap_or(u16::MAX).to_be_bytes());
        sum
    }

    /// Adds a piece behind those added before.
    #[inline]
    pub fn add(&mut self, data: &[u8]) {
        let sum = u32::from(sum_of(data));
        let sum = if self.odd { sum.swap_bytes() >> 16 } else { sum };
        self.folded = u32::from(fold(u64::from(self.folded.wrapping_add(sum))));
        self.odd ^= data.len() % 2 == 1;
    }

    /// Adds two bytes in the order of the wire, behind an even number of bytes.
    #[inline]
    pub fn add_word(&mut self, word: [u8; 2]) {
        let sum = self.folded.wrapping_add(u32::from(u16::from_ne_bytes(word)));
        self.folded = (sum & 0xffff).wrapping_add(sum >> 16);
    }

    /// Returns the checksum to write, in the order of the wire.
    #[inline]
    pub fn finish(self) -> [u8; 2] {
        (!(self.folded as u16)).to_ne_bytes()
    }

    /// Returns the sum without complement, which checksum offload expects in the field (virtio 1.2 section 5.1.6.2).
    #[inline]
    pub fn partial(self) -> [u8; 2] {
        (self.folded as u16).to_ne_bytes()
    }

    /// Returns whether the data, its checksum field included, is intact.
    pub fn is_intact(self) -> bool {
        self.folded == 0xffff
    }
}

/// Returns the one's complement sum of one piece, in the machine's byte order.
fn sum_of(data: &[u8]) -> u16 {
    let (blocks, rest) = data.as_chunks::<32>();
    let mut sum = 0u64;
    for block in blocks {
        let (words, _) = block.as_chunks::<8>();
        for word in words {
            sum = add_carry(sum, u64::from_ne_bytes(*word));
        }
    }
    let (words, tail) = rest.as_chunks::<8>();
    for word in words {
        sum = add_carry(sum, u64::from_ne_bytes(*word));
    }
    if !tail.is_empty() {
        let mut last = [0; 8];
        last[..tail.len()].copy_from_slice(tail);
        sum = add_carry(sum, u64::from_ne_bytes(last));
    }
    fold(sum)
}

fn add_carry(a: u64, b: u64) -> u64 {
    let (sum, carry) = a.overflowing_add(b);
    // cannot overflow: if there is a carry, the sum is below the maximum
    sum.wrapping_add(u64::from(carry))
}

fn fold(sum: u64) -> u16 {
    let sum = (sum & 0xffff_ffff).wrapping_add(sum >> 32);
    let sum = (sum & 0xffff_ffff).wrapping_add(sum >> 32);
    let sum = (sum & 0xffff).wrapping_add(sum >> 16);
    let sum = (sum & 0xffff).wrapping_add(sum >> 16);
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn slow(data: &[u8]) -> [u8; 2] {
        let mut sum = 0u32;
        for pair in data.chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        }
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        (!(sum as u16)).to_be_bytes()
    }

    proptest! {
        #[test]
        fn pieces_sum_like_the_whole_and_like_the_definition(data: Vec<u8>, cuts in proptest::collection::vec(0usize..300, 0..5)) {
            let mut sum = Sum::default();
            let mut rest = &data[..];
            for cut in cuts {
                let (head, tail) = rest.split_at(cut.min(rest.len()));
                sum.add(head);
                rest = tail;
            }
            sum.add(rest);
            prop_assert_eq!(sum.finish(), slow(&data));
        }
    }
}
