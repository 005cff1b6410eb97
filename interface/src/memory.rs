//! Memory: who may have how much, and who gives back what when there is too little.
//!
//! Pages are taken where they are needed, and charged at once ([`gyre_account`]). Who is refused asks [`memory`] for room and waits; that
//! asks those who keep memory for others ([`reclaim`]), in the order of the memory scheduler. 2013 paper, section IV-D.

use gyre_account::ActivityId;
use gyre_message::{Gone, protocol};

/// Why there is no room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemoryError {
    /// The activity, or one above it, holds all that it may, and nothing of it can be given back: give up something.
    LimitReached,
    /// The machine's memory is used by those who are entitled to it: give up something.
    MachineFull,
    /// There is no such activity.
    Unknown,
    /// The figures contradict each other: the reservation is above the limit, or reservations exceed the machine.
    Invalid,
    /// The server is gone.
    Gone,
}

impl From<Gone> for MemoryError {
    fn from(_: Gone) -> MemoryError {
        MemoryError::Gone
    }
}

/// What an activity is entitled to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    /// Bytes that nobody takes from it, whatever happens.
    pub reservation_bytes: u64,
    /// Bytes that it never exceeds.
    pub limit_bytes: u64,
    /// Its part of what is left after all reservations, relative to others.
    pub share: u32,
}

/// What an activity has of the memory.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Figures {
    /// Bytes that it and all below it hold.
    pub held_bytes: u64,
    /// Bytes that it could hold if everybody wanted all they may have.
    pub entitled_bytes: u64,
    /// [`Budget::reservation_bytes`].
    pub reservation_bytes: u64,
    /// Bytes taken from it by reclaim so far.
    pub reclaimed_bytes: u64,
    /// Requests for room that it made.
    pub requests: u64,
    /// Of these, those that found none.
    pub failures: u64,
}

protocol! {
    /// What the memory resource does for others.
    pub mod memory {
        /// Waits until the activity can take `bytes` more, as far as reclaim can bring that about.
        async fn reserve(activity: ActivityId, bytes: u64) -> Result<(), MemoryError>;
        /// Takes up to `bytes` from what others keep for an activity, and answers how many (evict). Repeating it is harmless.
        async fn take_back(activity: ActivityId, bytes: u64) -> Result<u64, MemoryError>;
        /// Changes what a tenant is entitled to.
        async fn set_budget(activity: ActivityId, budget: Budget) -> Result<(), MemoryError>;
        /// The figures of a tenant.
        async fn figures(activity: ActivityId) -> Result<Figures, MemoryError>;
    }
}

protocol! {
    /// What a resource does that keeps memory for activities: the file cache, file systems, address spaces.
    pub mod reclaim {
        /// Gives up to about `bytes` of an activity's memory back, what it needs least first, and answers how many.
        async fn reclaim(activity: ActivityId, bytes: u64) -> Result<u64, MemoryError>;
    }
}
