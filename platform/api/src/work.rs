//! Words for the work of a core: its turns, and the locks that it holds.

/// Turns of a piece of work: each wait takes one.
pub const WORK_TURNS: u32 = 1000;

/// A class of locks.
pub trait LockWeight {
    /// The number that one lock of the class adds to the sum of those that a core holds.
    const WEIGHT: u32;
}
