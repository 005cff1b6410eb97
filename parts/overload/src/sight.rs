//! The facts of one look: what the queues of a tenant at one resource were since the look before.

/// Flows that must have left the queues for their rate to say anything.
const LEFT_MIN: u32 = 8;

/// See the module. All counts are since the look before, but for `open` and `waiting`, which are now.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Sight {
    /// Flows that are open: they wait or are served.
    pub open: u32,
    /// Flows that stand in a queue.
    pub waiting: u32,
    /// Flows that left a queue to be served.
    pub left: u32,
    /// Flows that ended.
    pub ended: u32,
    /// The time that flows waited, those counted that still wait, ns: the longest, or a mean if a flow can choose its own.
    pub waited_ns: u64,
}

impl Sight {
    /// Returns the delay that a flow has, or will have if it comes now, ns: `passed_ns` is the time since the look before.
    #[must_use]
    pub fn delay_ns(&self, passed_ns: u64) -> u64 {
        self.waited_ns.max(self.expected_ns(passed_ns))
    }

    /// The time in which the queues empty at the rate of this look (Little's law).
    fn expected_ns(&self, passed_ns: u64) -> u64 {
        if self.left < LEFT_MIN {
            return 0;
        }
        let time = u64::from(self.waiting).saturating_mul(passed_ns);
        time.checked_div(u64::from(self.left)).unwrap_or(0)
    }
}
