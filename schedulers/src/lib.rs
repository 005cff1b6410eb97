//! The scheduling policies of Gyre.
//!
//! A policy decides which request queue (*client*) a core serves next. It sees queues and records of
//! consumption, never messages, knows nothing of the machine, and reads no clock: time arrives as an argument.
//! So every policy serves every resource, from the CPU to a disk, and is tested on the host.
//!
//! * [`policy`] holds the contract: the functions of Table III of the Vortex paper ("Omni-Kernel: An Operating
//!   System Architecture for Pervasive Monitoring and Scheduling", appendix A) and a few additions.
//! * [`order`] splits the contract: [`order::Core`] does what all policies share (client states, statistics, choice
//!   of metric), an [`order::Order`] holds the idea of one policy.
//! * One file per policy; each states the bound it keeps and the paper the bound comes from.
//! * [`list`] names every policy once, with its parameters; the machine file and the kernel know policies from there.
#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

extern crate alloc;

pub mod bitmap;
pub mod cells;
pub mod dense;
pub mod drum;
pub mod elsewhere;
pub mod heap;
pub mod inline;
pub mod limit;
pub mod list;
pub mod order;
pub mod pace;
pub mod placement;
pub mod policy;
pub mod tag;

pub mod earliest_deadline;
pub mod lottery;
pub mod multiplexer;
pub mod reservation;
pub mod round_robin;
pub mod strict_priority;
pub mod token_bucket;
pub mod tree;
pub mod weighted_fair;
pub mod worst_case_fair;

pub use list::{Listed, POLICIES, Setup};
pub use policy::{
    ClientIndex, ClientParams, ClientStatistics, CoreLoad, CorePolicy, Grace, Metric, NodeIndex, Placement, Policy,
    PolicyError, Readiness, Record,
};

#[cfg(test)]
extern crate std;
#[cfg(test)]
mod testing;
