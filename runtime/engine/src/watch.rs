//! The cores watch each other: one that does not come back from a piece of work is asked to end it, then made to say where it is.
//!
//! A core that idles or runs a program is well however long that takes: whoever wants it interrupts it. In the kernel interrupts are off, so
//! each core notes where a piece of work began (`gyre_machine::work_mark`), and the others look at the notes twice a second, idle ones too.
//! After [`ASK_NS`] a core is asked: [`GRACE_NS`] after it has seen that at a safe point (a lock that is taken, a wait, an allocation), the
//! work ends by a panic at the next one with no lock held. A core that a hypervisor let stand still ends its work within that time. After [`SHOW_NS`] it gets an NMI, prints its trace and ends the machine. On a machine of one core nobody watches.

use crate::engine::Engine;
use crate::limits::{ASK_NS, GRACE_NS, GUARD_NS, LOOK_NS, SHOW_NS, UNREACHABLE_NS};
use alloc::string::String;
use core::cell::Cell;
use core::sync::atomic::Ordering;
use gyre_account::{ActivityId, current};
use gyre_machine::{CORES_MAX, core_index};

/// What a look at a core came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    /// It has begun something new since the last look, idles, or runs a program.
    Well,
    /// It is where it was.
    Slow,
    /// It has been there too long: it is asked to end its work.
    Asked,
    /// It did not take the question: it shall say where it is.
    Shown,
    /// It does not say.
    Unreachable,
}

/// What is known of another core.
#[derive(Clone, Copy, Default)]
struct Sight {
    mark: u64,
    /// How long it has been seen with this mark, ns.
    stuck_ns: u64,
}

impl Sight {
    /// Looks, `elapsed_ns` after the look before. A pause of the whole machine counts as two looks at most.
    fn look(&mut self, mark: u64, is_away: bool, elapsed_ns: u64) -> Verdict {
        if is_away || mark != self.mark || mark == 0 {
            *self = Sight { mark, stuck_ns: 0 };
            return Verdict::Well;
        }
        self.stuck_ns = self.stuck_ns.saturating_add(elapsed_ns.min(2 * LOOK_NS));
        match self.stuck_ns {
            UNREACHABLE_NS.. => Verdict::Unreachable,
            SHOW_NS.. => Verdict::Shown,
            ASK_NS.. => Verdict::Asked,
            _ => Verdict::Slow,
        }
    }
}

/// What a core knows of the others.
pub(crate) struct Watch {
    /// When it looks next, cycles.
    pub(crate) at: Cell<u64>,
    looked_at: Cell<u64>,
    /// The mark of this core's own work that it was asked to end, and when it saw that, cycles.
    seen: Cell<(u64, u64)>,
    sights: [Cell<Sight>; CORES_MAX],
}

impl Watch {
    pub(crate) fn new() -> Watch {
        Watch {
            at: Cell::new(0),
            looked_at: Cell::new(0),
            seen: Cell::new((0, 0)),
            sights: [const { Cell::new(Sight { mark: 0, stuck_ns: 0 }) }; CORES_MAX],
        }
    }

    /// True once the work with this mark has seen for so long that it shall end.
    fn is_grace_over(&self, mark: u64, now: u64, grace_cycles: u64) -> bool {
        let (of, since) = self.seen.get();
        if of != mark {
            self.seen.set((mark, now));
            return false;
        }
        now.saturating_sub(since) >= grace_cycles
    }
}

impl Engine {
    /// Looks at the other cores where it is time to; a simulation, in which one thread plays all, is not watched.
    pub(crate) fn watch_when_due(&'static self, now: u64) {
        let watch = &self.hot.here().watch;
        if self.cores > 1 && now >= watch.at.get() && !self.is_simulated.load(Ordering::Relaxed) {
            let elapsed_ns = self.ns(now.saturating_sub(watch.looked_at.replace(now)));
            watch.at.set(now.saturating_add(self.cycles(LOOK_NS)));
            (0..self.cores).filter(|&core| core != core_index()).for_each(|core| self.watch(core, elapsed_ns));
        }
    }

    fn watch(&self, core: usize, elapsed_ns: u64) {
        let (Some(sight), Some(inbox)) = (self.hot.here().watch.sights.get(core), self.inboxes.get(core)) else {
            return;
        };
        let mark = gyre_machine::work_mark_of(core);
        let mut seen = sight.get();
        let verdict = seen.look(mark, inbox.sleeper.seems_away(), elapsed_ns);
        sight.set(seen);
        match verdict {
            Verdict::Well | Verdict::Slow => {}
            Verdict::Asked => gyre_machine::ask_to_end(core, mark),
            Verdict::Shown => gyre_machine::show_stuck(core, mark),
            Verdict::Unreachable => gyre_machine::end_unreachable(core, mark),
        }
    }

