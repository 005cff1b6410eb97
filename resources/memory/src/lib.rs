//! The memory resource (2013 paper, section IV-D; V15): budgets, and reclaim by message.
//!
//! ```text
//!   refused page --reserve--> Memory --which level is short?--> the limit of the process that asks: it gives itself
//!                                                           \-> its tenant's limit: that tenant gives
//!                                                           \-> that of a group of tenants: the scheduler says who of them gives
//!                                                           \-> the machine: the scheduler says who gives
//!                             Memory --reclaim(activity, bytes)--> file cache, file systems, address spaces: each chooses what
//!   retry <------- room ----- Memory
//! ```
//!
//! Invariants:
//! * Memory is taken from the asker, or from who holds more than it is entitled to; never from anybody else.
//! * Who asks waits; nobody else does.
//! * It keeps no count of its own: what activities hold is [`gyre_account`]'s, charged where memory is taken.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]
extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod entitlement;
pub mod handler;
pub mod scheduler;

pub use handler::{Memory, Options};
