//! Messages from other cores to a core.

use crate::bits::WakeBits;
use crate::engine::Engine;
use crate::limits::{INBOX_SLOTS, TASKS_MAX};
use crate::ring::Ring;
use crate::sleep::Sleeper;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::sync::atomic::{AtomicBool, Ordering};
use gyre_account::{ActivityId, ResourceId};
use gyre_object::SpinLock;

/// A request on its way to another core.
pub(crate) trait Parcel: Send {
    /// Returns who sent it, and may have ended since.
    fn activity(&self) -> ActivityId;
    /// Queues the request on this core.
    fn deliver(self: Box<Self>);
}

/// A closure of the engine itself: short, runs as soon as the core looks.
pub(crate) type Errand = Box<dyn FnOnce(&'static Engine) + Send>;

/// A message to a core.
pub(crate) enum Message {
    /// A request for a resource here.
    Request(Box<dyn Parcel>),
    /// Work of the engine.
    Errand(Errand),
    /// A resource can take requests again.
    Resume(ResourceId),
    /// A timer that was armed here is not needed any more: slot and generation.
    CancelTimer(u32, u32),
}

/// The inbox of a core: bounded without memory, and a list beyond that.
pub(crate) struct Inbox {
    ring: Ring<Message>,
    overflow: SpinLock<VecDeque<Message>>,
    overflowed: AtomicBool,
    pub(crate) wakes: WakeBits,
    pub(crate) sleeper: Sleeper,
}

impl Inbox {
    pub(crate) fn new() -> Inbox {
        Inbox {
            ring: Ring::new(INBOX_SLOTS),
            overflow: SpinLock::new(VecDeque::new()),
            overflowed: AtomicBool::new(false),
            wakes: WakeBits::new(TASKS_MAX),
            sleeper: Sleeper::new(),
        }
    }

    /// Puts a message in; gives it back only if there is no memory left at all.
    pub(crate) fn push(&self, message: Message) -> Result<(), Message> {
        // Once something went to the list everything does until it is empty: one sender's messages stay in order.
        let message = match self.overflowed.load(Ordering::Acquire) {
            true => message,
            false => match self.ring.push(message) {
                Ok(()) => return Ok(()),
                Err(message) => message,
            },
        };
        let mut list = self.overflow.lock();
        if list.try_reserve(1).is_err() {
            return Err(message);
        }
        self.overflowed.store(true, Ordering::Release);
        list.push_back(message);
        Ok(())
    }

    /// Takes the oldest message. For the inbox's core.
    pub(crate) fn pop(&self) -> Option<Message> {
        if let Some(message) = self.ring.pop() {
            return Some(message);
        }
        if !self.overflowed.load(Ordering::Acquire) {
            return None;
        }
        let mut list = self.overflow.lock();
        let message = list.pop_front();
        if list.is_empty() {
            self.overflowed.store(false, Ordering::Release);
        }
        message
    }

    /// Returns true if the core has something to do here.
    #[inline]
    pub(crate) fn is_ready(&self) -> bool {
        self.ring.is_ready() || self.overflowed.load(Ordering::Acquire) || self.wakes.is_ready()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn messages_beyond_the_ring_wait_in_order() {
        let inbox = Inbox::new();
        let count = 3 * INBOX_SLOTS as u32;
        for number in 0..count {
            assert!(inbox.push(Message::CancelTimer(number, 0)).is_ok());
        }
        for number in 0..count {
            assert!(matches!(inbox.pop(), Some(Message::CancelTimer(found, 0)) if found == number));
        }
        assert!(inbox.pop().is_none() && !inbox.is_ready());
    }
}
