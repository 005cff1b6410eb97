//! Kernel threads under a scheduler of the program's own: of each virtual core one of them runs, all others wait.
//!
//! For programs that know nothing of this: `gyre-pulse-threads` puts itself before the functions of pthreads and calls what is here. Each thread
//! keeps its stack, its thread-local variables and its signal mask; only the time at which it runs is the scheduler's.
//!
//! | module | holds |
//! |---|---|
//! | [`world`] | the virtual cores and who has them |
//! | [`member`] | a thread: begins, ends, gives its virtual core up and gets one |
//! | [`tick`] | ticks: a timer and a signal for each thread |
//!
//! A thread that waits in a call of the kernel keeps its virtual core until its next tick, which hands the core to another one; the call goes on
//! when the thread has its turn again (SA_RESTART). [`block`] gives the core up before a call that may wait for long.

pub mod member;
mod tick;
pub mod world;

pub use member::{abandon, begin, block, end, is_member, yield_now};
pub use tick::SIGNAL;
pub use world::{Plan, start};
