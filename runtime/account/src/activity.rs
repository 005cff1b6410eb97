//! The name of an activity.

/// Names an activity: an index into the table of the instance.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ActivityId(pub u32);

impl ActivityId {
    /// Pays for what cannot be attributed yet.
    pub const INFRASTRUCTURE: ActivityId = ActivityId(0);
}
