//! Keep: as demand, but nothing is ever unmapped; the next mapping at these addresses finds its frames, and no fault is taken.
//!
//! They are cleared then, as Linux promises. Source: XOS (seed 003), section 6.2, malloc and free.

use super::{Demand, Pager, Unmapped};
use crate::memory::Region;

/// The policy.
#[derive(Clone, Copy, Debug)]
pub struct Keep;

impl Pager for Keep {
    fn on_map(&self, region: Region) -> Region {
        Demand.on_map(region)
    }

    fn on_fault(&self, region: Region, address: u64) -> Region {
        Demand.on_fault(region, address)
    }

    fn unmapped(&self) -> Unmapped {
        Unmapped::Kept
    }
}
