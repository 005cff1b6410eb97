//! The traits between a driver and the resource before its device.
//!
//! ```text
//!   resource (resources/disk, resources/link)   queues, a scheduler, an account of what each activity used
//!      |  DiskDevice, LinkDevice: function calls within the resource's turn
//!   driver   (drivers/virtio_block, ...)        rings, registers, resets
//! ```
//!
//! A driver is not a resource: it has no queue and no task. Three things happen to it, each within a turn of its resource: a request is started, an
//! interrupt arrived, a tick passed. It answers by calling the function that came with the request. So a driver can be tested without an engine, and
//! a resource without a device.
//!
//! Left out: how a driver finds its device (`drivers/pci`) and how a resource is put behind it (`system/assembly`).
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]
#![warn(missing_docs)]
extern crate alloc;

mod disk;
mod link;

pub use disk::{DiskDevice, DiskKind, DiskStatistics, Operation, Then, Timed, Transfer};
pub use link::{LinkDevice, Senders, Sent};

/// A line of a core's interrupts that a device uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InterruptLine {
    /// The core.
    pub core: usize,
    /// The line there.
    pub line: u32,
}
