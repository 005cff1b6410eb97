//! Memory before the frame allocator exists: pages off the front of one region.

use crate::lock::SpinLock;
use crate::paging::reach;
use gyre_platform::{MemoryRegion, PAGE_BYTES, Pa};

struct Supply {
    next: u64,
    end: u64,
}

static SUPPLY: SpinLock<Supply> = SpinLock::new(Supply { next: 0, end: 0 });

/// Starts to hand out pages of `region`.
pub(crate) fn start(region: MemoryRegion) {
    SUPPLY.with(|supply| *supply = Supply { next: region.start.0, end: region.start.0 + region.bytes });
}

/// A zeroed page, or nothing once the supply is closed or used up.
pub(crate) fn take_page() -> Option<u64> {
    let pa = SUPPLY.with(|supply| {
        let pa = supply.next;
        (pa < supply.end).then(|| {
            supply.next += PAGE_BYTES as u64;
            pa
        })
    })?;
    // SAFETY: a page of the zone that nobody else has.
    unsafe { crate::copy::zero_pages(reach(pa) as *mut u8, PAGE_BYTES) };
    Some(pa)
}

/// Closes the supply and returns what is left of the region.
pub(crate) fn close() -> MemoryRegion {
    SUPPLY.with(|supply| {
        let rest = MemoryRegion { start: Pa(supply.next), bytes: supply.end - supply.next };
        *supply = Supply { next: 0, end: 0 };
        rest
    })
}
