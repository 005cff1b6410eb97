//! The map of regions: find, split, merge, gaps. Pure; knows no pages.
//!
//! A space may have tens of thousands of regions. So a call that names a range looks at the regions there only
//! ([`Regions::overlapping`], [`Regions::covers`]), and the sum of all bytes is kept ([`Regions::mapped_bytes`]). The search
//! for a place ([`Regions::gap_below`]) passes all regions above it, and sums by kind ([`Regions::bytes`]) look at all.
//!
//! Protocol of use: under the space's lock. [`Regions::take`] or [`Regions::discard`] makes room, [`Regions::insert`] fills
//! it; neighbours that continue each other become one region. No range has its end before its start.

use crate::region::{PAGE, Region};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Regions by their start. They never overlap.
#[derive(Default, Clone)]
pub(crate) struct Regions {
    map: BTreeMap<u64, Region>,
    /// Bytes of all of them.
    mapped_bytes: u64,
}

impl Regions {
    /// Returns how many there are.
    pub(crate) fn len(&self) -> usize {
        self.map.len()
    }

    /// Returns the bytes of all of them.
    pub(crate) fn mapped_bytes(&self) -> u64 {
        self.mapped_bytes
    }

    /// Returns all of them, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &Region)> {
        self.map.iter().map(|(start, region)| (*start, region))
    }

    /// Returns the regions from the one that holds or follows `address` on, in order.
    pub(crate) fn iter_from(&self, address: u64) -> impl Iterator<Item = (u64, &Region)> {
        let first = self.find(address).map_or(address, |(start, _)| start);
        self.map.range(first..).map(|(start, region)| (*start, region))
    }

    /// Returns the region that holds `address`, with its start.
    pub(crate) fn find(&self, address: u64) -> Option<(u64, &Region)> {
        let (start, region) = self.map.range(..=address).next_back()?;
        (address < region.end).then_some((*start, region))
    }

    /// Returns the first region that starts above `address`.
    pub(crate) fn next_above(&self, address: u64) -> Option<(u64, &Region)> {
        let (start, region) = self.map.range(address..).next()?;
        Some((*start, region))
    }

    /// Returns the last region that ends at or below `address`.
    pub(crate) fn last_below(&self, address: u64) -> Option<(u64, &Region)> {
        let (start, region) = self.map.range(..address).next_back()?;
        Some((*start, region))
    }

    /// Returns whether some region has an address in the range.
    pub(crate) fn overlaps(&self, start: u64, end: u64) -> bool {
        self.map.range(..end).next_back().is_some_and(|(_, region)| region.end > start)
    }

    /// Returns whether the range has no hole.
    pub(crate) fn covers(&self, start: u64, end: u64) -> bool {
        let mut covered = start;
        for (from, to, _) in self.overlapping(start, end) {
            if from > covered {
                return false;
            }
            covered = to;
        }
        covered >= end
    }

    /// Returns the parts of regions in the range, in order.
    pub(crate) fn overlapping(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, u64, &Region)> {
        let first = self.find(start).map_or(start, |(start, _)| start);
        let all = self.map.range(first..end.max(first));
        all.map(move |(at, region)| (start.max(*at), end.min(region.end), region))
    }

    /// Returns the parts of regions in the range, in order, to be kept while the regions change.
    pub(crate) fn parts(&self, start: u64, end: u64) -> Vec<(u64, u64, Region)> {
        self.overlapping(start, end).map(|(from, to, region)| (from, to, region.clone())).collect()
    }

    /// Returns the parts of regions in the range as regions of their own, by their starts.
    pub(crate) fn cut(&self, start: u64, end: u64) -> Vec<(u64, Region)> {
        let first = self.find(start).map_or(start, |(start, _)| start);
        self.map
            .range(first..end.max(first))
            .map(|(at, region)| {
                let from = start.max(*at);
                (from, Region { end: end.min(region.end), first_index: region.index_of(*at, from), ..region.clone() })
            })
            .collect()
    }

    /// Returns the start of the region behind the next `count` ones from `address` on.
    pub(crate) fn nth_start(&self, address: u64, count: usize) -> Option<u64> {
        self.map.range(address..).nth(count).map(|(start, _)| *start)
    }

    /// Makes `address` a border if it lies inside a region.
    fn split_at(&mut self, address: u64) {
        let Some((start, region)) = self.find(address) else {
            return;
        };
        if start == address {
            return;
        }
        let mut upper = region.clone();
        upper.first_index = region.index_of(start, address);
        if let Some(lower) = self.map.get_mut(&start) {
            lower.end = address;
        }
        self.map.insert(address, upper);
    }

    /// Removes the range from all regions and returns the removed parts.
    pub(crate) fn take(&mut self, start: u64, end: u64) -> Vec<(u64, Region)> {
        self.split_at(start);
        self.split_at(end);
        let starts: Vec<u64> = self.map.range(start..end).map(|(start, _)| *start).collect();
        starts.into_iter().filter_map(|start| Some((start, self.remove(start)?))).collect()
    }

    /// Removes the range from all regions.
    pub(crate) fn discard(&mut self, start: u64, end: u64) {
        self.split_at(start);
        self.split_at(end);
        while let Some((&at, _)) = self.map.range(start..end).next() {
            self.remove(at);
        }
    }

    fn remove(&mut self, start: u64) -> Option<Region> {
        let region = self.map.remove(&start)?;
        self.mapped_bytes = self.mapped_bytes.saturating_sub(region.end.saturating_sub(start));
        Some(region)
    }

    /// Adds a region if nothing is, and merges it with neighbours that it continues.
    pub(crate) fn insert(&mut self, start: u64, region: Region) {
        let end = region.end;
        self.mapped_bytes = self.mapped_bytes.saturating_add(end.saturating_sub(start));
        self.map.insert(start, region);
        self.merge_at(end);
        self.merge_at(start);
    }

    /// Merges the regions that meet at `border` if the upper one only continues the lower one.
    fn merge_at(&mut self, border: u64) {
        let mut downwards = self.map.range(..=border).rev();
        let (Some((&at, upper)), Some((&start, lower))) = (downwards.next(), downwards.next()) else {
            return;
        };
        if at != border || lower.end != border || !lower.is_continued_by(start, upper) {
            return;
        }
        let end = upper.end;
        self.map.remove(&border);
        if let Some(lower) = self.map.get_mut(&start) {
            lower.end = end;
        }
    }

    /// Changes all parts in the range.
    pub(crate) fn change(&mut self, start: u64, end: u64, change: impl Fn(&mut Region)) {
        self.split_at(start);
        self.split_at(end);
        let mut inner = Vec::new();
        for (at, region) in self.map.range_mut(start..end) {
            change(region);
            if *at != start {
                inner.push(*at);
            }
        }
        self.merge_at(end);
        inner.into_iter().rev().for_each(|at| self.merge_at(at));
        self.merge_at(start);
    }

    /// Changes all regions.
    pub(crate) fn change_all(&mut self, change: impl Fn(&mut Region)) {
        self.change(0, u64::MAX, change);
    }

    /// Moves the start of the region at `start` down to `new_start` (stack growth).
    pub(crate) fn grow_down(&mut self, start: u64, new_start: u64) {
        if let Some(mut region) = self.remove(start) {
            region.first_index = region.first_index.before(start.saturating_sub(new_start) / PAGE);
            self.insert(new_start, region);
        }
    }

    /// Returns the highest gap of `bytes` between `low` and `high`.
    pub(crate) fn gap_below(&self, bytes: u64, low: u64, high: u64) -> Option<u64> {
        let mut top = high;
        for (start, region) in self.map.range(..high).rev() {
            if top.checked_sub(region.end).is_some_and(|gap| gap >= bytes) {
                break;
            }
            top = top.min(*start);
            if top <= low {
                return None;
            }
        }
        top.checked_sub(bytes).filter(|start| *start >= low)
    }

    /// Returns the bytes of regions inside the range.
    pub(crate) fn bytes_in(&self, start: u64, end: u64) -> u64 {
        self.overlapping(start, end).map(|(from, to, _)| to.saturating_sub(from)).sum()
    }

    /// Returns the bytes of all regions that `wanted` holds for. Looks at all of them.
    pub(crate) fn bytes(&self, wanted: impl Fn(&Region) -> bool) -> u64 {
        self.map
            .iter()
            .filter(|(_, region)| wanted(region))
            .map(|(start, region)| region.end.saturating_sub(*start))
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page_index::PageIndex;
    use crate::region::{Options, Provider, Rights};
    use proptest::prelude::*;

    fn region(end: u64, rights: Rights) -> Region {
        let (provider, first_index) = (Provider::Anonymous, PageIndex::FIRST);
        Region { end, rights, rights_max: Rights::all(), options: Options::empty(), provider, first_index }
    }

    proptest! {
        #[test]
        fn the_sum_of_bytes_is_that_of_the_regions(steps in prop::collection::vec((0u8..4, 1u64..60, 1u64..12), 1..80)) {
            let mut regions = Regions::default();
            for (step, from, pages) in steps {
                let (start, end) = (from * PAGE, (from + pages) * PAGE);
                match step {
                    0 if from % 2 == 0 => regions.discard(start, end),
                    0 => _ = regions.take(start, end),
                    1 => regions.change(start, end, |region| region.rights ^= Rights::WRITE),
                    2 if regions.find(start).is_some_and(|(first, _)| first == start) && !regions.overlaps(start - PAGE, start) => {
                        regions.grow_down(start, start - PAGE);
                    }
                    _ => {
                        regions.take(start, end);
                        regions.insert(start, region(end, Rights::READ));
                    }
                }
                prop_assert_eq!(regions.mapped_bytes(), regions.bytes(|_| true));
                let parts: Vec<_> = regions.parts(start, end).into_iter().map(|(from, to, _)| to - from).collect();
                prop_assert_eq!(regions.bytes_in(start, end), parts.into_iter().sum::<u64>());
            }
        }
    }
}
