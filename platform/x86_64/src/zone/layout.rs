//! The places of a new instance's parts in its lots: image, module, loader's hand-over, shared page; the rest is its memory.

use super::pool::LOT_BYTES;
use crate::list::List;
use gyre_platform::zone::REGIONS_MAX;
use gyre_platform::{MemoryRegion, PAGE_BYTES, Pa, ZonePage};

const PAGE: u64 = PAGE_BYTES as u64;
const NOTHING: MemoryRegion = MemoryRegion { start: Pa(0), bytes: 0 };

/// Ranges of lots, ascending, none beside or over another.
pub(crate) type LotRanges = List<MemoryRegion, REGIONS_MAX>;

/// The places, all of them physical addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    /// The image.
    pub(crate) image: u64,
    /// The boot module.
    pub(crate) module: MemoryRegion,
    /// The page of `hvm_start_info`; the command line's page follows.
    pub(crate) info: u64,
    /// The command line.
    pub(crate) command_line: u64,
    /// The shared page.
    pub(crate) page: u64,
    /// All lots.
    pub(crate) lots: LotRanges,
    /// The rest, for the instance to use.
    pub(crate) memory: LotRanges,
}

/// Why lots do not make an instance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LotFault {
    /// This range is not made of whole lots, or ends beyond 4 GiB.
    Shape(MemoryRegion),
    /// This range lies over another one.
    Overlap(MemoryRegion),
    /// There are more than 16 ranges that do not touch.
    Scattered,
    /// The largest range of lots has fewer than this many bytes.
    Small(u64),
}

/// Sorts ranges of lots and joins neighbours.
///
/// # Errors
/// [`LotFault`].
pub(crate) fn join(lots: &[MemoryRegion]) -> Result<LotRanges, LotFault> {
    let mut joined = LotRanges::new(NOTHING);
    let mut from = 0;
    for _ in lots {
        // The next range in ascending order; the list is short, and not ours to sort.
        let next = lots.iter().filter(|region| region.start.0 >= from).min_by_key(|region| region.start.0);
        let Some(region) = next else { break };
        let end = check_shape(region)?;
        if lots.iter().any(|other| !core::ptr::eq(other, region) && overlaps(other, region, end)) {
            return Err(LotFault::Overlap(*region));
        }
        match joined.last_mut() {
            Some(last) if last.start.0 + last.bytes == region.start.0 => last.bytes += region.bytes,
            _ => joined.push(*region).ok_or(LotFault::Scattered)?,
        }
        from = end;
    }
    Ok(joined)
}

fn check_shape(region: &MemoryRegion) -> Result<u64, LotFault> {
    let is_whole =
        region.bytes > 0 && region.start.0.is_multiple_of(LOT_BYTES) && region.bytes.is_multiple_of(LOT_BYTES);
    let end = region.start.0.checked_add(region.bytes).filter(|end| is_whole && *end <= 4 << 30);
    end.ok_or(LotFault::Shape(*region))
}

fn overlaps(other: &MemoryRegion, region: &MemoryRegion, end: u64) -> bool {
    other.start.0 < end && region.start.0 < other.start.0.saturating_add(other.bytes)
}

