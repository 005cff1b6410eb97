//! A virtual core: where its area and its entry are, when its next tick is due, for how long ticks may be masked.

use crate::time::{cycles_from_now, ns_to_cycles};
use alloc::boxed::Box;
use alloc::vec;

/// The places that a program gave with `pulse`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Address of `gyre_contract::pulse::Area`.
    pub area: u64,
    /// Entry of the scheduler.
    pub entry: u64,
    /// End of its stack.
    pub stack: u64,
    /// For how long ticks may be masked, ns.
    pub limit_ns: u64,
    /// The last instructions of a resumption by the program: the first one's address, and the end. 0: the kernel resumes.
    pub resumption: (u64, u64),
}

impl Place {
    /// True if the program resumes contexts, and has their extended state.
    pub(super) fn is_resumed_by_program(&self) -> bool {
        self.resumption.0 != 0
    }

    /// True for an instruction among the last ones of a resumption.
    pub(super) fn is_resuming(&self, rip: u64) -> bool {
        let (begin, end) = self.resumption;
        (begin..end).contains(&rip)
    }
}

/// The part of a virtual core that only its thread's task sees.
pub struct Vcore {
    /// Its place by the program.
    pub(super) place: Place,
    /// Cycles between ticks; 0 for none.
    interval: u64,
    /// The time at which the next one is due, cycles; `u64::MAX` for never.
    due: u64,
    /// Since when a tick waits behind a mask, cycles.
    pub(super) waits_since: Option<u64>,
    /// Room for a context on its way.
    pub(super) room: Box<[u8]>,
}

impl Vcore {
    /// One without ticks; `room` bytes of registers and extended state will pass.
    pub(super) fn new(place: Place, room: usize) -> Vcore {
        Vcore { place, interval: 0, due: u64::MAX, waits_since: None, room: vec![0; room].into_boxed_slice() }
    }

    /// The time at which the next tick is due, cycles; `u64::MAX` for never.
    pub fn due(&self) -> u64 {
        self.due
    }

    /// True if a tick has come.
    pub fn is_due(&self) -> bool {
        self.due != u64::MAX && gyre_machine::now() >= self.due
    }

    /// Sets the time between ticks, ns; 0 stops them.
    pub(super) fn set_period(&mut self, ns: u64) {
        self.interval = ns_to_cycles(ns);
        self.due = if ns == 0 { u64::MAX } else { cycles_from_now(ns) };
    }

    /// Has a tick come at once.
    pub(super) fn call(&mut self) {
        self.due = gyre_machine::now();
    }

    /// Puts back a tick that could not be told: it was due at that time.
    pub(super) fn give_back(&mut self, due: u64) {
        self.due = due;
    }

    /// Takes the tick that has come; answers those that were missed before it.
    pub(super) fn take(&mut self) -> u64 {
        let now = gyre_machine::now();
        let late = now.saturating_sub(self.due);
        let Some(missed) = late.checked_div(self.interval) else {
            self.due = u64::MAX;
            return 0;
        };
        let steps = missed.saturating_add(1).saturating_mul(self.interval);
        self.due = self.due.saturating_add(steps);
        missed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(interval: u64, due: u64) -> Vcore {
        let place = Place { area: 8, entry: 1, stack: 16, limit_ns: 1, resumption: (0, 0) };
        Vcore { interval, due, ..Vcore::new(place, 0) }
    }

    #[test]
    fn ticks_that_are_missed_are_counted_and_left_out() {
        gyre_machine::set_virtual_time(1_000);
        let now = gyre_machine::now();
        let mut vcore = of(100, now);
        assert!(vcore.is_due());
        assert_eq!((vcore.take(), vcore.due), (0, now + 100));
        let mut late = of(100, now - 250);
        assert_eq!((late.take(), late.due), (2, now + 50));
        let mut once = of(0, now);
        assert_eq!((once.take(), once.due, once.is_due()), (0, u64::MAX, false));
    }
}
