//! Schedulers of a program's own, for C: the functions of `user/native/include/gyre_pulse.h`, which describes them.
//!
//! | module | holds |
//! |---|---|
//! | [`policy`] | a scheduler whose functions are C's |
//! | [`threads`] | threads of a scheduler |
//! | [`mutex`] | a mutex with inheritance |
//! | [`turns`] | hand-over between kernel threads |
#![deny(unsafe_op_in_unsafe_fn)]

pub mod mutex;
pub mod policy;
pub mod threads;
pub mod turns;

use gyre_pulse::Error;

/// Ticks are masked while Rust's heap is at work.
#[global_allocator]
static HEAP: gyre_pulse::Allocator = gyre_pulse::Allocator;

/// 0, or a negative number of `errno.h`.
fn number(done: Result<(), Error>) -> i32 {
    match done {
        Ok(()) => 0,
        Err(Error::Outside) => -libc::EPERM,
        Err(Error::TooMany) => -libc::EAGAIN,
        Err(Error::Time) => -libc::EINVAL,
        Err(Error::Busy) => -libc::EBUSY,
        Err(Error::Kernel(error)) => -error.raw_os_error().unwrap_or(libc::EIO),
    }
}
