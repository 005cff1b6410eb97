//! The names of activities and resources, as numbers.

/// An activity's name. An old name never means a new activity.
/// ```text
///   31          20 19       12 11            0
///  | generation   | lead      | slot          |
/// ```
/// The slot is that in the table of the instance; the generation says how often it was used before. A *member* (a process) names its
/// lead (its tenant) by slot: so work that outlives the member finds who pays for it from then on, even if the slot has a new user. It
/// is 0 for all others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ActivityId(pub u32);

const SLOT_BITS: u32 = 12;
const LEAD_BITS: u32 = 8;
/// Slots whose activity can lead members.
pub(crate) const LEADS_MAX: usize = 1 << LEAD_BITS;
/// Slots that an id can name.
pub(crate) const SLOTS_MAX: usize = 1 << SLOT_BITS;
/// The number after the last generation.
pub(crate) const GENERATIONS: u16 = 1 << (32 - SLOT_BITS - LEAD_BITS);

impl ActivityId {
    /// Pays for what cannot be attributed yet.
    pub const INFRASTRUCTURE: ActivityId = ActivityId(0);

    /// Returns the slot.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize & (SLOTS_MAX - 1)
    }

    /// How often the slot was used before.
    pub const fn generation(self) -> u16 {
        (self.0 >> (SLOT_BITS + LEAD_BITS)) as u16
    }

    /// True for one that shares its lead's queues: a process.
    #[inline]
    pub const fn is_member(self) -> bool {
        self.lead_field() != 0
    }

    /// Returns the slot of its lead: its own if it is no member.
    #[inline]
    pub const fn lead_index(self) -> usize {
        match self.lead_field() {
            0 => self.index(),
            lead => lead,
        }
    }

    /// Returns true if `payer` is this activity or a member of it.
    #[inline]
    pub const fn covers(self, payer: ActivityId) -> bool {
        self.0 == payer.0 || (payer.is_member() && payer.lead_index() == self.index())
    }

    const fn lead_field(self) -> usize {
        (self.0 >> SLOT_BITS) as usize & (LEADS_MAX - 1)
    }

    pub(crate) const fn new(index: usize, generation: u16) -> ActivityId {
        ActivityId::member(index, generation, 0)
    }

    pub(crate) const fn member(index: usize, generation: u16, lead: usize) -> ActivityId {
        let slots = (index & (SLOTS_MAX - 1)) as u32 | ((lead & (LEADS_MAX - 1)) as u32) << SLOT_BITS;
        ActivityId(slots | (generation as u32) << (SLOT_BITS + LEAD_BITS))
    }
}

/// Finds who pays for the work of an activity: itself, or the tenant that it belongs to. Short, never waits. It is made once, at the boot,
/// and captures what it looks at, so that several machines in one process do not meet in it.
pub type PayerOf = &'static (dyn Fn(ActivityId) -> ActivityId + Send + Sync);

/// Names a resource of the instance: its position in the grid.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ResourceId(pub u8);

impl ResourceId {
    /// The runtime itself: closures, timers, tasks that belong to no resource.
    pub const RUNTIME: ResourceId = ResourceId(0);

    /// Returns the position.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}
