//! The words that a cell and its kernel share: the request to become one, the page with its memory, the lines of its calls, the numbers of
//! its exits.
//!
//! A process asks by the native call [`ENTER`] with the address of a [`CellRequest`]. The call returns 0 at ring 0 of a machine of its own,
//! on a leased core, with its memory as it was. From there it speaks to the kernel by [`exit`]s (VMMCALL with the number in rax) and by
//! [`CallLine`]s, which lie in the pages behind the [`CellPage`].
//!
//! Physical addresses in a cell are those of the machine. A lot at `p` lies at [`CellPage::window`]` + p`, read-write, as one large page.
//!
//! Disks and network cards come as queues in a lot: [`device`], [`card`].
//!
//! Neither side trusts what the other one writes here: the kernel copies each word once and checks the copy.
//!
//! Source: XOS (seed 003), sections 3 and 4.
#![no_std]
#![forbid(unsafe_code)]

pub mod card;
pub mod device;
mod line;
mod page;
mod request;

pub use line::{CallLine, LINES_MAX, LINES_MIN, state};
pub use page::{CellPage, LOTS_MAX, PAGE_VERSION, asks};
pub use request::{ASK, CellRequest, ENTER, LOT_BYTES, flag};

/// Numbers of exits, in rax. The answer comes in rax; negative numbers are errors of Linux.
pub mod exit {
    /// Waits: rdi nanoseconds at most, 0 for as long as it takes. Returns when a line is answered or [`super::asks`] are made.
    pub const IDLE: u64 = 0;
    /// Lines wait for the kernel; needed only if it says that it wants the bell.
    pub const BELL: u64 = 1;
    /// Wants rdi more bytes; the new lots are appended to the list.
    pub const MORE: u64 = 2;
    /// Gives back the lot that begins at the physical address in rdi.
    pub const GIVE: u64 = 3;
    /// Leaves the cell: the process goes on at the next instruction as an ordinary one, at ring 3.
    pub const LEAVE: u64 = 4;
    /// Ends the process with the status in rdi.
    pub const EXIT: u64 = 5;
    /// Has the page at the virtual address in rdi made present in the mappings of the process, for writing if rsi is 1. The answer is the
    /// entry for it: physical address and rights of a page table.
    pub const FAULT: u64 = 6;
    /// Starts the cell's core rdi (from 1 on; 0 has begun) at the instruction in rsi with the stack pointer in rdx: at ring 0, by the page table of
    /// [`super::CellPage::root`], with interrupts off, rdi its number and no gates of its own yet.
    pub const START: u64 = 7;
    /// Wakes the cell's core rdi if it waits in [`IDLE`]. If rsi is 1 it also gets the interrupt [`super::KICK_VECTOR`] as soon as it has its
    /// interrupts on.
    pub const KICK: u64 = 8;
    /// Has all other cores of the cell forget translations that the page tables do not have any more. Returns when they have.
    pub const FLUSH: u64 = 9;
    /// Gives back the cell's core rdi: itself, which never comes back, or one that was not started. Core 0 stays as long as the cell.
    pub const GIVE_CORE: u64 = 10;
    /// Gets a core in the place of the cell's core rdi, which was given back. Returns when it has come: [`START`] starts it. EBUSY: a core is there, or
    /// on its way. EAGAIN: none is free, or the owner wants some back.
    pub const GET_CORE: u64 = 11;
}

/// The vector of [`exit::KICK`], and of notices ([`flag::NOTICES`]).
pub const KICK_VECTOR: u8 = 32;
