//! File system events (inotify(7)): watches are accepted and numbered, so that programs that only want to be told start;
//! no resource reports changes yet, so no event ever comes.

use crate::Errno;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use gyre_interface::files::NodeId;
use gyre_interface::{Readiness, Ready};
use gyre_object::SpinLock;

/// Watches of one descriptor.
const WATCHES_MAX: usize = 8192;

#[derive(Default)]
struct Watches {
    next: i32,
    numbers: BTreeMap<(u32, NodeId), i32>,
}

/// An inotify descriptor.
pub struct Inotify {
    watches: SpinLock<Watches>,
    readiness: Arc<Readiness>,
}

impl Default for Inotify {
    fn default() -> Inotify {
        Inotify { watches: SpinLock::default(), readiness: Readiness::new(Ready::empty()) }
    }
}

impl Inotify {
    /// What it is ready for: never anything.
    pub fn readiness(&self) -> &Arc<Readiness> {
        &self.readiness
    }

    /// Watches a node; answers the watch's number.
    ///
    /// # Errors
    /// ENOSPC beyond the limit.
    pub fn add(&self, node: (u32, NodeId)) -> Result<i32, Errno> {
        let mut watches = self.watches.lock();
        if let Some(number) = watches.numbers.get(&node) {
            return Ok(*number);
        }
        if watches.numbers.len() >= WATCHES_MAX {
            return Err(Errno::ENOSPC);
        }
        watches.next += 1;
        let number = watches.next;
        watches.numbers.insert(node, number);
        Ok(number)
    }

    /// Ends a watch.
    ///
    /// # Errors
    /// EINVAL for a number that is not one.
    pub fn remove(&self, number: i32) -> Result<(), Errno> {
        let mut watches = self.watches.lock();
        let before = watches.numbers.len();
        watches.numbers.retain(|_, other| *other != number);
        if watches.numbers.len() == before {
            return Err(Errno::EINVAL);
        }
        Ok(())
    }

    /// Takes events.
    ///
    /// # Errors
    /// EAGAIN: there are none.
    pub fn read(&self, _into: &mut [u8]) -> Result<usize, Errno> {
        Err(Errno::EAGAIN)
    }
}
