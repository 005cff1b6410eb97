//! What the host and the machine tell each other.
//!
//! * [`boot`]: the machine as the kernel receives it, a boot module in postcard form behind a checked header.
//! * [`bounds`]: what quantities may be.
//! * [`policy`]: the schedulers and their parameters, part of the machine.
//! * [`address`]: the addresses of the guest network.
//! * [`monitor`]: the figures that come back: a snapshot of every record in the machine.
//! * [`bill`]: who used the machine's time, summed per tenant, and that it adds up.
//! * [`session`]: a program's streams over one connection, for `gyre exec`.
//! * [`partitions`]: the table of a disk that tenants share.
//! * [`native`]: the native system calls by which a program in the machine gets and causes these things.
//!
//! With the feature `std` also [`file`]: the machine file, one TOML file per machine, checked, with errors that name
//! line and column. The kernel has no text parser (design, decision 9).
#![cfg_attr(not(feature = "std"), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod address;
pub mod bill;
pub mod boot;
pub mod bounds;
pub mod figures;
#[cfg(feature = "std")]
pub mod file;
pub mod monitor;
pub mod native;
pub mod partitions;
pub mod policy;
pub mod session;
mod window;
