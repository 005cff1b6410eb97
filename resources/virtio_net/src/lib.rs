//! Virtio network devices (virtio 1.2 §5.1): serves the link protocol.
//!
//! ```text
//!   link::receive  <-- receive: used buffers become frames, fresh buffers take their place
//!   link::transmit --> transmit: [device header, pieces of the frame] as one chain
//!   interrupt line --> on_interrupt: wakes the receiver, takes back what was sent
//! ```
//!
//! Invariants: memory given to the device lives until the device gave it back or was reset; a full transmit ring answers nobody
//! until there is room (the assembler suspends the resource before, so that its scheduler keeps the order); a frame that finds no memory for
//! its replacement buffer is dropped and its buffer given back, so the receive ring never runs dry.
//!
//! Left out: checksum and segmentation offload, mergeable buffers, several queue pairs, the control queue.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

mod device;
mod receive;
mod server;
mod transmit;

pub use device::{NetDeviceStatistics, NetOptions, VirtioNet};
