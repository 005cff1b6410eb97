//! SCSI disks: what the block protocol asks, said in commands, and what the unit's answers mean (SAM-5, SPC-4, SBC-3).
//!
//! ```text
//!   block::Request --> Unit: in bounds? --> command block --> scsi_host::Request to the host adapter's port
//!   its answer     --> verdict: status and sense data --> done | the command again, at once or after a pause | an error
//!
//!   start   INQUIRY (is it a disk?)  TEST UNIT READY (until attention is over)  READ CAPACITY(16)  MODE SENSE(6) (may it be written?)
//!   then    READ and WRITE (10), beyond 2 TiB (16); SYNCHRONIZE CACHE(10) for flush
//! ```
//!
//! Messages in: [`gyre_interface::block`]; out: [`gyre_interface::scsi`]. Nothing of an answer is trusted: a transfer is done if the unit says so
//! and nothing is left over; what makes no sense is an error, never a success.
//!
//! Invariants: a command is sent a bounded number of times; no lock is held while it is under way; data are not copied.
//!
//! Left out: other block lengths than 512 bytes, UNMAP (nobody asks the block protocol for it), task management and events: a unit that is
//! late is reset with its host, which is the driver's.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]
#![warn(missing_docs)]
extern crate alloc;

mod command;
mod disk;
mod sense;
mod start;
mod unit;
mod verdict;

pub use disk::attach;
pub use unit::Unit;

#[cfg(test)]
mod tests;
