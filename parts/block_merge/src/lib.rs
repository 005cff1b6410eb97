//! Adjacent requests of one activity that wait before a disk, joined to one.
//!
//! ```text
//!   block::Request --> Merging: next to one that waits? --yes--> its batch
//!                                                       --no---> a batch of its own, and a ticket into the gate's queue
//!   the gate's scheduler chooses a ticket --> Ticket::take: the batch, closed from here on --> the device --> an answer for each part
//! ```
//!
//! If no request waits and the gate would serve it at once, a request is begun in its sender's turn ([`AtOnce`]).
//!
//! Messages in: [`gyre_interface::block`]; out: [`Work`]. A request joins before it is queued, in its sender's turn;
//! the scheduler sees one message of that activity.
//!
//! Invariants: all parts of a batch are requests of one activity, of one kind, with the same labels; they lie side by
//! side and are at most [`gyre_interface::block::MERGED_BYTES_MAX`] together; no request overtakes an earlier one
//! that overlaps it if one of the two is a write; a ticket that is dropped answers all parts.
//!
//! If the product of a batch waits somewhere else than the ticket (SCSI commands), [`Lines`] keep the rest of an
//! activity's tickets back, to be joined.
//!
//! Left out: requests that became adjacent by a third between them are not joined; requests with a dependency label
//! never are.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]
extern crate alloc;

mod batch;
mod lines;
mod port;
mod waiting;

pub use batch::Batch;
pub use lines::{Lines, Place};
pub use port::{AtOnce, Merging, Work};
pub use waiting::{Ticket, Waiting};

#[cfg(test)]
mod tests;
