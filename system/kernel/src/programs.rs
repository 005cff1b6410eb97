//! Programs that were started from outside the machine, and not waited for yet.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_account::ActivityId;
use gyre_linux::{Errno, Process};
use gyre_object::SpinLock;

/// The programs, by the numbers that their callers know them by. Numbers are not used again, so that a signal that comes late never meets
/// another program.
#[derive(Default)]
pub struct Programs(SpinLock<Known>);

#[derive(Default)]
struct Known {
    last_number: u64,
    started: BTreeMap<u64, Arc<Process>>,
}

impl Programs {
    /// Remembers a program and returns its number.
    pub fn add(&self, process: Arc<Process>) -> u64 {
        let mut known = self.0.lock();
        let number = known.last_number.wrapping_add(1);
        known.last_number = number;
        known.started.insert(number, process);
        number
    }

    /// Returns the program of a number.
    ///
    /// # Errors
    /// ECHILD if there is none.
    pub fn get(&self, number: u64) -> Result<Arc<Process>, Errno> {
        self.0.lock().started.get(&number).cloned().ok_or(Errno::ECHILD)
    }

    /// Forgets a program: somebody knows how it ended.
    pub fn remove(&self, number: u64) {
        let removed = self.0.lock().started.remove(&number);
        drop(removed);
    }

    /// Tells those who wait for programs of a tenant that it was ended as a whole.
    pub fn tell_end_of(&self, tenant: ActivityId) {
        let started: Vec<Arc<Process>> = self.0.lock().started.values().cloned().collect();
        let own = started.iter().filter(|process| process.tenant().activity() == tenant);
        own.for_each(|process| process.ended.wake_all());
    }
}
