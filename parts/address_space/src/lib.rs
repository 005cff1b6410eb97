//! Address spaces: the memory of programs.
//!
//! An [`AddressSpace`] holds mappings (ranges of addresses with rights and a provider: nothing, a file, shared
//! memory) and the page table that says which pages are present. Pages come by [`AddressSpace::fault`]: from a
//! program that touched them, or from a handler that is about to copy from or to user memory. A page of a file is
//! asked from the file system with the same protocol as I/O, awaited, under the activity of the faulting thread.
//!
//! Invariants: a user address is never dereferenced, every copy goes through the page table under the space's lock; a
//! page that is present in the table is held in `pages`, so its frame lives as long as a program can reach it; a
//! right that shrinks is flushed from all cores before the call returns; a fresh region needs no flush (both
//! counted).
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]
extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod advise;
mod bring;
#[cfg(test)]
mod bring_tests;
pub mod counters;
mod duplicate;
#[cfg(test)]
mod duplicate_tests;
pub mod error;
mod fault;
pub mod flush;
pub mod gather;
mod give_back;
mod give_up;
mod given;
mod heap;
mod huge;
mod huge_page;
#[cfg(test)]
mod huge_tests;
pub mod layout;
pub mod lend;
#[cfg(test)]
mod lend_tests;
pub mod loan;
mod locking;
pub mod map;
mod misses;
mod page_index;
mod page_view;
mod pages;
#[cfg(test)]
mod parts_tests;
mod poke;
#[cfg(test)]
mod poke_tests;
mod populate;
pub mod region;
mod regions;
mod relocate;
mod remove;
mod residency;
mod shorten;
pub mod space;
mod stale_ranges;
mod telling;
#[cfg(test)]
mod tests;
pub mod usage;
pub mod user_memory;
mod vacate;
#[cfg(test)]
mod vacate_tests;
pub mod view;
#[cfg(test)]
mod view_tests;
mod write_protect;

pub use advise::{WordName, WrittenFiles};
pub use error::{FaultError, SpaceError};
pub use flush::{Flush, LocalFlush, Stale};
pub use gather::{Refusal, Wish};
pub use give_back::GivenBack;
pub use give_up::Unneeded;
pub use layout::Layout;
pub use lend::Lent;
pub use loan::Loan;
pub use map::{MapRequest, Move, Place};
pub use page_index::PageIndex;
pub use populate::Populate;
pub use region::{MappedFile, MappedSize, Options, Provider, Region, Rights, SharedMemory};
pub use remove::{Removal, Removals};
pub use residency::{FilePart, Residency};
pub use space::{AddressSpace, Limits, LockFuture};
pub use usage::{FRACTION_BITS, Usage};
pub use user_memory::UserFault;
pub use view::{Seen, Shown, View};
