//! Flows (2013 paper, section IV-E): a program asks once, and data goes from sources to a sink without it.
//!
//! ```text
//!   source --read ahead, several parts at once--> parts in order --one write at a time--> sink
//!                 ^ a grant for each part: its flow's turn by share, bounded bytes in flight
//! ```
//!
//! Data goes by reference. The user of this crate says what a source is and what a sink is; a stream is read part after part. Calls that
//! move data between two objects (Linux' sendfile) ride on the same [`Transfer`].
//!
//! Invariants: bytes arrive in the order of the sources and of their offsets; a flow never holds more than [`FLOW_BYTES_MAX`], the
//! flows of a program together never read more than [`SHARED_BYTES_MAX`] at once; dropping a flow releases all that it holds.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]
extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod flow;
pub mod guard;
pub mod shares;
pub mod transfer;

pub use flow::{Completion, Flow, Request, Result};
pub use guard::{Guard, Load};
pub use shares::{Claim, Group, Membership, Shares};
pub use transfer::{Reading, Sink, Source, Transfer, Waiting, Writing, skip};

/// Bytes of one part.
pub const PART_BYTES: usize = 64 << 10;
/// Parts that are read ahead of the sink.
pub const PARTS_MAX: usize = 4;
/// Bytes that a flow may have asked for and not written yet: the parts read ahead, and the one that is being written.
pub const FLOW_BYTES_MAX: usize = (PARTS_MAX + 1) * PART_BYTES;
/// Bytes that all flows of a program together may be reading: no more than one flow may. So the choice of the next
/// read decides how a scarce source is divided. A flow with a slow sink holds none of them.
pub const SHARED_BYTES_MAX: usize = PARTS_MAX * PART_BYTES;
