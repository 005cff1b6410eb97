//! Eager: memory becomes present when it is mapped, up to 64 MiB at once, in pages of 2 MiB; what is smaller in blocks of small pages.
//!
//! Source: XOS (seed 003), section 4.2, pre-paging.

use super::Pager;
use crate::memory::{LARGE_BYTES, Region, Size};

/// So much of a new region at once; the rest when it is touched, in steps of a large page.
const AT_ONCE_BYTES: u64 = 64 << 20;

/// The policy.
#[derive(Clone, Copy, Debug)]
pub struct Eager;

impl Pager for Eager {
    fn on_map(&self, region: Region) -> Region {
        region.within(region.start, region.start.saturating_add(AT_ONCE_BYTES))
    }

    fn on_fault(&self, region: Region, address: u64) -> Region {
        let start = address & !(LARGE_BYTES - 1);
        region.within(start, start.saturating_add(LARGE_BYTES))
    }

    fn size(&self) -> Size {
        Size::Large
    }
}
