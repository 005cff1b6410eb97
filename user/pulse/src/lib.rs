//! Schedulers of a program's own (T4; Tessellation's PULSE).
//!
//! A program gives a [`Scheduler`] to [`run`]; it is asked at five moments which *thread* a *virtual core* runs next: [`Scheduler::enter`],
//! [`Scheduler::tick`], [`Scheduler::yielded`], [`Scheduler::done`], [`Scheduler::adapt`]; [`Scheduler::ready`] tells of a new or woken thread. It
//! is asked with ticks masked, on a stack of its own, and holds the threads that do not run as [`Held`].
//!
//! | module | holds |
//! |---|---|
//! | [`schedulers`] | round robin, earliest deadline first, speed balancing, work stealing |
//! | [`hand_over`] | kernel threads that name the next to run |
//! | [`threads`] | kernel threads of a program that knows nothing of this, each on a virtual core at a time |
//! | `share` | the processors that the program may use, looked up while it runs |
//! | [`mutex`] | a mutex whose holder inherits the deadline of who waits |
//! | `core` | a virtual core: one kernel thread, its area and its turns |
//! | `fiber` | a thread of the program: a stack and a saved context |
//! | `resume` | a tick's entry by native calls, and the way back into the thread that it stopped |
//! | `native`, `signals` | the two ways by which ticks come: calls of Gyre; signals and timers of Linux |
//!
//! Threads may move between virtual cores at any instruction. So between two calls of this crate they hold no address of a thread-local variable,
//! and they call what locks or allocates (`println!`, `malloc`) only within [`masked`]; [`Allocator`] does so for Rust's heap.
#![deny(unsafe_op_in_unsafe_fn)]

mod allocator;
mod auxiliary;
mod core;
mod errno;
mod error;
mod fiber;
mod futex;
pub mod hand_over;
pub mod mutex;
mod native;
mod resume;
mod runtime;
mod scheduler;
pub mod schedulers;
mod share;
mod signals;
mod spin;
mod switch;
pub mod threads;
mod way;

pub use allocator::Allocator;
pub use error::Error;
pub use fiber::{Held, THREADS_MAX};
pub use runtime::{
    Options, Report, now_ns, resize, run, set_deadline, sleep_until, spawn, spawn_due, ticks, yield_now,
};
pub use scheduler::{Scheduler, Vcore};
pub use share::Follows;
pub use spin::{Spin, mask, masked, unmask};
pub use way::Way;
