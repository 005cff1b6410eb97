//! The names of activities and resources, as numbers.

/// Names an activity: its slot in the table of the instance in the lower 16 bits, and above how often the slot was used before, so
/// that an old name never means a new activity.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ActivityId(pub u32);

impl ActivityId {
    /// Pays for what cannot be attributed yet.
    pub const INFRASTRUCTURE: ActivityId = ActivityId(0);

    /// The slot.
    #[inline]
    pub const fn index(self) -> usize {
        (self.0 & 0xffff) as usize
    }

    /// How often the slot was used before.
    pub const fn generation(self) -> u16 {
        (self.0 >> 16) as u16
    }

    pub(crate) const fn new(index: usize, generation: u16) -> ActivityId {
        ActivityId((index & 0xffff) as u32 | (generation as u32) << 16)
    }
}

/// Names a resource of the instance: its position in the grid.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ResourceId(pub u8);

impl ResourceId {
    /// The runtime itself: closures, timers, tasks that belong to no resource.
    pub const RUNTIME: ResourceId = ResourceId(0);

    /// The position.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}
