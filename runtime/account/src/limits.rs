//! Bounds of the tables, and how they relate.

/// Most activities alive at once.
pub const ACTIVITIES_MAX: usize = 1024;
/// Most resources of an instance.
pub const RESOURCES_MAX: usize = 32;
/// Longest path from the root to an activity; each level costs an atomic addition per allocation.
pub const DEPTH_MAX: usize = 8;
/// Bytes kept of a name.
pub const NAME_BYTES_MAX: usize = 32;

const _: () = assert!(
    ACTIVITIES_MAX < crate::activity::SLOTS_MAX,
    "a slot must fit its place in an id; the last one stands for none"
);
const _: () = assert!(RESOURCES_MAX <= 256, "a resource id is one byte");
