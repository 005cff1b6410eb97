//! Pagers: when the pages of anonymous memory become present, and whether they go again. A policy is a file.

mod demand;
mod eager;
mod keep;
mod reuse;

pub use demand::Demand;
pub use eager::Eager;
pub use keep::Keep;
pub use reuse::Reuse;

use crate::memory::{Region, Size};

/// The way of the frames of memory that is unmapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unmapped {
    /// They go back to the allocator at once.
    Released,
    /// They stay where they are, for the next mapping there; they go back when frames run out.
    Kept,
    /// As kept, and what is in them too.
    KeptAsItWas,
}

/// A policy.
pub trait Pager {
    /// The part of a new region that becomes present at once; it may be empty.
    fn on_map(&self, region: Region) -> Region;

    /// The part of a region that becomes present when an address of it is touched. It holds the address.
    fn on_fault(&self, region: Region, address: u64) -> Region;

    /// The largest pages that it wants.
    fn size(&self) -> Size {
        Size::Small
    }

    /// The way of frames whose memory is unmapped.
    fn unmapped(&self) -> Unmapped {
        Unmapped::Released
    }
}

/// No part of a region.
fn nothing(region: Region) -> Region {
    region.within(region.start, region.start)
}
