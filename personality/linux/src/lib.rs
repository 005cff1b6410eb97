//! The Linux personality: a thread is an async task that runs its program until it traps, turns system calls into
//! requests to resources, and delivers signals on the way back.
//!
//! | module | holds |
//! |---|---|
//! | [`table`] | the system call table: number, name, handler |
//! | [`state`] | how much of a call is done |
//! | [`thread`], [`process`], [`tenant`] | a thread, the common state of a process, their owner |
//! | [`run`] | the loop of one thread |
//! | [`user_memory`] | reading and writing a program's memory |
//! | [`task`], [`memory`], [`signal`], [`time`], [`futex`], [`exec`] | calls by family |
//! | [`ipc`] | semaphores and message queues, which processes find by number or name |
//! | [`ptrace`] | debuggers: tracers, tracees, halts |
//! | [`trace`] | the calls of a process, kept for who traces it |
//! | [`pulse`] | virtual cores: ticks for a program's own scheduler, contexts, hand-over |
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

pub mod behalf;
pub mod credentials;
pub mod errno;
pub mod exec;
pub mod file;
pub mod futex;
pub mod ipc;
pub mod load;
pub mod memory;
pub mod objects;
pub mod process;
pub mod ptrace;
pub mod pulse;
pub mod run;
pub mod signal;
pub mod state;
pub mod table;
pub mod task;
pub mod tenant;
pub mod thread;
pub mod time;
pub mod trace;
pub mod user_memory;

pub use errno::Errno;
pub use process::Process;
pub use table::{Arguments, Outcome};
pub use tenant::{KernelServices, Tenant};
pub use thread::Thread;

#[cfg(test)]
mod tests;
