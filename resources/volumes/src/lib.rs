//! Volumes: partitions of a disk (GUID partition table, UEFI 2.10 §5.3), each served by the block protocol as a disk of its own.
//!
//! ```text
//!   block::Request of a file system --> Volume: inside the partition? --> block::Client of the disk
//! ```
//!
//! Several tenants' file systems lie on one device this way; the scheduler before the device shares it out among their activities.
//! Nothing of the table is trusted: checksums, order and bounds are checked, and the number of entries read is bounded.
//!
//! Left out: MBR partitions, the table's copy at the disk's end, changing tables.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]
extern crate alloc;

mod table;
mod volume;

pub use table::VolumeError;
pub use volume::{Volume, VolumeStatistics};
