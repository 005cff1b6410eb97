//! Virtio block devices (virtio 1.2 §5.2): serves the block protocol.
//!
//! ```text
//!   block::Request --> handler: checks, waits for room --> chain in the ring, reply token beside it
//!   interrupt line --> on_interrupt: takes used chains, checks the status, answers --> handler resumes
//!   watch          --> finds requests that the device does not answer in time, resets it, answers Io
//! ```
//!
//! Invariants: at most [`BlockOptions::depth`] requests are at the device, the rest waits suspended in its handler and is lost
//! only with it; memory given to the device lives until the device has answered or was reset, also where the
//! asker was killed meanwhile. A device that does not even reset is dead: its memory is kept for ever and every request answers `Io`.
//!
//! Left out: several queues, discard, write zeroes, changing the size while running.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

mod device;
mod request;
mod server;
mod slots;

pub use device::{BlockOptions, BlockStatistics, VirtioBlock};
