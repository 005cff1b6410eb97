//! PCI for drivers: the words between a driver of any device and the platform (PCI Local Bus 3.0, PCI Express Base 4.0).
//!
//! ```text
//!   driver          NVMe, virtio over PCI, ...
//!      |  PciFunction: identity, capabilities, base address registers, MSI-X entries
//!      |  Registers, Region: accesses inside of a base address register
//!   platform        configuration space, mapping of device memory, interrupt lines of cores
//! ```
//!
//! A driver is written over [`PciFunction`], so that a host test can play the function. [`find_capability`] finds an entry of the list of capabilities,
//! [`Region`] bounds every access by the range that a capability or a specification names.
//!
//! Left out: legacy interrupts, I/O ports, bridges, power states, hot plug.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]
#![warn(missing_docs)]

mod function;
mod region;

pub use function::{PciFunction, find_capability};
pub use region::{Region, Registers};

/// The capability that vendors define themselves (PCI Local Bus 3.0, appendix H).
pub const CAPABILITY_VENDOR: u8 = 0x09;
