//! Virtio 1.x (OASIS virtio 1.2) for drivers.
//!
//! ```text
//!   driver (block, network)     owns requests; one token per chain
//!      |  push, publish, pop
//!   Ring<Token>                 split ring in DMA memory; keeps its own copy of all that matters
//!      |  layout, doorbell
//!   Transport                   features, status, queues, interrupts: PCI, or a fake on the host
//! ```
//!
//! Invariant: nothing that a device writes is used as an index, a length or an address before it is checked against the
//! driver's own copy. A device that lies makes [`Ring::pop`] fail with [`gyre_machine::DeviceError::Protocol`]; its driver resets it
//! and takes its tokens back.
//!
//! Left out: legacy devices, packed rings, MMIO transport, shared memory regions.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]
extern crate alloc;
#[cfg(test)]
extern crate std;

#[cfg(any(test, feature = "fake"))]
#[allow(clippy::arithmetic_side_effects, reason = "in host tests only")]
pub mod fake;
pub mod features;
pub mod layout;
pub mod pci;
pub mod ring;
pub mod startup;
pub mod transport;

#[cfg(any(test, feature = "fake"))]
pub use fake::FakeDevice;
pub use layout::{Piece, QueueLayout};
pub use pci::PciTransport;
pub use ring::{Full, Ring, RingOptions, Used};
pub use startup::{begin, finish, give_up};
pub use transport::{Doorbell, Transport};
