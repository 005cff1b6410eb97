//! The resource before a network device with any driver: it decides who sends next.
//!
//! ```text
//!   link::Request --> gate: scheduler, room? --> LinkDevice::send --> device
//!   interrupt --> LinkDevice::acknowledge --> senders are held back and half of the ring is free? --> notice --> they go on
//!             --> LinkDevice::wake_reader --> frames wait? --> their reader (resources/net)
//!   tick --> notice --> LinkDevice::on_tick: lost interrupts, a device that is late
//! ```
//!
//! Messages in: [`gyre_interface::link`], and notices of interrupts and ticks. The driver has no task: it works in the turns of this resource. Bytes on
//! the link are reported to the scheduler and the ledger before a frame is sent.
//!
//! Invariants: frames of an activity leave in the order of their requests; none is lost while the device works; an interrupt for received frames costs the
//! sending side no turn.
//!
//! Left out: received frames, which go from the driver to their reader without a message between ([`gyre_interface::link::FrameStream`]).
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]
#![warn(missing_docs)]
extern crate alloc;

mod gate;

pub use gate::{Places, attach};
