//! A small resource to copy: it counts things per activity, and lets others wait for a count.
//!
//! Messages in: [`protocol::tally`]. Messages out: none. State: [`state::Counters`], locked, never across a wait.
//! The guide `docs/guide/first-resource.md` walks through these files; CI runs their tests.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]
extern crate alloc;

pub mod handler;
pub mod protocol;
pub mod state;

pub use handler::Tally;

#[cfg(test)]
mod tests;
