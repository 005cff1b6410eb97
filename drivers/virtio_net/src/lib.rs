//! Virtio network devices (virtio 1.2 §5.1): behind [`gyre_device::LinkDevice`].
//!
//! * Receiving: buffers are posted ahead, frames go up as views of them, and are replaced at once. No interrupts while
//!   frames are being taken; a batch is bounded, so that a flood cannot keep the core. While senders wait for the device, frames gather
//!   until its interrupt for half of the sending ring: an answer could not leave before.
//! * Sending: pieces are read where they lie. Frames that the device has sent are taken back at the next frame or interrupt;
//!   interrupts are asked for only while somebody waits for room. The ring is short: frames wait in the scheduler's queue.
//! * A large TCP segment that the device does not cut is cut here, behind the scheduler: the driver offers `segmentation_bytes_max` with
//!   every device. Headers lie beside the device's own in memory of the ring, payload is referred to where it lies, and one doorbell
//!   tells of all frames. A ring without room for all takes a part; the rest follows at the interrupt for half of the ring, cut in
//!   the name of its sender, before anything else. The counts are those of the link.
//! * [`gyre_device::LinkDevice::has_room`] lets the resource be suspended while the ring is full; a frame that is sent all the same waits. Frames
//!   leave in the order of their requests, and none is lost.
//!
//! Left out: several queue pairs, the control queue, large receive (GUEST_TSO4, mergeable buffers), GUEST_CSUM: the protocol has
//! no way to say that a received frame's checksum was not computed.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]
#![warn(missing_docs)]
extern crate alloc;
#[cfg(test)]
extern crate std;

mod buffers;
mod device;
mod header;
mod leave;
mod link;
mod receive;
mod room;
mod transmit;

pub use device::{DEVICE_KIND, LinkStatistics, NetOptions, VirtioNet};

#[cfg(test)]
mod search;
#[cfg(test)]
mod tests;
