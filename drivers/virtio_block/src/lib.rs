//! The driver of disks behind virtio: block devices (virtio 1.2 §5.2), and SCSI hosts (§5.6), which carry commands to a unit.
//!
//! ```text
//!   DiskDevice::start, execute --> checks --> chain in the queue of its core, beside it who gets the answer
//!   DiskDevice::on_interrupt   --> takes used chains of that queue, judges each answer, gives it to the asker, starts what waits
//!   DiskDevice::on_tick        --> the same for lost interrupts; resets a device that is late, whose requests answer `Io`
//! ```
//!
//! There is a queue for each core, as far as the device has them. Modules: `disk` checks requests, `device` has the queues, `queue` is one of them, `bus` knows
//! how the two kinds of disks differ, `wire` what goes around a command, `slots` the memory of headers and answers. Cores share nothing but counts.
//!
//! Invariants: at most [`BlockOptions::depth`] requests are at the device over all queues; the rest waits in order in a list and starts when an answer
//! makes room. Memory given to the device lives until the device has answered or was reset, also if the asker was killed
//! meanwhile. A device that does not even reset is dead: its memory is kept for ever and every request answers `Io`. No lock is held while an
//! asker gets its answer.
//!
//! Left out: discard, write zeroes, changing the size while running; behind a SCSI host other units than 0 of target 0, its queues for task
//! management and events. The SCSI resource knows what commands are and what sense data mean.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]
extern crate alloc;
#[cfg(test)]
extern crate std;

#[cfg(test)]
mod asked;
mod bus;
mod device;
mod disk;
mod own_time;
mod queue;
mod request;
#[cfg(test)]
mod search;
mod slots;
mod wire;

pub use bus::{BLOCK_KIND, SCSI_KIND};
pub use device::{BlockOptions, VirtioDisk};
