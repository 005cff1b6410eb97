//! Demand: a page becomes present when it is touched.

use super::{Pager, nothing};
use crate::memory::{PAGE_BYTES, Region, page_down};

/// The policy.
#[derive(Clone, Copy, Debug)]
pub struct Demand;

impl Pager for Demand {
    fn on_map(&self, region: Region) -> Region {
        nothing(region)
    }

    fn on_fault(&self, region: Region, address: u64) -> Region {
        let start = page_down(address);
        region.within(start, start.saturating_add(PAGE_BYTES))
    }
}
