//! What handlers put off to the end of the turn: a device's bell is rung once for all requests that were put into its ring together.

use crate::engine::Engine;
use crate::hot::Hot;
use core::cell::Cell;
use gyre_message::Late;

/// Most things put off at once on a core; what more there is is done at once.
const LATE_MAX: usize = 8;

/// What a core has put off.
pub(crate) struct LateWork {
    count: Cell<usize>,
    work: [Cell<Option<&'static dyn Late>>; LATE_MAX],
}

impl LateWork {
    pub(crate) const fn new() -> LateWork {
        LateWork { count: Cell::new(0), work: [const { Cell::new(None) }; LATE_MAX] }
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.count.get() == 0
    }

    /// Notes it, once however often it is put off; false where there is no room.
    fn put_off(&self, work: &'static dyn Late) -> bool {
        let count = self.count.get();
        let is_it = |noted: &Cell<Option<&'static dyn Late>>| {
            noted.get().is_some_and(|noted| core::ptr::addr_eq(core::ptr::from_ref(noted), core::ptr::from_ref(work)))
        };
        if self.work.iter().take(count).any(is_it) {
            return true;
        }
        let Some(place) = self.work.get(count) else {
            return false;
        };
        place.set(Some(work));
        self.count.set(count + 1);
        true
    }

    fn take(&self) -> Option<&'static dyn Late> {
        let last = self.count.get().checked_sub(1)?;
        self.count.set(last);
        self.work.get(last)?.take()
    }
}

impl Hot {
    /// Does what was put off. Whoever is served pays for it.
    #[cold]
    #[inline(never)]
    pub(crate) fn do_late(&self) {
        while let Some(work) = self.late.take() {
            work.do_late();
        }
    }
}

impl Engine {
    /// True where more of the turn is to come after this service, as far as is known.
    pub(crate) fn turn_goes_on(&self, queue: u32) -> bool {
        let state = self.state.here().borrow();
        let has_more = || !state.turn.waiting.is_empty() || state.queues.get(queue).is_some_and(|known| known.len > 0);
        state.turn.is_open && self.line().last() < state.turn.end && has_more()
    }

    /// Does what the turn before put off, where it ended before its time.
    #[inline(always)]
    pub(crate) fn do_late_of_turn(&self) {
        let hot = self.hot.here();
        if !hot.late.is_empty() && !self.state.here().borrow().turn.is_open {
            hot.do_late();
        }
    }

    /// Notes `work` for the end of what this core serves; false where it serves nothing, or has put off too much.
    pub(crate) fn put_off(&self, work: &'static dyn Late) -> bool {
        let hot = self.hot.here();
        hot.depth.get() > 0 && hot.late.put_off(work)
    }
}
