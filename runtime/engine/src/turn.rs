//! A turn: what the CPU's policy grants an activity when it chooses one of its queues.
//!
//! Until the quantum is spent, queues of the same activity that become ready are served in the order in which they did, without
//! asking the policy for each message; then the turn is charged as a whole. A call down a chain of resources and back is one turn
//! (as an inline call is), and the bound of the policy grows by one quantum. Gates and the infrastructure's work end a turn.

use crate::task::NIL;
use alloc::collections::VecDeque;
use gyre_account::ActivityId;

/// The turn that a core is in, if any.
pub(crate) struct Turn {
    pub(crate) is_open: bool,
    pub(crate) activity: ActivityId,
    /// The queue that the policy chose: the client that is charged.
    pub(crate) queue: u32,
    /// When it ends, cycles.
    pub(crate) end: u64,
    /// Cycles used and not charged yet.
    pub(crate) unpaid: u64,
    /// Queues that became ready meanwhile.
    pub(crate) waiting: VecDeque<u32>,
}

impl Turn {
    pub(crate) const fn new() -> Turn {
        Turn {
            is_open: false,
            activity: ActivityId::INFRASTRUCTURE,
            queue: NIL,
            end: 0,
            unpaid: 0,
            waiting: VecDeque::new(),
        }
    }

    /// Starts a turn of an activity.
    #[inline]
    pub(crate) fn open(&mut self, queue: u32, activity: ActivityId, end: u64) {
        self.is_open = true;
        self.queue = queue;
        self.activity = activity;
        self.end = end;
        self.unpaid = 0;
    }
}
