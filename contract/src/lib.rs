//! The contract between the host and a kernel: everything that they tell each other.
//!
//! * [`boot`]: the machine as the kernel receives it, a boot module in postcard form behind a checked header.
//! * [`bounds`]: what quantities may be.
//! * [`catalogue`]: the resources, each once.
//! * [`policy`]: the schedulers and their parameters, part of the machine.
//! * [`address`]: the addresses of the guest network.
//! * [`monitor`]: the figures that come back: a snapshot of every record in the machine.
//! * [`bill`]: the use of the machine's time, summed per tenant, and the proof that it adds up.
//! * [`promise`]: changes of several parts at run time; [`goals`]: goals of tenants, and how they are met.
//! * [`session`]: a program's streams over one connection, for `gyre exec`.
//! * [`trace`]: the calls of a traced process, for `gyre trace`.
//! * [`partitions`]: the table of a disk that tenants share.
//! * [`seats`]: cells that own cores and memory: the list, the log, revocation.
//! * [`health`]: checks of tenants, which the agent makes.
//! * [`cells`]: tenants that have cores together, at times of their own.
//! * [`leased`]: the bill over instances.
//! * [`zones`]: parts of the machine with a kernel in each; [`last_words`]: why one of them crashed.
//! * [`pulse`]: the words between a program's own scheduler and the kernel.
//! * [`native`]: the native system calls by which a program in the machine gets and causes these things.
//!
//! The kernel has no text parser (design, decision 9): `host/machine_file` turns a machine file into [`boot::Machine`].
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod address;
pub mod aggregates;
pub mod bill;
pub mod boot;
pub mod bounds;
pub mod catalogue;
pub mod cells;
pub mod change;
pub mod figures;
pub mod goals;
pub mod health;
pub mod last_words;
pub mod leased;
pub mod leases;
pub mod monitor;
pub mod native;
pub mod partitions;
pub mod policy;
pub mod promise;
pub mod pulse;
pub mod seats;
pub mod session;
pub mod snapshot_bytes;
pub mod trace;
mod window;
pub mod zones;
