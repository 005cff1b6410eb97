//! Going to sleep beside a ring without losing a message.
//!
//! The sender publishes its message, fences, and looks whether the receiver is away. The receiver says that it is away, fences, and looks for
//! messages. One of the two sees the other (sequential consistency); without the fences both can miss, as loom shows.

use crate::sync::{AtomicU64, Ordering, fence};

const HERE: u64 = 0;
const AWAY: u64 = 1;

/// A receiver's word in shared memory: whether it polls or must be interrupted.
#[cfg_attr(not(loom), repr(C, align(64)))]
pub struct Bell {
    word: AtomicU64,
}

/// A bell whose word lies in shared memory of another shape. A word of zero is that of a receiver that polls.
#[derive(Clone, Copy)]
pub struct BellAt<'a>(pub &'a AtomicU64);

impl BellAt<'_> {
    /// See [`Bell::leave`].
    pub fn leave(self) {
        self.0.store(AWAY, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// See [`Bell::come_back`].
    pub fn come_back(self) {
        self.0.store(HERE, Ordering::Relaxed);
    }

    /// See [`Bell::must_ring`].
    #[must_use]
    pub fn must_ring(self) -> bool {
        fence(Ordering::SeqCst);
        self.0.load(Ordering::Relaxed) == AWAY && self.0.swap(HERE, Ordering::Relaxed) == AWAY
    }
}

impl Bell {
    /// Makes the bell of a receiver that polls.
    #[must_use]
    pub fn new() -> Self {
        Self { word: AtomicU64::new(HERE) }
    }

    fn at(&self) -> BellAt<'_> {
        BellAt(&self.word)
    }

    /// Called by the receiver before it sleeps: from now on senders interrupt. It looks for messages after this and before it sleeps.
    pub fn leave(&self) {
        self.at().leave();
    }

    /// Called by the receiver when it polls again.
    pub fn come_back(&self) {
        self.at().come_back();
    }

    /// Called by a sender after it published: true if it must interrupt the receiver. Of several senders one gets true.
    pub fn must_ring(&self) -> bool {
        self.at().must_ring()
    }
}

impl Default for Bell {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn one_sender_rings_for_a_receiver_that_is_away() {
        let bell = Bell::new();
        assert!(!bell.must_ring(), "it polls");
        bell.leave();
        assert!(bell.must_ring());
        assert!(!bell.must_ring(), "it was rung for");
        bell.leave();
        bell.come_back();
        assert!(!bell.must_ring());
    }
}
