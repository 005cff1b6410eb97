//! Processes that end because of a failure of the kernel, and their threads that are lost.

use alloc::vec::Vec;
use gyre_account::ActivityId;
use gyre_object::SpinLock;

/// The processes that are being ended.
#[derive(Default)]
pub struct Dying(SpinLock<Vec<Lost>>);

struct Lost {
    process: ActivityId,
    threads: usize,
}

/// Whether a process had been ending before it was noted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Noted {
    /// Somebody must end it now.
    First,
    /// It is ending; its threads are counted.
    Again,
}

impl Dying {
    /// Notes that a process must end, with so many threads more that are lost.
    pub fn note(&self, process: ActivityId, threads: usize) -> Noted {
        let mut all = self.0.lock();
        if let Some(lost) = all.iter_mut().find(|lost| lost.process == process) {
            lost.threads = lost.threads.saturating_add(threads);
            return Noted::Again;
        }
        all.push(Lost { process, threads });
        Noted::First
    }

    /// Returns how many threads of a process are lost.
    pub fn lost_threads(&self, process: ActivityId) -> usize {
        self.0.lock().iter().find(|lost| lost.process == process).map_or(0, |lost| lost.threads)
    }

    /// Forgets a process: it has ended, or its tenant ends as a whole.
    pub fn forget(&self, process: ActivityId) {
        self.0.lock().retain(|lost| lost.process != process);
    }
}
