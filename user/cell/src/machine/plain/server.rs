//! The threads that serve the lines of a plain cell: one for each line, as each call may wait.

use std::sync::atomic::{AtomicU32, Ordering};

use gyre_cell_abi::{CallLine, state};
use linux_raw_sys::general as nr;

use super::{arrivals::Arrivals, harmless, traps};
use crate::{fiber::FIBERS_MAX, lines::Lines};

/// Bytes of a serving thread's stack.
const STACK_BYTES: usize = 64 << 10;

/// The words that the cell and the threads share.
#[derive(Debug)]
pub struct Shared {
    lines: *mut CallLine,
    /// Counts new lines.
    asked: AtomicU32,
    /// Counts answers, and signals.
    answered: AtomicU32,
    /// The value of `answered` when the cell looked last.
    seen: AtomicU32,
    /// Signals that have come.
    pub signals: Arrivals,
}

// SAFETY: a line is touched by who has moved its state there.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

impl Shared {
    /// Makes lines and the threads that serve them.
    ///
    /// # Errors
    /// If Linux has no threads.
    pub fn start() -> std::io::Result<&'static Self> {
        let lines: Vec<_> = (0..FIBERS_MAX).map(|_| CallLine::default()).collect();
        let lines = Box::leak(lines.into_boxed_slice()).as_mut_ptr();
        let [asked, answered, seen] = [const { AtomicU32::new(0) }; 3];
        let shared: &'static Self =
            Box::leak(Box::new(Self { lines, asked, answered, seen, signals: Arrivals::default() }));
        // A thread begins with its maker's mask: it must hold signals back before its first instruction.
        traps::with_signals_held_back(|| {
            for _ in 0..FIBERS_MAX {
                std::thread::Builder::new().stack_size(STACK_BYTES).spawn(move || shared.serve())?;
            }
            Ok(shared)
        })
    }

    /// The lines.
    pub fn lines(&self) -> Lines {
        // SAFETY: they live for ever, and the one runtime of the process asks once.
        unsafe { Lines::at(self.lines, FIBERS_MAX as u32) }
    }

    /// Wakes one thread that serves.
    pub fn ring(&self) {
        self.asked.fetch_add(1, Ordering::Release);
        wake(&self.asked);
    }

    /// Wakes the cell.
    pub fn wake_cell(&self) {
        self.answered.fetch_add(1, Ordering::Release);
        wake(&self.answered);
    }

    /// Waits until something was answered since the last time, so many nanoseconds at most; 0 is without limit.
    pub fn wait_for_answers(&self, nanoseconds: u64) {
        let seen = self.seen.load(Ordering::Relaxed);
        wait(&self.answered, seen, nanoseconds);
        self.seen.store(self.answered.load(Ordering::Acquire), Ordering::Relaxed);
    }

    fn serve(&self) {
        loop {
            let asked = self.asked.load(Ordering::Acquire);
            if !self.serve_one() {
                wait(&self.asked, asked, 0);
            }
        }
    }

    /// Serves a line; `false` if none was asked.
    fn serve_one(&self) -> bool {
        for index in 0..FIBERS_MAX {
            // SAFETY: the line is there for ever.
            let line = unsafe { self.lines.add(index) };
            // SAFETY: the state is touched by atomic operations alone.
            let word = unsafe { &(*line).state };
            if word.compare_exchange(state::ASKED, state::TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                // SAFETY: a line that this thread has taken is its own.
                unsafe { (*line).result = perform((*line).number, (*line).arguments) };
                word.store(state::ANSWERED, Ordering::Release);
                self.wake_cell();
                return true;
            }
        }
        false
    }
}

/// Makes the call of a line. A handler of signals becomes the runtime's, which tells the cell.
fn perform(number: u32, arguments: [u64; 6]) -> i64 {
    match number {
        nr::__NR_rt_sigaction => traps::change_action(arguments[0] as u32, arguments[1]),
        _ => harmless(number, arguments),
    }
}

pub(super) fn wait(word: &AtomicU32, value: u32, nanoseconds: u64) {
    let time = [nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000];
    let time = if nanoseconds == 0 { 0 } else { time.as_ptr() as u64 };
    let operation = (nr::FUTEX_WAIT | nr::FUTEX_PRIVATE_FLAG).into();
    harmless(nr::__NR_futex, [word.as_ptr() as u64, operation, value.into(), time, 0, 0]);
}

pub(super) fn wake(word: &AtomicU32) {
    let operation = (nr::FUTEX_WAKE | nr::FUTEX_PRIVATE_FLAG).into();
    harmless(nr::__NR_futex, [word.as_ptr() as u64, operation, 1, 0, 0, 0]);
}
