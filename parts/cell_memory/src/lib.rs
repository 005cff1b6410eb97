//! The memory of a cell.
//!
//! A cell is a process that has a machine of its own: it edits its page table, and the kernel finds its memory by that table.
//!
//! * [`Held`]: the frames that the cell holds, lots and pages of its process, with the rights that it has to each.
//! * [`Tables`]: the first page table, written into the first lot: the process's mappings as they were, and the window to all lots.
//! * [`CellMemory`]: both, and the table as it is now; the [`View`] by which calls copy.
//! * [`Lines`]: the shared page and the lines behind it.
//! * [`PlainMemory`]: the lots of a plain cell, whose process runs at ring 3 by its ordinary page table.
//!
//! The cell is not trusted. A table of it, and a line, may change at any time and say anything: each word is read once, and a frame that
//! the cell does not hold is nothing. So a lie makes the kernel copy from or to the cell's own memory, or not at all.
//!
//! Left out: where lots come from, and the nested table that holds the cell itself to the same frames (`system/kernel`).
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]
extern crate alloc;
#[cfg(test)]
extern crate std;

mod entry;
mod held;
mod lines;
mod memory;
mod plain;
#[cfg(test)]
mod plain_tests;
mod tables;
#[cfg(test)]
mod tests;

pub use gyre_address_space::View;
pub use held::{Grant, Held, TakenLot};
pub use lines::{Bell, Call, Lines, PageFacts, Shape, Wanted};
pub use memory::{CellMemory, Pinned};
pub use plain::PlainMemory;
pub use tables::{NoRoom, Tables, WINDOW};
