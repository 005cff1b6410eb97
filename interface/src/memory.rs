//! Memory: how much each activity may have, and which memory is given back when there is too little.
//!
//! Pages are taken and charged at once by their user ([`gyre_account`]). A caller that is refused asks [`memory`] for
//! room and waits. [`memory`] asks the resources that keep memory for others ([`reclaim`]), in the order of the
//! memory scheduler (2013 paper, section IV-D).

use crate::files::NodeId;
use alloc::vec::Vec;
use gyre_account::ActivityId;
use gyre_message::{Gone, protocol};

/// The reason why there is no room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemoryError {
    /// The activity, or one above it, holds all that it may, and none of it can be given back. Give something up.
    LimitReached,
    /// The machine's memory is used by activities that are entitled to it. Give something up.
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

/// The entitlement of an activity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    /// Bytes that are never taken from it.
    pub reservation_bytes: u64,
    /// Bytes that it never exceeds.
    pub limit_bytes: u64,
    /// Its part of the memory beyond all reservations, relative to others.
    pub share: u32,
}

/// The memory figures of an activity.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Figures {
    /// Bytes that it and all below it hold.
    pub held_bytes: u64,
    /// Bytes that it could hold if every activity wanted all it may have.
    pub entitled_bytes: u64,
    /// [`Budget::reservation_bytes`].
    pub reservation_bytes: u64,
    /// Bytes taken from it by reclaim so far.
    pub reclaimed_bytes: u64,
    /// Requests for room that it made.
    pub requests: u64,
    /// Of these, the requests that found none.
    pub failures: u64,
}

protocol! {
    /// The requests of the memory resource.
    pub mod memory {
        /// Waits until the activity can take `bytes` more, as far as reclaim can achieve that.
        async fn reserve(activity: ActivityId, bytes: u64) -> Result<(), MemoryError>;
        /// Takes up to `bytes` from what resources keep for an activity (evict). Answers the bytes taken. Repeating
        /// it is harmless.
        async fn take_back(activity: ActivityId, bytes: u64) -> Result<u64, MemoryError>;
        /// Changes the entitlement of a tenant.
        async fn set_budget(activity: ActivityId, budget: Budget) -> Result<(), MemoryError>;
        /// Returns the figures of a tenant.
        async fn figures(activity: ActivityId) -> Result<Figures, MemoryError>;
    }
}

/// How hard a keeper looks for memory that it can give.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effort {
    /// As hard as what it finds is worth.
    Usual,
    /// At all that there is: the asker fails otherwise.
    Thorough,
}

/// Names a file for those who keep its pages: its file system, unique in the instance, and its node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeptFile {
    /// The number of the file system, as its mount gave it.
    pub file_system: u32,
    /// The node, as its file system names it.
    pub node: NodeId,
}

protocol! {
    /// The requests to those who show pages of files to programs.
    pub mod shown {
        /// Takes the right to write these pages of a file, given in order, from all programs: each asks its file system before it writes
        /// again. Answered once no core can write them. Repeating it is harmless.
        async fn write_protect(file: KeptFile, pages: Vec<u64>) -> Result<(), MemoryError>;
    }
}

protocol! {
    /// The requests to a resource that keeps memory for activities: the file cache, file systems, address spaces.
    pub mod reclaim {
        /// Gives up to about `bytes` of an activity's memory back, least needed first. Answers the bytes given back.
        async fn reclaim(activity: ActivityId, bytes: u64, effort: Effort) -> Result<u64, MemoryError>;
    }
}
