//! The resource before a disk with any driver.
//!
//! ```text
//!   block::Request --> joined with its neighbours --> gate: scheduler, room? --> DiskDevice::start --> device
//!   scsi_host::Request -----------------------------> gate: scheduler, room? --> DiskDevice::execute --> device
//!   interrupt --> notice --> DiskDevice::on_interrupt --> each answer, in the name of who asked; the gate goes on
//!   tick      --> notice --> DiskDevice::on_tick: lost interrupts, late requests
//! ```
//!
//! Messages in: [`gyre_interface::block`] or [`gyre_interface::scsi`], and notices of interrupts and ticks. The driver has no task: it works in the turns
//! of this resource. A disk is ticked only while it has something to do.
//!
//! A request waits at the gate until the device has room, so that the gate's scheduler chooses among all who wait. From then on nothing holds it
//! back (docs/decisions/0010, 0012): the turn that takes the answer from the device also ends the request. Its use is reported to the scheduler
//! and the ledger, in bytes and in time of the device.
//!
//! Left out: what a SCSI unit's answers mean (resources/scsi); partitions (resources/volumes).
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]
#![warn(missing_docs)]
extern crate alloc;

mod attach;
mod gate;
mod pace;

pub use attach::{DiskClient, Places, attach};
