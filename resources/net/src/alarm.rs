//! A deadline that is moved often and comes seldom.

use core::sync::atomic::{AtomicU64, Ordering};

/// No deadline.
pub const NEVER: u64 = u64::MAX;

/// A deadline. Its owner moves it, under the lock of the object it is the deadline of; [`crate::timer::TcpTimer`]
/// looks at it. Times are ns of the path's clock.
///
/// (1) The owner writes the deadline, then reads when the timer looks next. (2) The timer writes when it looks next,
/// then reads the deadline. So one of the two sees the other's write (both in one order, hence `SeqCst`), and no
/// deadline is missed.
pub struct Alarm {
    deadline_ns: AtomicU64,
    /// The timer looks then, or a request that tells it to is under way.
    look_at_ns: AtomicU64,
}

impl Default for Alarm {
    fn default() -> Alarm {
        Alarm { deadline_ns: AtomicU64::new(NEVER), look_at_ns: AtomicU64::new(NEVER) }
    }
}

impl Alarm {
    /// Moves the deadline; [`NEVER`] takes it back. True if the timer must be told, for it would look too late.
    #[must_use = "the timer does not know"]
    pub fn set(&self, deadline_ns: u64) -> bool {
        self.deadline_ns.store(deadline_ns, Ordering::SeqCst);
        deadline_ns < self.look_at_ns.load(Ordering::SeqCst)
            && deadline_ns < self.look_at_ns.fetch_min(deadline_ns, Ordering::SeqCst)
    }

    /// Sets the deadline, unless there is an earlier one.
    #[must_use = "the timer does not know"]
    pub fn set_earlier(&self, deadline_ns: u64) -> bool {
        deadline_ns < self.deadline_ns.load(Ordering::SeqCst) && self.set(deadline_ns)
    }

    /// Returns whether the timer knows of it.
    pub fn is_armed(&self) -> bool {
        self.look_at_ns.load(Ordering::SeqCst) != NEVER
    }

    /// Returns, for the timer, when it looks next; [`NEVER`] if it need not.
    pub fn look(&self) -> u64 {
        loop {
            let deadline_ns = self.deadline_ns.load(Ordering::SeqCst);
            self.look_at_ns.store(deadline_ns, Ordering::SeqCst);
            if self.deadline_ns.load(Ordering::SeqCst) >= deadline_ns {
                return deadline_ns;
            }
        }
    }

    /// Returns, for the timer that looks, whether the deadline has come. Its owner is told then, and sets the next
    /// one.
    pub fn look_at(&self, now_ns: u64) -> bool {
        let is_due = self.deadline_ns.load(Ordering::SeqCst) <= now_ns;
        if is_due {
            self.look_at_ns.store(NEVER, Ordering::SeqCst);
        }
        is_due
    }
}