/// Lays an instance out: everything that is written before its start goes to the largest range.
///
/// # Errors
/// [`LotFault`].
pub(crate) fn lay_out(lots: &LotRanges, image_bytes: u64, module_bytes: u64) -> Result<Layout, LotFault> {
    let whole = |bytes: u64| bytes.checked_next_multiple_of(PAGE).unwrap_or(u64::MAX);
    let parts = [whole(image_bytes), whole(module_bytes), 2 * PAGE, whole(size_of::<ZonePage>() as u64), PAGE];
    let needed = parts.iter().fold(0u64, |sum, part| sum.saturating_add(*part));
    let largest = lots.as_slice().iter().max_by_key(|region| region.bytes);
    let first = largest.filter(|region| region.bytes >= needed).ok_or(LotFault::Small(needed))?;
    let image = first.start.0;
    let module = image + parts[0];
    let info = module + parts[1];
    let page = info + parts[2];
    let rest = page + parts[3];
    let mut memory = LotRanges::new(NOTHING);
    for region in lots.as_slice() {
        let start = if region == first { rest } else { region.start.0 };
        let left = MemoryRegion { start: Pa(start), bytes: region.start.0 + region.bytes - start };
        memory.push(left).ok_or(LotFault::Scattered)?;
    }
    let module = MemoryRegion { start: Pa(if module_bytes > 0 { module } else { 0 }), bytes: module_bytes };
    Ok(Layout { image, module, info, command_line: info + PAGE, page, lots: *lots, memory })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    extern crate std;

    fn lots(start: u64, count: u64) -> MemoryRegion {
        MemoryRegion { start: Pa(start * LOT_BYTES), bytes: count * LOT_BYTES }
    }

    #[test]
    fn neighbours_become_one_range() {
        assert_eq!(join(&[lots(9, 1), lots(4, 2), lots(6, 3)]).unwrap().as_slice(), [lots(4, 6)]);
        assert_eq!(join(&[lots(9, 1), lots(4, 2)]).unwrap().as_slice(), [lots(4, 2), lots(9, 1)]);
    }

    #[test]
    fn lots_that_make_no_sense_are_refused() {
        let odd = MemoryRegion { start: Pa(LOT_BYTES + 4096), bytes: LOT_BYTES };
        assert_eq!(join(&[odd]), Err(LotFault::Shape(odd)));
        assert_eq!(join(&[lots(1, 0)]), Err(LotFault::Shape(lots(1, 0))));
        assert_eq!(join(&[lots(2040, 9)]), Err(LotFault::Shape(lots(2040, 9))));
        assert!(matches!(join(&[lots(1, 2), lots(2, 2)]), Err(LotFault::Overlap(_))));
        assert!(matches!(join(&[lots(1, 2), lots(1, 2)]), Err(LotFault::Overlap(_))));
        assert!(matches!(join(&[lots(1, 5), lots(2, 1)]), Err(LotFault::Overlap(_))));
        let scattered: std::vec::Vec<_> = (0..17).map(|number| lots(number * 2, 1)).collect();
        assert!(join(&scattered[..16]).is_ok() && join(&scattered) == Err(LotFault::Scattered));
        assert!(matches!(lay_out(&join(&[lots(1, 1)]).unwrap(), LOT_BYTES, 0), Err(LotFault::Small(_))));
        assert!(matches!(lay_out(&join(&[lots(1, 1)]).unwrap(), 4096, u64::MAX), Err(LotFault::Small(_))));
    }

    proptest! {
        #[test]
        fn the_parts_of_an_instance_lie_apart_in_its_lots(
            ranges in proptest::collection::btree_map(0u64..2000, 1u64..40, 1..10),
            image in 1u64..20_000_000,
            module in 0u64..5_000_000,
        ) {
            let ranges: std::vec::Vec<_> = ranges.into_iter().map(|(start, count)| lots(start, count)).collect();
            let Ok(joined) = join(&ranges) else { return Ok(()) };
            let bytes: u64 = ranges.iter().map(|region| region.bytes).sum();
            prop_assert_eq!(joined.as_slice().iter().map(|region| region.bytes).sum::<u64>(), bytes);
            let Ok(layout) = lay_out(&joined, image, module) else { return Ok(()) };
            let mut parts = std::vec![
                (layout.image, image), (layout.info, 2 * PAGE), (layout.page, size_of::<ZonePage>() as u64),
            ];
            parts.extend((module > 0).then_some((layout.module.start.0, module)));
            parts.extend(layout.memory.as_slice().iter().map(|region| (region.start.0, region.bytes)));
            parts.sort_unstable();
            for (start, length) in &parts {
                let inside = joined.as_slice().iter().any(|lots| lots.start.0 <= *start && start + length <= lots.start.0 + lots.bytes);
                prop_assert!(inside && start % PAGE == 0 && *length > 0);
            }
            prop_assert!(parts.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0));
        }
    }
}
