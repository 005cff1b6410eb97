//! The map of regions: find, split, merge, gaps. Pure; knows no pages.

use crate::region::{PAGE, Region};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Regions by their start. They never overlap.
#[derive(Default, Clone)]
pub(crate) struct Regions {
    map: BTreeMap<u64, Region>,
}

impl Regions {
    /// Returns how many there are.
    pub(crate) fn len(&self) -> usize {
        self.map.len()
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
        let mut at = start;
        while at < end {
            match self.find(at) {
                Some((_, region)) => at = region.end,
                None => return false,
            }
        }
        true
    }

    /// Returns the parts of regions in the range, in order.
    pub(crate) fn parts(&self, start: u64, end: u64) -> Vec<(u64, u64, Region)> {
        let first = self.find(start).map_or(start, |(start, _)| start);
        self.map
            .range(first..end.max(first))
            .filter(|(_, region)| region.end > start)
            .map(|(at, region)| (start.max(*at), end.min(region.end), region.clone()))
            .collect()
    }

    /// Returns the parts of regions in the range as regions of their own, by their starts.
    pub(crate) fn cut(&self, start: u64, end: u64) -> Vec<(u64, Region)> {
        let first = self.find(start).map_or(start, |(start, _)| start);
        let overlapping = self.map.range(first..end.max(first)).filter(|(_, region)| region.end > start);
        overlapping
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
        starts.into_iter().filter_map(|start| self.map.remove(&start).map(|region| (start, region))).collect()
    }

    /// Adds a region if nothing is, and merges it with neighbours that it continues.
    pub(crate) fn insert(&mut self, start: u64, region: Region) {
        let end = region.end;
        self.map.insert(start, region);
        self.merge_at(end);
        self.merge_at(start);
    }

    /// Merges the regions that meet at `border` if the upper one only continues the lower one.
    fn merge_at(&mut self, border: u64) {
        let Some((&start, lower)) = self.map.range(..border).next_back() else {
            return;
        };
        let Some(upper) = self.map.get(&border) else {
            return;
        };
        if lower.end != border || !lower.is_continued_by(start, upper) {
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
        self.map.range_mut(start..end).for_each(|(_, region)| change(region));
        self.merge_at(end);
        let mut border = end;
        while let Some((&at, _)) = self.map.range(start..border).next_back() {
            self.merge_at(at);
            border = at;
        }
    }

    /// Changes all regions.
    pub(crate) fn change_all(&mut self, change: impl Fn(&mut Region)) {
        self.change(0, u64::MAX, change);
    }

    /// Moves the start of the region at `start` down to `new_start` (stack growth).
    pub(crate) fn grow_down(&mut self, start: u64, new_start: u64) {
        if let Some(mut region) = self.map.remove(&start) {
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
        self.parts(start, end).iter().map(|(from, to, _)| to.saturating_sub(*from)).sum()
    }

    /// Returns the bytes of all regions that `wanted` holds for.
    pub(crate) fn bytes(&self, wanted: impl Fn(&Region) -> bool) -> u64 {
        self.map
            .iter()
            .filter(|(_, region)| wanted(region))
            .map(|(start, region)| region.end.saturating_sub(*start))
            .sum()
    }
}
