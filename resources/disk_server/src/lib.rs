//! The back end of split disks: serves disks of this instance to a zone that has none of its own.
//!
//! ```text
//!   front end (drivers/split_disk, in the zone) --ask--> Session::serve --block::Client--> gate --> disk
//!                                              <--answer-- when the disk has answered
//! ```
//! Messages in: lines of [`gyre_split_disk::Ask`]. Messages out: [`gyre_interface::block`], and lines of [`gyre_split_disk::Answer`].
//!
//! A session serves one life of one zone. Its task and all that it sends work in the zone's activity: so the disk's gate divides the disk
//! among zones and the supervisor's own tenants, and cycles, bytes and device time are on the zone's bill. The device moves the data into or
//! out of the memory that both map; nothing is copied here.
//!
//! States: open; closed (the zone wrote nonsense, is told so, and is served no more); ended ([`Session::end`]: nothing begins, and it returns
//! when the last request is answered). A zone that dies leaves requests under way; the memory is used again only after the end.
//!
//! The zone is not trusted. A line is copied, then checked: slot, disk, length and sectors. A request that is out of its disk's range is
//! answered with an error; a line that makes no sense closes the session. A zone has at most one request for each of its slots, so one that
//! floods is held by its own slots, and is read a turn at a time.
//!
//! Left out: which disks a zone gets, and the mapping of memory (`system/kernel`); when a session begins and ends (`resources/zones`).
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]
#![warn(missing_docs)]
extern crate alloc;

mod ledger;
mod session;
#[cfg(test)]
mod tests;

pub use ledger::Nonsense;
pub use session::{Served, Session};
