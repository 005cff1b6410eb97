//! Reuse: as keep, but what a program has unmapped it finds again as it left it. Linux promises zeros, so this is for programs that clear
//! what they take: an allocator may believe that fresh mappings are clear.
//!
//! No other process had these frames: the kernel clears lots when they come. Source: XOS (seed 003), section 6.2, malloc and free.

use super::{Demand, Pager, Unmapped};
use crate::memory::Region;

/// The policy.
#[derive(Clone, Copy, Debug)]
pub struct Reuse;

impl Pager for Reuse {
    fn on_map(&self, region: Region) -> Region {
        Demand.on_map(region)
    }

    fn on_fault(&self, region: Region, address: u64) -> Region {
        Demand.on_fault(region, address)
    }

    fn unmapped(&self) -> Unmapped {
        Unmapped::KeptAsItWas
    }
}
