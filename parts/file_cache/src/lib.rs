//! Pages of files (2013 paper, section IV): the first reader of a page pays for it, and loses pages of its own first.
//!
//! ```text
//!   file system --get--> Shelf of pages --hit--> Page (one lock, one hash, no wait)
//!               --begin--> Here | Wait (another reads it) | Lead (a Fetch: fill it or drop it)
//!               --mark_dirty--> index of dirty pages, by node and by age
//! ```
//!
//! Invariants:
//! * A page belongs to the activity that fetched it; an activity never holds more than its budget.
//! * An activity over its budget, or in need of room, evicts its own pages; others only if they are over theirs.
//! * Of its own those of lowest priority go first: pages read once before pages in frequent use ([`shelf`]).
//! * A page that is dirty, being written or in use elsewhere is never evicted.
//! * A [`Fetch`] or [`Writing`] dropped at any point leaves no page that cannot be fetched or written any more.
//!
//! The cache sends no request: file systems read and write the pages they find here. [`Contents`] is the resource before a file system, if
//! its owner gave the file cache a scheduler.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]
extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod account;
pub mod cache;
pub mod contents;
mod dirty;
pub mod fetch;
mod groups;
mod hash;
mod list;
mod priority;
pub mod shelf;
pub mod writing;

pub use account::{Account, Usage};
pub use cache::{CacheOptions, FileCache, Outdated, PageKey, Room, Tallied, Tally};
pub use contents::Contents;
pub use fetch::{Begin, Fetch, Waiting};
pub use shelf::{Fate, Shelf, ShelfOptions};
pub use writing::Writing;
