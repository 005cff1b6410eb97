//! The network path.
#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs)]
extern crate alloc;
#[cfg(test)]
#[macro_use]
extern crate std;

pub mod hash;
pub mod tcp;
pub mod wire;
