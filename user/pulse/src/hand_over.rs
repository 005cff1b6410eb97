//! Hand-over between kernel threads: one names the next that runs in its place.

use std::{
    io,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use gyre_contract::native::HAND_OVER;

use crate::{Error, Way, futex};

/// The number of the calling kernel thread.
pub fn own_id() -> i32 {
    // SAFETY: takes nothing and touches no memory.
    unsafe { libc::syscall(libc::SYS_gettid) as i32 }
}

/// The place at which threads wait for their turn: by the native call, or by a word whose value is whose turn it is.
pub struct HandOverPlace<'a> {
    way: Way,
    word: &'a AtomicU32,
    own: u32,
}

impl<'a> HandOverPlace<'a> {
    /// The place of the thread with the turn `own`.
    pub fn new(way: Way, word: &'a AtomicU32, own: u32) -> HandOverPlace<'a> {
        HandOverPlace { way, word, own }
    }

    /// Waits for the first turn.
    ///
    /// # Errors
    /// The kernel's.
    pub fn wait(&mut self) -> Result<(), Error> {
        match self.way {
            Way::Native => call(0),
            Way::Signals => self.wait_for_word(),
        }
    }

    /// Gives the turn to another thread, by its number and its turn, and waits for the own one.
    ///
    /// # Errors
    /// The kernel's.
    pub fn pass(&mut self, thread: i32, turn: u32) -> Result<(), Error> {
        match self.way {
            Way::Native => call(thread),
            Way::Signals => {
                self.word.store(turn, Ordering::Release);
                futex::wake_all(self.word);
                self.wait_for_word()
            }
        }
    }

    fn wait_for_word(&self) -> Result<(), Error> {
        loop {
            match self.word.load(Ordering::Acquire) {
                turn if turn == self.own => return Ok(()),
                seen => futex::wait(self.word, seen, Duration::from_secs(1)),
            }
        }
    }
}

fn call(thread: i32) -> Result<(), Error> {
    // SAFETY: takes a number and touches no memory.
    let value = unsafe { libc::syscall(HAND_OVER as libc::c_long, thread) };
    if value < 0 { Err(io::Error::last_os_error().into()) } else { Ok(()) }
}
