//! Disks behind virtio: block devices (virtio 1.2 §5.2), which serve the block protocol, and SCSI hosts (§5.6), which carry commands to a unit.
//!
//! ```text
//!   block::Request, scsi_host::Request --> checks, waits for room --> chain in the queue of its core, beside it what is done with the answer
//!   interrupt line --> on_interrupt: takes used chains of that queue, judges the answer, does that: a reply, or what the assembly gave
//!   watch          --> finds requests that the device does not answer in time, resets it, answers Io
//! ```
//!
//! A queue for each core, as far as the device has them: `queue` is one of them, `bus` what the two kinds of disks say differently, `wire` what
//! goes around a command, `host` who takes commands. Nothing is shared by cores but a count.
//!
//! Invariants: at most [`BlockOptions::depth`] requests are at the device over all queues, the rest waits in tasks of who asked and is lost
//! only with them; memory given to the device lives until the device has answered or was reset, also where the
//! asker was killed meanwhile. A device that does not even reset is dead: its memory is kept for ever and every request answers `Io`.
//!
//! Left out: discard, write zeroes, changing the size while running; behind a SCSI host other units than 0 of target 0, its queues for task
//! management and events. What commands are and what sense data mean is not known here: that is the SCSI resource's.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]
extern crate alloc;

mod bus;
mod device;
mod host;
mod queue;
mod request;
mod server;
mod slots;
mod wire;

pub use bus::{BLOCK_KIND, SCSI_KIND};
pub use device::{BlockOptions, BlockStatistics, VirtioDisk};
pub use request::Answered;
pub use server::Timed;
