//! Work that handlers put off to the end of the turn: a device's bell is rung once for all requests that were put into its ring together, and
//! another core is interrupted when no lock is held here that the woken thread may want.

use crate::engine::Engine;
use crate::hot::Hot;
use core::cell::Cell;
use gyre_machine::CORES_MAX;
use gyre_message::Late;

/// Most things put off at once on a core; what more there is is done at once.
const LATE_MAX: usize = 8;

/// Bits of the word that count the work; above them is a bit for each core to interrupt.
const COUNT_BITS: usize = 8;
const COUNT: usize = (1 << COUNT_BITS) - 1;
const _: () = assert!(LATE_MAX <= COUNT && COUNT_BITS + CORES_MAX <= usize::BITS as usize);

/// Work that a core has put off.
pub(crate) struct LateWork {
    /// How much work, and which cores are to be interrupted: one word, so that one look says whether there is anything.
    pending: Cell<usize>,
    work: [Cell<Option<&'static dyn Late>>; LATE_MAX],
}

impl LateWork {
    pub(crate) const fn new() -> LateWork {
        LateWork { pending: Cell::new(0), work: [const { Cell::new(None) }; LATE_MAX] }
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.pending.get() == 0
    }

    /// Notes a core that is to be interrupted.
    pub(crate) fn note_nudge(&self, core: usize) {
        self.pending.set(self.pending.get() | 1 << (COUNT_BITS + core));
    }

    /// Takes the cores that are to be interrupted, a bit each.
    fn take_nudges(&self) -> usize {
        let pending = self.pending.get();
        self.pending.set(pending & COUNT);
        pending >> COUNT_BITS
    }

    /// Notes it, once however often it is put off; false if there is no room.
    fn put_off(&self, work: &'static dyn Late) -> bool {
        let count = self.pending.get() & COUNT;
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
        self.pending.set(self.pending.get() + 1);
        true
    }

    fn take(&self) -> Option<&'static dyn Late> {
        let last = (self.pending.get() & COUNT).checked_sub(1)?;
        self.pending.set(self.pending.get() - 1);
        self.work.get(last)?.take()
    }
}

impl Hot {
    /// Does the work that was put off. The activity that is served pays for it.
    #[cold]
    #[inline(never)]
    pub(crate) fn do_late(&self) {
        while let Some(work) = self.late.take() {
            work.do_late();
        }
        let cores = self.late.take_nudges();
        if let (1.., Some(engine)) = (cores, Engine::current()) {
            crate::bits::ones(cores as u64).for_each(|core| engine.interrupt(core as usize));
        }
    }

    /// Does what was put off, if anything was.
    #[inline]
    pub(crate) fn finish_late(&self) {
        if !self.late.is_empty() {
            self.do_late();
        }
    }
}

impl Engine {
    /// Returns true if more of the turn is to come after this service, as far as is known.
    pub(crate) fn turn_goes_on(&self, queue: u32) -> bool {
        let state = self.state.here().borrow();
        let has_more = || !state.turn.waiting.is_empty() || state.queues.get(queue).is_some_and(|known| known.len > 0);
        state.turn.is_open && self.line().last() < state.turn.end && has_more()
    }

    /// Does the work that the turn before put off, if that ended before its time.
    #[inline(always)]
    pub(crate) fn do_late_of_turn(&self) {
        let hot = self.hot.here();
        if !hot.late.is_empty() && !self.state.here().borrow().turn.is_open {
            hot.do_late();
        }
    }

    /// Notes `work` for the end of what this core serves; false if it serves nothing, or has put off too much.
    pub(crate) fn put_off(&self, work: &'static dyn Late) -> bool {
        let hot = self.hot.here();
        hot.depth.get() > 0 && hot.late.put_off(work)
    }
}
