//! The operations of rings that a program has under way. They use its descriptors, and end with it: before another program has these
//! (execve), or at the end of its process, also if others have the ring.
//!
//! Each step of a chain has a [`Place`] from its submission to its end. [`UnderWay::end`] asks all to end, and waits until they have: nobody
//! adds one meanwhile, since the threads of the program are gone.

use super::ring::Cancel;
use crate::file::pace::Pace;
use crate::{Process, Thread};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use gyre_message::WaitQueue;
use gyre_object::ObjectLock;

/// The operations of a process.
#[derive(Default)]
pub struct UnderWay {
    steps: ObjectLock<Steps>,
    /// Woken when none is left.
    over: WaitQueue,
}

#[derive(Default)]
struct Steps {
    next: u64,
    cancels: BTreeMap<u64, Arc<Cancel>>,
}

impl UnderWay {
    fn add(&self, cancel: Arc<Cancel>) -> u64 {
        let mut steps = self.steps.lock();
        let number = steps.next;
        steps.next = number.wrapping_add(1);
        steps.cancels.insert(number, cancel);
        number
    }

    fn remove(&self, number: u64) {
        let mut steps = self.steps.lock();
        let removed = steps.cancels.remove(&number);
        let is_over = steps.cancels.is_empty();
        drop(steps);
        drop(removed);
        if is_over {
            self.over.wake_all();
        }
    }

    fn first_from(&self, number: u64) -> Option<(u64, Arc<Cancel>)> {
        let steps = self.steps.lock();
        steps.cancels.range(number..).next().map(|(number, cancel)| (*number, cancel.clone()))
    }

    /// Asks all to end, in pieces.
    pub(crate) async fn ask_to_end(&self) {
        let (mut pace, mut at) = (Pace::new(), 0);
        while let Some((number, cancel)) = self.first_from(at) {
            cancel.ask();
            at = number.wrapping_add(1);
            pace.step().await;
        }
    }

    /// Ends all: when this is done none of them does anything more.
    pub(crate) async fn end(&self) {
        self.ask_to_end().await;
        self.over.until(|| self.steps.lock().cancels.is_empty().then_some(())).await;
    }
}

/// The place of an operation among those of its process.
pub struct Place {
    process: Arc<Process>,
    number: u64,
}

impl Place {
    /// Takes one for an operation that this worker is to do.
    pub fn take(worker: &Thread, cancel: &Arc<Cancel>) -> Place {
        let process = worker.process().clone();
        let number = process.under_way.add(cancel.clone());
        Place { process, number }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.process.under_way.remove(self.number);
    }
}
