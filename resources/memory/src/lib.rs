//! The memory resource (2013 paper, section IV-D): budgets, and reclaim by message.
//!
//! ```text
//!   refused page --reserve--> Memory --which level is short?--> the limit of the process that asks: it gives itself
//!                                                           \-> its tenant's limit: that tenant gives
//!                                                           \-> that of a group of tenants: the scheduler chooses among them
//!                                                           \-> the machine: the scheduler chooses the giver
//!                             Memory --reclaim(activity, bytes)--> file cache, file systems, address spaces: each chooses what
//!   retry <------- room ----- Memory
//! ```
//!
//! Invariants:
//! * Memory is taken from the asker, or from an activity that holds more than it is entitled to; never from any
//!   other.
//! * The asker waits; no one else does.
//! * It keeps no count of its own: [`gyre_account`] counts the holdings of activities, charged at the place that
//!   takes the memory.
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
