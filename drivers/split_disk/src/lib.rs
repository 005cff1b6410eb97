//! A disk that another instance on the machine has and serves: the front end, and the words of both ends.
//!
//! ```text
//!   gate --> SplitDisk::start --copy--> [slot] [ring of asks]    --interrupt--> back end (resources/disk_server) --> its own disk
//!        <-- then             <--copy-- [slot] [ring of answers] <--interrupt--
//! ```
//! * [`layout`]: the places of rings, bells, the table of disks and the slots in a lot that both map. [`Window`]: that lot, as whoever maps
//!   it offers it.
//! * [`words`]: the meaning of lines.
//! * [`FrontEnd`]: the asking end, shared by all disks of the lot; [`SplitDisk`]: one of them as a driver ([`gyre_device::DiskDevice`]).
//!
//! States of a slot at the front end: free; taken (its memory is copied); asked (the back end has it); late (nobody waits for it any more,
//! but the back end may still write there, so it is not used until the answer comes).
//!
//! Each slot has pages of its own, so a line names no address, and a number out of it leads to no memory but the slot's. The back end moves
//! data between the disk and the slot by the device itself; the copy is the front end's work, so its own activities pay for it.
//!
//! The back end may die or stand still: a request that has no answer in [`LATE_MS`] ends with an error. A back end that finds nonsense in the
//! ring closes it; then all requests end with [`gyre_interface::block::BlockError::Gone`], and so do those that come later.
//!
//! Left out: who may use which disk, and the mapping of memory. The supervisor decides that.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]
#![warn(missing_docs)]
extern crate alloc;

mod disk;
#[cfg(any(test, feature = "fake"))]
#[allow(clippy::arithmetic_side_effects, reason = "tests only")]
pub mod fake;
mod front_end;
mod layout;
mod slots;
mod words;

#[cfg(test)]
mod search;
#[cfg(test)]
mod tests;

pub use disk::SplitDisk;
pub use front_end::{FrontEnd, LATE_MS};
pub use layout::{CONTROL_PAGES, Control, DISKS_MAX, PAGES, SLOT_BYTES, SLOTS, Window, slot_pages};
pub use words::{Answer, Ask};
