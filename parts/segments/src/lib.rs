//! Work that a network device may not do itself: cutting a large TCP segment into frames, and summing.
//!
//! TCP hands down as much as it may in one piece, with one header and one message; the last place before the device's
//! ring cuts it ([`Cutter`]). So a frame costs a header, a sum and a ring entry, and nothing on the way.
//!
//! It is a mechanism of drivers, not a resource: it has no state but the segment being cut.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]
#![warn(missing_docs)]
extern crate alloc;
#[cfg(test)]
#[macro_use]
extern crate std;

mod checksum;
mod cutter;

pub use checksum::Sum;
pub use cutter::{Cutter, HEADERS_BYTES_MAX};
