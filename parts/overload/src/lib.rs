//! The overload controller of Vortex (2003, section "overload control") as a law of integers: per tenant and resource it says how many flows may be
//! open, so that each waits for about the target delay, however many want to be served.
//!
//! * [`sight`]: the facts that the owner of the queues gathers between two looks.
//! * [`law`]: the load level, the limit that follows from it, and the three states.
//!
//! The owner of the queues looks each [`LOOK_NS`], refuses flows above [`Law::limit`], and ends as many of its youngest flows as the answer
//! of [`Law::look`] says. Nothing here allocates, waits or reads a clock.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]
#![warn(missing_docs)]
#[cfg(test)]
extern crate std;

pub mod law;
pub mod sight;

pub use law::{Law, Means, State};
pub use sight::Sight;

/// Time between two looks, ns.
pub const LOOK_NS: u64 = 100_000_000;
/// Delay that a flow may have, unless the owner asks for another one, ns.
pub const DELAY_NS: u64 = 100_000_000;

#[cfg(test)]
mod tests;
