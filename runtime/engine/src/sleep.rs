//! Going to sleep without losing a wake-up.
//!
//! The sender publishes its message, fences, and looks whether the receiver sleeps; the receiver says that it sleeps, fences,
//! and looks for messages. One of the two sees the other (sequential consistency); without the fences both can miss (loom
//! finds it in an instant).

use crate::sync::{AtomicBool, Ordering, fence};

/// Says whether a core needs an interrupt to notice its inbox: it idles, or runs a program.
#[repr(align(64))]
pub(crate) struct Sleeper {
    away: AtomicBool,
}

impl Sleeper {
    pub(crate) fn new() -> Sleeper {
        Sleeper { away: AtomicBool::new(false) }
    }

    /// For the receiver: from now on senders interrupt. Look for messages after this, before going away.
    pub(crate) fn leave(&self) {
        self.away.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// For the receiver: it looks by itself again.
    #[inline]
    pub(crate) fn come_back(&self) {
        self.away.store(false, Ordering::Relaxed);
    }

    /// For a sender, after publishing: true if it, or another one, must interrupt the receiver, be it a little later.
    pub(crate) fn is_away(&self) -> bool {
        fence(Ordering::SeqCst);
        self.away.load(Ordering::Relaxed)
    }

    /// Returns true while the core idles or runs a program, be it a little out of date. It serves occasional looks.
    pub(crate) fn seems_away(&self) -> bool {
        self.away.load(Ordering::Relaxed)
    }

    /// For a sender, after publishing: true if it must interrupt the receiver. Of several senders one does.
    #[inline]
    pub(crate) fn must_interrupt(&self) -> bool {
        fence(Ordering::SeqCst);
        self.away.load(Ordering::Relaxed) && self.away.swap(false, Ordering::Relaxed)
    }
}
