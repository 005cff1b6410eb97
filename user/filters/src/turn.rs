//! The turn of a filter: until when its program may go on, and whether it is to leave.
//!
//! The service opens a turn before it resumes a filter. Hooks ask [`is_over`] now and then and [`breathe`] then: that pauses the fiber, and
//! answers an error for the program if it is to end.

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

use rustix::time::{ClockId, clock_gettime};

use crate::fiber::{Go, pause};

thread_local! {
    static ENDS: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// A program is to leave.
#[derive(Debug)]
pub struct Ended;

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the service ends this filter")
    }
}

impl std::error::Error for Ended {}

/// Begins a turn of so long.
pub fn open(length: Duration) {
    ENDS.set(Instant::now().checked_add(length));
}

/// Returns true once the turn is over.
pub fn is_over() -> bool {
    ENDS.get().is_some_and(|ends| Instant::now() >= ends)
}

/// Waits for the next turn.
///
/// # Errors
/// There is none: leave.
pub fn breathe() -> Result<(), Ended> {
    match pause() {
        Go::On => Ok(()),
        Go::End => Err(Ended),
    }
}

/// Waits for the next turn if this one is over.
///
/// # Errors
/// There is none: leave.
pub fn breathe_when_over() -> Result<(), Ended> {
    if is_over() { breathe() } else { Ok(()) }
}

/// Returns the processor time of this thread so far, ns.
pub fn used_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    u64::try_from(time.tv_sec).unwrap_or(0).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec.unsigned_abs())
}
