//! Puts resources together with their devices and with each other. The kernel's assembler and the simulator's runner both use it, so that the tests
//! test what runs.
//!
//! * [`admission`]: whether what tenants would be promised can be kept.
//! * [`grid`]: which resources there are, and how each is scheduled.
//! * [`disk`]: a disk behind its resources.
//! * [`files`]: file systems.
//! * [`network`]: the network path over a device.
//!
//! This crate says only which resource stands behind which: a resource's own work, its gate included, is in `resources/`.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]
#![warn(missing_docs)]
extern crate alloc;

pub mod admission;
pub mod disk;
pub mod file_systems;
pub mod files;
pub mod grid;
pub mod network;

use alloc::boxed::Box;
use gyre_engine::Engine;
use gyre_interface::BytesReport;
use gyre_schedulers::Metric;

/// Returns a function that reports the bytes of a resource's requests to the scheduler before it and to the ledger.
pub fn reporter(engine: &'static Engine) -> BytesReport {
    Box::leak(Box::new(move |bytes| engine.report(Metric::Bytes, bytes)))
}
