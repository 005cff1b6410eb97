//! Ranges that were taken away while cores may still translate them. They are not given again before all cores have
//! forgotten them.
//!
//! So a fresh region never needs a flush (2013 paper, sections IV-D and IV-E): the range of a removal under way is
//! left out when a place is chosen. Only a program that names such a place itself has to wait for a flush of its own.

use crate::regions::Regions;
use crate::space::{State, Withdrawn};
use alloc::vec::Vec;

/// Bytes of addresses that each core's allocator hands out: disjoint, so that regions made on different cores share no table.
const CORE_BYTES: u64 = 1 << 39;
/// Cores with a range of their own; others share theirs.
const CORES: usize = 32;

/// Ranges that are being forgotten.
#[derive(Default)]
pub(crate) struct StaleRanges(Vec<(u64, u64)>);

impl StaleRanges {
    pub(crate) fn add(&mut self, start: u64, end: u64) {
        self.0.push((start, end));
    }

    /// Notes that all cores have forgotten the range.
    pub(crate) fn remove(&mut self, range: (u64, u64)) {
        if let Some(index) = self.0.iter().position(|other| *other == range) {
            self.0.swap_remove(index);
        }
    }

    /// Returns a range among them that overlaps.
    fn overlapping(&self, start: u64, end: u64) -> Option<(u64, u64)> {
        self.0.iter().copied().find(|(from, to)| *from < end && start < *to)
    }

    /// Returns the highest gap of `bytes` between `low` and `high` that is free and that no core remembers.
    fn gap_below(&self, regions: &Regions, bytes: u64, low: u64, high: u64) -> Option<u64> {
        let mut high = high;
        loop {
            let start = regions.gap_below(bytes, low, high)?;
            match self.overlapping(start, start.saturating_add(bytes)) {
                None => return Some(start),
                Some((from, _)) => high = from,
            }
        }
    }
}

impl State {
    /// Returns a free range for the core that asks: in its own part below the top of mappings, else wherever there is room.
    pub(crate) fn gap(&self, bytes: u64, low: u64, top: u64, end: u64) -> Option<u64> {
        let core = (gyre_machine::core_index() % CORES) as u64;
        let own_top = top.saturating_sub(core.saturating_mul(CORE_BYTES));
        let own_low = own_top.saturating_sub(CORE_BYTES).max(low);
        let find = |low, high| self.stale_ranges.gap_below(&self.regions, bytes, low, high);
        find(own_low, own_top).or_else(|| find(low, top)).or_else(|| find(top, end))
    }

    /// Gives out a place that a program named: if cores may remember it, this change flushes it, too.
    pub(crate) fn cover_stale_ranges(&self, start: u64, end: u64, withdrawn: &mut Withdrawn) {
        if self.stale_ranges.overlapping(start, end).is_some() {
            withdrawn.stale.all = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_that_cores_remember_is_no_gap() {
        let (regions, mut leaving) = (Regions::default(), StaleRanges::default());
        assert_eq!(leaving.gap_below(&regions, 10, 0, 100), Some(90));
        leaving.add(85, 95);
        leaving.add(70, 80);
        assert_eq!(leaving.gap_below(&regions, 10, 0, 100), Some(60));
        assert_eq!(leaving.gap_below(&regions, 5, 0, 100), Some(95));
        leaving.remove((85, 95));
        assert_eq!(leaving.gap_below(&regions, 10, 0, 100), Some(90));
    }
}
