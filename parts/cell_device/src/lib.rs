//! A disk or a network card for a cell: the kernel keeps the device, the cell has queues in its own memory (`gyre_cell_abi::device`, `card`).
//!
//! ```text
//!   cell:    descriptors, available ring --> [Queue::take] copies and checks --> [attend()] --> block::Client (gates, bill, device)
//!            used ring, status, data     <-- [Queue::answer]                 <--           <--
//! ```
//! * [`Queue`]: the ring, device's side, and the kernel's own copy of all that matters.
//! * [`Request`]: a chain that was copied and checked: views of the cell's lots, which the device moves data to and from.
//! * [`attend()`]: serves a queue until the cell is over, gives the device back, or lies.
//! * [`attend_card()`]: the same for a card's two queues, whose chains are frames that are copied.
//!
//! The cell is not trusted. Each word is read once; memory that is no lot of the cell, and numbers that cannot be true, are a [`Lie`].
//! A lie about the ring makes the kernel touch the cell's own memory, or nothing.
//!
//! Requests hold the lots that they name. Whoever takes lots back waits until nobody else holds them (`Page::is_shared`): so no request of
//! a cell that has ended writes to memory of the next one.
//!
//! Left out: who may have which device, and what becomes of a cell that lies (`system/kernel`).
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]
extern crate alloc;
#[cfg(test)]
extern crate std;

mod card;
#[cfg(test)]
mod card_tests;
mod chain;
mod place;
mod queue;
mod request;
mod serve;
#[cfg(test)]
mod tests;
mod watch;

pub use card::{Rings, Wire, attend_card};
pub use queue::{Lie, NoQueue, Queue};
pub use request::{Done, Request, Work};
pub use serve::{Cell, Disk, End, attend};
