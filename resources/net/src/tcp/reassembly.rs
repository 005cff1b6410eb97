//! Data that arrived before the data in front of it (RFC 9293 section 3.4; bounded, see adversaries 13).

use super::Seq;
use crate::wire::tcp::SACK_BLOCKS_MAX;
use alloc::vec::Vec;
use gyre_object::Bytes;

/// Most pieces held; a sender of tiny pieces gains nothing beyond.
pub const PIECES_MAX: usize = 256;

/// Pieces beyond the next expected byte: in order, not overlapping.
#[derive(Default)]
pub struct Reassembly {
    pieces: Vec<(Seq, Bytes)>,
    /// The place of the last piece: its block is reported first (RFC 2018 section 4).
    latest: Option<Seq>,
}

impl Reassembly {
    /// Returns whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Returns the bytes held.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.pieces.iter().map(|piece| piece.1.len()).sum()
    }

    /// Keeps a piece; the parts that are already there are cut off it. Returns false if it was dropped because too much is held.
    pub fn insert(&mut self, start: Seq, data: Bytes) -> bool {
        self.latest = Some(start);
        let mut from = start;
        let end = start + data.len() as u32;
        let mut index = self.pieces.partition_point(|piece| end_of(piece).until(start));
        while from.before(end) {
            let next = self.pieces.get(index).map(|piece| (piece.0, end_of(piece)));
            let stop = next.map_or(end, |next| next.0.min(end));
            if from.before(stop) {
                if self.pieces.len() >= PIECES_MAX {
                    return false;
                }
                let part = data.slice(from.since(start) as usize, stop.since(start) as usize);
                self.pieces.insert(index, (from, part));
                index = index.saturating_add(1);
            }
            from = next.map_or(end, |next| next.1);
            index = index.saturating_add(1);
        }
        true
    }

    /// Takes the piece that holds the byte `next`, cut to begin there; older pieces are dropped.
    pub fn take_at(&mut self, next: Seq) -> Option<Bytes> {
        let old = self.pieces.partition_point(|piece| end_of(piece).until(next));
        self.pieces.drain(..old);
        let ready = self.pieces.first().is_some_and(|piece| piece.0.until(next));
        let (start, data) = ready.then(|| self.pieces.remove(0))?;
        Some(data.slice(next.since(start) as usize, data.len()))
    }

    /// Writes the ranges held, the most recent first; returns how many.
    pub fn blocks(&self, into: &mut [(Seq, Seq); SACK_BLOCKS_MAX]) -> usize {
        let mut count = 0;
        let mut add = |block: (Seq, Seq)| {
            if let Some(place) = into.get_mut(count) {
                *place = block;
                count = count.saturating_add(1);
            }
        };
        let latest = self.latest.and_then(|at| self.ranges().find(|range| range.0.until(at) && at.before(range.1)));
        if let Some(range) = latest {
            add(range);
        }
        self.ranges().filter(|range| Some(*range) != latest).for_each(add);
        count
    }

    /// Returns the ranges held, neighbours joined.
    fn ranges(&self) -> impl Iterator<Item = (Seq, Seq)> + '_ {
        let mut pieces = self.pieces.iter().peekable();
        core::iter::from_fn(move || {
            let first = pieces.next()?;
            let mut end = end_of(first);
            while let Some(next) = pieces.next_if(|piece| piece.0 == end) {
                end = end_of(next);
            }
            Some((first.0, end))
        })
    }

    /// Drops everything.
    pub fn clear(&mut self) {
        self.pieces.clear();
    }
}

fn end_of(piece: &(Seq, Bytes)) -> Seq {
    piece.0 + piece.1.len() as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pattern(at: u32) -> u8 {
        (at.wrapping_mul(31) >> 3) as u8
    }

    proptest! {
        #[test]
        fn pieces_in_any_order_and_overlap_yield_the_stream(base: u32, pieces in proptest::collection::vec((0u32..400, 1u32..80), 1..100)) {
            let mut reassembly = Reassembly::default();
            let mut next = 0u32;
            let mut known = vec![false; 500];
            for (start, len) in pieces {
                let data: Vec<u8> = (start..start + len).map(pattern).collect();
                let cut = next.saturating_sub(start).min(len);
                if cut < len {
                    let bytes = Bytes::copy_from(&data).unwrap().slice(cut as usize, len as usize);
                    prop_assert!(reassembly.insert(Seq(base) + (start + cut), bytes));
                    (start..start + len).for_each(|at| known[at as usize] = true);
                }
                while let Some(data) = reassembly.take_at(Seq(base) + next) {
                    let expected: Vec<u8> = (next..next + data.len() as u32).map(pattern).collect();
                    prop_assert_eq!(data.as_slice(), &expected[..]);
                    next += data.len() as u32;
                }
                let contiguous = (next..500).take_while(|at| known[*at as usize]).count();
                prop_assert_eq!(contiguous, 0, "everything that is contiguous was taken");
                let held = known[next as usize..].iter().filter(|known| **known).count();
                prop_assert_eq!(reassembly.bytes(), held);
                let mut blocks = [(Seq(0), Seq(0)); SACK_BLOCKS_MAX];
                let count = reassembly.blocks(&mut blocks);
                for block in &blocks[..count] {
                    prop_assert!((block.0.since(Seq(base))..block.1.since(Seq(base))).all(|at| known[at as usize]));
                }
            }
        }
    }

    #[test]
    fn tiny_pieces_are_bounded() {
        let mut reassembly = Reassembly::default();
        let byte = Bytes::copy_from(&[1]).unwrap();
        let kept = (0..10_000u32).filter(|index| reassembly.insert(Seq(index * 2), byte.clone())).count();
        assert_eq!(kept, PIECES_MAX);
    }
}
