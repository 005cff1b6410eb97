//! From the loader's memory map and the firmware's list of cores to the zone of this instance.

use super::parts::PHYSICAL_END;
use gyre_platform::zone::REGIONS_MAX;
use gyre_platform::{CORES_MAX, MemoryRegion, PAGE_BYTES, Pa, PciAddress, ZoneDescription};

const PAGE: u64 = PAGE_BYTES as u64;
/// Below this the firmware, the loader and the trampoline of the other cores live; nothing is allocated there.
const LOW_END: u64 = 0x10_0000;

/// A list of free ranges from which others are cut out.
pub(crate) struct Regions {
    list: [MemoryRegion; REGIONS_MAX],
    count: usize,
}

impl Regions {
    /// An empty list.
    pub(crate) fn new() -> Regions {
        Regions { list: [MemoryRegion { start: Pa(0), bytes: 0 }; REGIONS_MAX], count: 0 }
    }

    /// Adds whole pages of a range, or nothing if no page or no place is left. The largest ranges are kept.
    pub(crate) fn add(&mut self, start: u64, end: u64) {
        let start = start.max(LOW_END).next_multiple_of(PAGE);
        let end = end.min(PHYSICAL_END) / PAGE * PAGE;
        if start >= end {
            return;
        }
        let region = MemoryRegion { start: Pa(start), bytes: end - start };
        if self.count < REGIONS_MAX {
            self.list[self.count] = region;
            self.count += 1;
        } else if let Some(smallest) =
            self.list.iter_mut().min_by_key(|region| region.bytes).filter(|other| other.bytes < region.bytes)
        {
            *smallest = region;
        }
    }

    /// Leaves only what lies in one of these ranges, which do not overlap.
    pub(crate) fn keep(&mut self, ranges: &[MemoryRegion]) {
        let before = core::mem::replace(self, Regions::new());
        for region in &before.list[..before.count] {
            for range in ranges {
                let start = region.start.0.max(range.start.0);
                self.add(start, (region.start.0 + region.bytes).min(range.start.0 + range.bytes));
            }
        }
    }

    /// Takes a range out, rounded outward to pages.
    pub(crate) fn cut(&mut self, start: u64, end: u64) {
        let (start, end) = (start / PAGE * PAGE, end.next_multiple_of(PAGE));
        let before = core::mem::replace(self, Regions::new());
        for region in &before.list[..before.count] {
            let (first, last) = (region.start.0, region.start.0 + region.bytes);
            self.add(first, last.min(start));
            self.add(first.max(end), last);
        }
    }

    /// The ranges.
    pub(crate) fn as_slice(&self) -> &[MemoryRegion] {
        &self.list[..self.count]
    }
}

/// True if one of the ranges holds all from `start` to `end`.
pub(crate) fn holds(ranges: &[MemoryRegion], start: u64, end: u64) -> bool {
    ranges.iter().any(|range| range.start.0 <= start && end <= range.start.0 + range.bytes)
}

/// Makes the zone. `boot_core` comes first, the others in the firmware's order up to `cores_max`.
pub(crate) fn describe(
    regions: &Regions,
    boot_core: u32,
    listed: &[u32],
    cores_max: usize,
    devices: Option<&'static [PciAddress]>,
) -> ZoneDescription {
    let mut zone = ZoneDescription {
        core_ids: [0; CORES_MAX],
        core_count: 1,
        memory: regions.list,
        memory_count: regions.count,
        devices,
    };
    zone.core_ids[0] = boot_core;
    for id in listed.iter().filter(|id| **id != boot_core) {
        if zone.core_count < cores_max.clamp(1, CORES_MAX) {
            zone.core_ids[zone.core_count] = *id;
            zone.core_count += 1;
        }
    }
    zone
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_in_the_middle_leaves_both_ends() {
        let mut regions = Regions::new();
        regions.add(0, 0x9_f000);
        regions.add(0x10_0000, 0x100_0800);
        regions.cut(0x20_0010, 0x30_0001);
        let ends: std::vec::Vec<_> = regions.as_slice().iter().map(|r| (r.start.0, r.start.0 + r.bytes)).collect();
        assert_eq!(ends, [(0x10_0000, 0x20_0000), (0x30_1000, 0x100_0000)]);
    }

    #[test]
    fn when_the_list_is_full_the_largest_ranges_stay() {
        let mut regions = Regions::new();
        for number in 1..=20u64 {
            regions.add(number << 24, (number << 24) + number * PAGE);
        }
        assert_eq!(regions.as_slice().len(), REGIONS_MAX);
        assert_eq!(regions.as_slice().iter().map(|r| r.bytes / PAGE).min(), Some(5));
    }

    #[test]
    fn only_what_lies_in_a_range_is_kept() {
        let range = |start, end| MemoryRegion { start: Pa(start), bytes: end - start };
        let mut regions = Regions::new();
        regions.add(0x10_0000, 0x100_0000);
        regions.add(0x1000_0000, 0x2000_0000);
        let ranges = [range(0x8000, 0x9000), range(0x80_0000, 0x90_0000), range(0xf0_0000, 0x1100_0000)];
        regions.keep(&ranges);
        let ends: std::vec::Vec<_> = regions.as_slice().iter().map(|r| (r.start.0, r.start.0 + r.bytes)).collect();
        assert_eq!(ends, [(0x80_0000, 0x90_0000), (0xf0_0000, 0x100_0000), (0x1000_0000, 0x1100_0000)]);
        assert!(holds(&ranges, 0x80_0000, 0x90_0000) && !holds(&ranges, 0x8f_0000, 0x91_0000));
        regions.keep(&[]);
        assert_eq!(regions.as_slice(), []);
    }

    #[test]
    fn the_boot_core_comes_first_and_once() {
        let zone = describe(&Regions::new(), 2, &[0, 1, 2, 3], 3, None);
        assert_eq!(zone.core_ids[..zone.core_count], [2, 0, 1]);
    }

    extern crate std;
}
