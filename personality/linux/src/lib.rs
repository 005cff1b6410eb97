//! The Linux personality: a thread is an async task that runs its program until it traps, turns system calls into
//! requests to resources, and delivers signals on the way back.
//!
//! | module | holds |
//! |---|---|
//! | [`table`] | the system call table: number, name, handler |
//! | [`thread`], [`process`], [`tenant`] | who runs, what they share, whose they are |
//! | [`run`] | the loop of one thread |
//! | [`user_memory`] | reading and writing a program's memory |
//! | [`task`], [`memory`], [`signal`], [`time`], [`futex`], [`exec`] | calls by family |
//! | [`file`] | descriptors and all calls on them |
//!
//! Invariants: no handler dereferences a user address; every wait is either interruptible by a signal or ends by itself;
//! a thread that dies in a wait drops its future, and that releases everything; processes see only their own tenant.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]
extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod credentials;
pub mod errno;
pub mod exec;
pub mod file;
pub mod futex;
pub mod load;
pub mod memory;
pub mod objects;
pub mod process;
pub mod run;
pub mod signal;
pub mod table;
pub mod task;
pub mod tenant;
pub mod thread;
pub mod time;
pub mod user_memory;

pub use errno::Errno;
pub use process::Process;
pub use table::{Arguments, Outcome};
pub use tenant::{Host, Tenant};
pub use thread::Thread;

#[cfg(test)]
mod tests;
