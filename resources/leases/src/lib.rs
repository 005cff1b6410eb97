//! The pool of the parts that zones and cells are made of: each has one holder, and the holders' times add up.
//!
//! Messages in: [`gyre_interface::leases`]. Messages out: none. State: [`Pool`], locked, never across a wait; it takes memory once, for the
//! parts that it is made with.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]
extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod handler;
pub mod pool;
mod runs;
mod time;

pub use handler::Leases;
pub use pool::Pool;
pub use time::CoreUse;

#[cfg(test)]
mod tests;
