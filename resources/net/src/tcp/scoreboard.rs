//! The ranges that the peer holds beyond the cumulative acknowledgment (RFC 2018), and the losses that follow from
//! them (RFC 6675).

use super::Seq;
use alloc::vec::Vec;

/// Most separate ranges remembered: a peer cannot make us hold more. Further ranges are forgotten, which costs at most a retransmission.
const RANGES_MAX: usize = 128;
/// Segments above a hole that make it count as lost (RFC 6675 DupThresh).
const THRESHOLD: u32 = 3;

/// Ranges that were acknowledged selectively, in order and apart.
#[derive(Default, Debug)]
pub struct Scoreboard {
    ranges: Vec<(Seq, Seq)>,
    bytes: u32,
}

impl Scoreboard {
    /// Returns the bytes acknowledged selectively.
    pub fn bytes(&self) -> u32 {
        self.bytes
    }

    /// Adds a range; returns whether it said something new.
    pub fn insert(&mut self, start: Seq, end: Seq) -> bool {
        if !start.before(end) {
            return false;
        }
        let first = self.ranges.partition_point(|range| range.1.before(start));
        let last = self.ranges.partition_point(|range| range.0.until(end));
        let touched = self.ranges.get(first..last).unwrap_or(&[]);
        if touched.is_empty() && self.ranges.len() >= RANGES_MAX {
            return false;
        }
        let merged = touched.iter().fold((start, end), |all, range| (all.0.min(range.0), all.1.max(range.1)));
        let before: u32 = touched.iter().map(|range| range.1.since(range.0)).sum();
        self.ranges.splice(first..last, [merged]);
        let after = merged.1.since(merged.0);
        self.bytes = self.bytes.saturating_sub(before).saturating_add(after);
        after > before
    }

    /// Forgets the ranges before the cumulative acknowledgment.
    pub fn advance(&mut self, una: Seq) {
        let gone = self.ranges.partition_point(|range| range.1.until(una));
        self.ranges.drain(..gone);
        if let Some(first) = self.ranges.first_mut() {
            first.0 = first.0.max(una);
        }
        self.recount();
    }

    /// Forgets everything, after the peer has dropped data that it had acknowledged (RFC 2018 section 8).
    pub fn clear(&mut self) {
        self.ranges.clear();
        self.bytes = 0;
    }

    /// Returns whether the peer claims to hold the very byte that it does not acknowledge.
    pub fn covers(&self, at: Seq) -> bool {
        self.ranges.iter().any(|range| range.0.until(at) && at.before(range.1))
    }

    /// Returns the beginning of the range that holds a byte.
    pub fn start_of(&self, at: Seq) -> Option<Seq> {
        let holds = |range: &&(Seq, Seq)| range.0.until(at) && at.before(range.1);
        self.ranges.iter().rev().find(holds).map(|range| range.0)
    }

    /// Returns the first hole at or behind `from` that ends before `end`, as (start, end). All that lies beyond the last range is a hole up
    /// to `end`.
    pub fn hole(&self, from: Seq, end: Seq) -> Option<(Seq, Seq)> {
        let mut start = from;
        for range in &self.ranges {
            if start.before(range.0) {
                break;
            }
            start = start.max(range.1);
        }
        let stop =
            self.ranges.iter().map(|range| range.0).find(|edge| start.before(*edge)).map_or(end, |edge| edge.min(end));
        start.before(stop).then_some((start, stop))
    }

    /// Returns the number below which holes count as lost: three segments or three ranges lie above (RFC 6675
    /// IsLost). `una` if nothing is lost.
    pub fn lost_edge(&self, una: Seq, segment_bytes: u32) -> Seq {
        let mut above_bytes = 0_u32;
        for (count, range) in self.ranges.iter().rev().enumerate() {
            above_bytes = above_bytes.saturating_add(range.1.since(range.0));
            let ranges = u32::try_from(count).unwrap_or(u32::MAX).saturating_add(1);
            if ranges >= THRESHOLD || above_bytes > segment_bytes.saturating_mul(THRESHOLD - 1) {
                return range.0.max(una);
            }
        }
        una
    }

    /// Returns the bytes not acknowledged between two numbers.
    pub fn missing_between(&self, start: Seq, end: Seq) -> u32 {
        let held: u32 = self.ranges.iter().map(|range| range.1.min(end).since(range.0.max(start))).sum();
        end.since(start).saturating_sub(held)
    }

    fn recount(&mut self) {
        self.bytes = self.ranges.iter().map(|range| range.1.since(range.0)).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn the_ranges_agree_with_a_set_of_bytes(base: u32, steps in proptest::collection::vec((0u32..200, 0u32..60, any::<bool>()), 1..60)) {
            let (mut board, mut model, mut una) = (Scoreboard::default(), BTreeSet::new(), 0u32);
            let at = |offset: u32| Seq(base) + offset;
            for (start, len, advance) in steps {
                if advance {
                    una = una.max(start.min(una + 10));
                    board.advance(at(una));
                    model.retain(|byte| *byte >= una);
                } else if start >= una {
                    let before = model.len();
                    model.extend(start..start + len);
                    prop_assert_eq!(board.insert(at(start), at(start + len)), model.len() > before);
                }
                prop_assert_eq!(board.bytes() as usize, model.len());
                let missing = (una..260).filter(|byte| !model.contains(byte)).collect::<Vec<_>>();
                prop_assert_eq!(board.missing_between(at(una), at(260)) as usize, missing.len());
                let hole = board.hole(at(una), at(260)).unwrap();
                prop_assert_eq!(hole.0, at(missing[0]));
                prop_assert!(missing.contains(&hole.1.since(at(0)).wrapping_sub(1)));
                prop_assert!(hole.1 == at(260) || model.contains(&hole.1.since(at(0))));
            }
        }
    }

    #[test]
    fn a_hole_is_lost_when_three_segments_lie_above_it() {
        let mut board = Scoreboard::default();
        board.insert(Seq(2000), Seq(3000));
        assert_eq!(board.lost_edge(Seq(1000), 1000), Seq(1000));
        board.insert(Seq(3000), Seq(4000));
        assert_eq!(board.lost_edge(Seq(1000), 1000), Seq(1000));
        board.insert(Seq(4000), Seq(5000));
        assert_eq!(board.lost_edge(Seq(1000), 1000), Seq(2000));
    }

    #[test]
    fn a_peer_cannot_make_it_grow_without_end() {
        let mut board = Scoreboard::default();
        (0..100_000u32).for_each(|index| {
            board.insert(Seq(index * 4), Seq(index * 4 + 2));
        });
        assert!(board.ranges.len() <= RANGES_MAX);
    }
}