    /// When a core that goes away (to idle, or to a program) must be back to look at the others; `None` where nobody needs it. Where all
    /// others idle, one may still wake up, and hang.
    pub(crate) fn next_watch(&self, now: u64) -> Option<u64> {
        if self.cores < 2 || self.is_simulated.load(Ordering::Relaxed) {
            return None;
        }
        let mut others = self.is_idle.iter().take(self.cores).enumerate().filter(|(core, _)| *core != core_index());
        let is_busy = others.any(|(_, is_idle)| !is_idle.load(Ordering::Relaxed));
        let pause_ns = if is_busy { LOOK_NS } else { GUARD_NS };
        Some(now.saturating_add(self.cycles(pause_ns)))
    }
}

/// A safe point of a core that was asked to end its work. Where that is still the work in hand, and nothing is held, it ends here.
pub(crate) fn end_work() {
    let Some(engine) = Engine::current() else {
        return;
    };
    let mark = gyre_machine::asked_to_end();
    let hot = engine.hot.here();
    if mark != gyre_machine::work_mark() || hot.depth.get() == 0 {
        return gyre_machine::forget_asked();
    }
    if gyre_object::locks_held() > 0 || engine.state.here().try_borrow_mut().is_err() {
        return;
    }
    let now = gyre_machine::now();
    if !hot.watch.is_grace_over(mark, now, engine.cycles(GRACE_NS)) {
        return;
    }
    gyre_machine::forget_asked();
    let ms = engine.ns(now.saturating_sub(mark)) / 1_000_000;
    let (activity, resource) = current();
    let (at, task) = (engine.resource_name(resource), hot.running.get());
    if activity == ActivityId::INFRASTRUCTURE {
        // Nobody but the machine would end for it; should it not come back, the NMI says so.
        log::warn!(target: "watch", "task {task} of the infrastructure at {at} has run for {ms} ms");
        return;
    }
    let name = engine.accounts.activities.info(activity).map_or_else(String::new, |info| info.name);
    panic!("task {task} of activity {} ({name}) at {at} overran its budget: {ms} ms without an end", activity.0);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks at a core with the same mark for so long.
    fn stay(sight: &mut Sight, ns: u64) -> Verdict {
        (0..ns / LOOK_NS).map(|_| sight.look(7, false, LOOK_NS)).last().unwrap_or(Verdict::Well)
    }

    #[test]
    fn a_core_that_stays_where_it_is_is_asked_then_shown_then_given_up() {
        let mut sight = Sight::default();
        assert_eq!(sight.look(7, false, LOOK_NS), Verdict::Well);
        assert_eq!(stay(&mut sight, ASK_NS - LOOK_NS), Verdict::Slow);
        assert_eq!(stay(&mut sight, LOOK_NS), Verdict::Asked);
        assert_eq!(stay(&mut sight, SHOW_NS - ASK_NS), Verdict::Shown);
        assert_eq!(stay(&mut sight, UNREACHABLE_NS - SHOW_NS), Verdict::Unreachable);
        assert_eq!(sight.look(8, false, LOOK_NS), Verdict::Well);
    }

    #[test]
    fn a_program_may_compute_and_a_core_may_idle_for_ever() {
        let mut sight = Sight::default();
        assert!((0..1000).all(|_| sight.look(7, true, LOOK_NS) == Verdict::Well));
        assert!((1..1000).all(|mark| sight.look(mark, false, LOOK_NS) == Verdict::Well));
    }

    #[test]
    fn work_that_goes_on_after_it_was_asked_has_a_grace() {
        let watch = Watch::new();
        assert!(!watch.is_grace_over(7, 100, 50), "a core that stood still sees the question for the first time");
        assert!(!watch.is_grace_over(7, 149, 50));
        assert!(watch.is_grace_over(7, 150, 50));
        assert!(!watch.is_grace_over(8, 200, 50), "another piece of work");
    }

    #[test]
    fn a_pause_of_the_whole_machine_ends_nothing() {
        let mut sight = Sight::default();
        sight.look(7, false, LOOK_NS);
        assert_eq!(sight.look(7, false, u64::MAX), Verdict::Asked);
    }
}
