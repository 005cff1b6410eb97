//! How resources are put together with their devices, interrupts and gates. The kernel's assembler and the simulator's runner both use
//! this, so that what is tested is what runs.
//!
//! * [`grid`]: which resources there are, and how each is scheduled.
//! * [`disk`]: a disk behind its gate. * [`scsi`]: the SCSI resource before a host adapter. * [`files`]: file systems. * [`network`]: the network path over a device.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]
#![warn(missing_docs)]
extern crate alloc;

pub mod disk;
pub mod files;
pub mod grid;
pub mod network;
mod pace;
pub mod scsi;

use alloc::boxed::Box;
use gyre_engine::Engine;
use gyre_interface::BytesReport;
use gyre_schedulers::Metric;

/// Takes the bytes that requests of a resource have moved to the scheduler before it and to the ledger.
pub fn reporter(engine: &'static Engine) -> BytesReport {
    Box::leak(Box::new(move |bytes| engine.report(Metric::Bytes, bytes)))
}
