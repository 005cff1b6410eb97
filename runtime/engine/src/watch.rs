//! The cores watch each other: one that does not come back from a piece of work is asked to end it, then made to say its place.
//!
//! A core that idles or runs a program is well however long that takes: a core that wants it interrupts it. In the kernel interrupts are off, so
//! each core notes the time at which a piece of work began (`gyre_machine::work_mark`), and the others look at the notes twice a second, idle ones too.
//! After [`ASK_NS`] a core is asked. From then on its own time counts, not the clock ([`gyre_machine::OwnTime`]): it shows that it runs at each
//! safe point (a lock that is taken, a wait, an allocation), and by its answers to knocks (NMIs, which it takes whatever it does, if it runs), which
//! come every [`KNOCK_NS`]. After [`GRACE_NS`] of its own time and [`GRACE_POINTS`] safe points, or after [`LONG_GRACE_NS`], the work ends by a
//! panic at the next safe point with no lock held. A core that a hypervisor let stand still showed no sign meanwhile, and ends its work in its own
//! time; one that got moments only has passed few safe points.
//!
//! One that has answered knocks before [`PROOFS`] looks and is still there after [`SHOW_NS`] is really running: it prints its trace and ends the
//! machine. One that answers no knock at all may stand still: the console tells each [`TELL_NS`], and it ends the machine after [`UNREACHABLE_NS`].
//! A machine of one core has no watcher.

use crate::engine::Engine;
use crate::limits::{
    ASK_NS, GRACE_NS, GRACE_POINTS, GUARD_NS, KNOCK_NS, LONG_GRACE_NS, LOOK_NS, PROOFS, SHOW_NS, TELL_NS,
    UNREACHABLE_NS,
};
use alloc::string::String;
use core::cell::Cell;
use core::sync::atomic::Ordering;
use gyre_account::{ActivityId, current};
use gyre_machine::{CORES_MAX, core_index};

/// The outcome of a look at a core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    /// It has begun something new since the last look, idles, or runs a program.
    Well,
    /// It is in the piece of work of the last look.
    Slow,
    /// It has been there too long: it is asked to end its work, and to show that it runs.
    Asked,
    /// Like [`Asked`](Verdict::Asked), and it has answered nothing for another [`TELL_NS`].
    Told,
    /// It runs, and did not end its work: it shall say its place.
    Shown,
    /// It answers nothing.
    Unreachable,
}

/// The findings of a look at another core.
#[derive(Clone, Copy)]
struct Seen {
    mark: u64,
    /// It idles or runs a program.
    is_away: bool,
    /// Knocks that it has answered since the beginning.
    answers: u64,
}

/// The last look at another core.
#[derive(Clone, Copy, Default)]
struct Sight {
    mark: u64,
    /// How long it has been seen with this mark, ns.
    stuck_ns: u64,
    /// How long it has answered no knock with this mark, ns.
    silent_ns: u64,
    answers: u64,
    /// Looks with this mark before which it had answered a knock.
    proofs: u32,
}

impl Sight {
    /// Looks, `elapsed_ns` after the look before. A pause of the whole machine counts as two looks at most.
    fn look(&mut self, seen: Seen, elapsed_ns: u64) -> Verdict {
        let Seen { mark, is_away, answers } = seen;
        if is_away || mark != self.mark || mark == 0 {
            *self = Sight { mark, answers, ..Sight::default() };
            return Verdict::Well;
        }
        let elapsed_ns = elapsed_ns.min(2 * LOOK_NS);
        self.stuck_ns = self.stuck_ns.saturating_add(elapsed_ns);
        self.silent_ns = self.silent_ns.saturating_add(elapsed_ns);
        if answers != self.answers {
            self.answers = answers;
            self.silent_ns = 0;
            self.proofs = self.proofs.saturating_add(1);
        }
        let is_told = self.silent_ns / TELL_NS > self.silent_ns.saturating_sub(elapsed_ns) / TELL_NS;
        match self.stuck_ns {
            _ if self.silent_ns >= UNREACHABLE_NS => Verdict::Unreachable,
            SHOW_NS.. if self.proofs >= PROOFS => Verdict::Shown,
            ASK_NS.. if is_told => Verdict::Told,
            ASK_NS.. => Verdict::Asked,
            _ => Verdict::Slow,
        }
    }
}

/// A core's looks at the others.
pub(crate) struct Watch {
    /// When it looks next, cycles.
    pub(crate) at: Cell<u64>,
    looked_at: Cell<u64>,
    /// Cores that it has asked to end their work and knocks at, a bit each.
    asked: Cell<u64>,
    sights: [Cell<Sight>; CORES_MAX],
}

impl Watch {
    pub(crate) fn new() -> Watch {
        Watch {
            at: Cell::new(0),
            looked_at: Cell::new(0),
            asked: Cell::new(0),
            sights: [const { Cell::new(Sight { mark: 0, stuck_ns: 0, silent_ns: 0, answers: 0, proofs: 0 }) };
                CORES_MAX],
        }
    }
}

impl Engine {
    /// A simulation, in which one thread plays all cores, is not watched.
    fn has_watch(&self) -> bool {
        self.is_watched && !self.is_simulated.load(Ordering::Relaxed)
    }

    /// Looks at the other cores if it is time to.
    pub(crate) fn watch_when_due(&'static self, now: u64) {
        let watch = &self.hot.here().watch;
        if self.cores < 2 || now < watch.at.get() || !self.has_watch() {
            return;
        }
        let elapsed_ns = self.ns(now.saturating_sub(watch.looked_at.get()));
        if elapsed_ns >= LOOK_NS || watch.asked.get() == 0 {
            watch.looked_at.set(now);
            watch.asked.set(0);
            self.present().filter(|&core| core != core_index()).for_each(|core| self.watch(core, elapsed_ns));
        } else {
            self.knock_again();
        }
        let pause_ns = if watch.asked.get() == 0 { LOOK_NS } else { KNOCK_NS };
        watch.at.set(now.saturating_add(self.cycles(pause_ns)));
    }

    /// Knocks at the cores that are here and still in the work that they were asked to end.
    fn knock_again(&self) {
        let asked = &self.hot.here().watch.asked;
        let is_asked = |core: &usize| asked.get() >> core & 1 == 1;
        for core in self.present().filter(is_asked) {
            let mark = gyre_machine::work_mark_of(core);
            match gyre_machine::ran_since_asked(core, mark) {
                Some(_) => gyre_machine::knock(core),
                None => asked.set(asked.get() & !(1 << core)),
            }
        }
    }

    fn watch(&self, core: usize, elapsed_ns: u64) {
        let (Some(sight), Some(inbox)) = (self.hot.here().watch.sights.get(core), self.inboxes.get(core)) else {
            return;
        };
        let mark = gyre_machine::work_mark_of(core);
        let seen = Seen { mark, is_away: inbox.sleeper.seems_away(), answers: gyre_machine::knocks_answered_by(core) };
        let mut last = sight.get();
        let verdict = last.look(seen, elapsed_ns);
        sight.set(last);
        match verdict {
            Verdict::Well | Verdict::Slow => {}
            Verdict::Asked => self.ask_to_end(core, mark),
            Verdict::Told => {
                let seconds = last.silent_ns / 1_000_000_000;
                log::warn!(target: "watch", "core {core} has answered nothing for {seconds} s: the host may hold it back");
                self.ask_to_end(core, mark);
            }
            Verdict::Shown => gyre_machine::show_stuck(core, mark),
            Verdict::Unreachable => gyre_machine::end_unreachable(core, mark),
        }
    }

    fn ask_to_end(&self, core: usize, mark: u64) {
        gyre_machine::ask_to_end(core, mark);
        let asked = &self.hot.here().watch.asked;
        asked.set(asked.get() | 1 << core);
        gyre_machine::knock(core);
    }

    /// Returns true if another core has gone on with a piece of work for longer than it is let, of its own time: the instance does not get on
    /// as a whole. One that a hypervisor lets stand still is not stuck.
    pub fn has_stuck_core(&self) -> bool {
        let grace = self.cycles(GRACE_NS);
        let is_stuck = |core: usize| {
            let mark = gyre_machine::work_mark_of(core);
            let is_away = self.inboxes.get(core).is_none_or(|inbox| inbox.sleeper.seems_away());
            mark != 0 && !is_away && gyre_machine::ran_since_asked(core, mark).is_some_and(|ran| ran > grace)
        };
        // One that has left was in a piece of work, too.
        self.present().any(|core| core != core_index() && is_stuck(core))
    }

    /// Returns when a core that goes away (to idle, or to a program) must be back to look at the others; `None` if no core needs it. If all
    /// others idle, one may still wake up, and hang.
    pub(crate) fn next_watch(&self, now: u64) -> Option<u64> {
        if self.cores < 2 || !self.has_watch() {
            return None;
        }
        if self.hot.here().watch.asked.get() != 0 {
            return Some(now.saturating_add(self.cycles(KNOCK_NS)));
        }
        let mut others = self.present().filter(|&core| core != core_index());
        let is_busy = others.any(|core| self.is_idle.get(core).is_some_and(|is_idle| !is_idle.load(Ordering::Relaxed)));
        let pause_ns = if is_busy { LOOK_NS } else { GUARD_NS };
        Some(now.saturating_add(self.cycles(pause_ns)))
    }
}

/// A safe point of a core that was asked to end its work. If that is still the work in hand, and nothing is held, it ends here.
pub(crate) fn end_work() {
    let Some(engine) = Engine::current() else {
        return;
    };
    let mark = gyre_machine::asked_to_end();
    let hot = engine.hot.here();
    if mark != gyre_machine::work_mark() || hot.depth.get() == 0 {
        return gyre_machine::forget_asked();
    }
    let since = gyre_machine::pass_safe_point();
    if gyre_object::locks_held() > 0 || engine.state.here().try_borrow_mut().is_err() {
        return;
    }
    let grace_ns = if since.points < GRACE_POINTS { LONG_GRACE_NS } else { GRACE_NS };
    if since.ran < engine.cycles(grace_ns) {
        return;
    }
    gyre_machine::forget_asked();
    let ms = engine.ns(gyre_machine::now().saturating_sub(mark)) / 1_000_000;
    let (activity, resource) = current();
    let (at, task) = (engine.resource_name(resource), hot.running.get());
    if activity == ActivityId::INFRASTRUCTURE {
        // Only the machine could end for it; if it does not come back, the NMI says so.
        log::warn!(target: "watch", "task {task} of the infrastructure at {at} has run for {ms} ms");
        return;
    }
    let name = engine.accounts.activities.info(activity).map_or_else(String::new, |info| info.name);
    panic!("task {task} of activity {} ({name}) at {at} overran its budget: {ms} ms without an end", activity.0);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The doings of a core that is looked at.
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Does {
        Run,
        /// It stands still, or takes no NMI.
        Nothing,
    }

    /// Looks at a core with the same mark for so long.
    fn stay(sight: &mut Sight, does: Does, ns: u64) -> Verdict {
        looks(sight, does, ns).last().unwrap_or(Verdict::Well)
    }

    fn looks(sight: &mut Sight, does: Does, ns: u64) -> impl Iterator<Item = Verdict> {
        (0..ns / LOOK_NS).map(move |_| {
            // A knock came with the look before, if it was late already.
            let answers = sight.answers + u64::from(does == Does::Run && sight.stuck_ns >= ASK_NS);
            sight.look(Seen { mark: 7, is_away: false, answers }, LOOK_NS)
        })
    }

    fn begun() -> Sight {
        let mut sight = Sight::default();
        assert_eq!(sight.look(Seen { mark: 7, is_away: false, answers: 90 }, LOOK_NS), Verdict::Well);
        sight
    }

    #[test]
    fn a_core_that_stays_where_it_is_is_asked_then_shown() {
        let mut sight = begun();
        assert_eq!(stay(&mut sight, Does::Run, ASK_NS - LOOK_NS), Verdict::Slow);
        assert_eq!(stay(&mut sight, Does::Run, LOOK_NS), Verdict::Asked);
        assert_eq!(stay(&mut sight, Does::Run, SHOW_NS - ASK_NS - LOOK_NS), Verdict::Asked);
        assert_eq!(stay(&mut sight, Does::Run, LOOK_NS), Verdict::Shown);
        assert_eq!(sight.look(Seen { mark: 8, is_away: false, answers: 99 }, LOOK_NS), Verdict::Well);
    }

    #[test]
    fn a_core_that_stands_still_is_asked_only_until_it_counts_as_lost() {
        let mut sight = begun();
        assert_eq!(stay(&mut sight, Does::Nothing, UNREACHABLE_NS - LOOK_NS), Verdict::Asked);
        assert_eq!(stay(&mut sight, Does::Nothing, LOOK_NS), Verdict::Unreachable);
    }

    #[test]
    fn a_core_that_answers_nothing_is_told_of_now_and_then_and_one_that_runs_is_not() {
        let told =
            |does| looks(&mut begun(), does, UNREACHABLE_NS - LOOK_NS).filter(|look| *look == Verdict::Told).count();
        assert_eq!(told(Does::Nothing) as u64, UNREACHABLE_NS / TELL_NS - 1);
        assert_eq!(told(Does::Run), 0);
    }

    #[test]
    fn a_core_that_is_away_for_twenty_seconds_comes_back_and_goes_on() {
        let mut sight = begun();
        assert_ne!(stay(&mut sight, Does::Nothing, 20_000_000_000), Verdict::Unreachable);
        assert_eq!(stay(&mut sight, Does::Run, LOOK_NS), Verdict::Asked);
        assert_eq!(sight.look(Seen { mark: 8, is_away: false, answers: 91 }, LOOK_NS), Verdict::Well);
    }

    #[test]
    fn a_core_that_stood_still_for_long_and_comes_back_is_not_shown_at_once() {
        let mut sight = begun();
        assert_eq!(stay(&mut sight, Does::Nothing, 6 * SHOW_NS + 2 * LOOK_NS), Verdict::Asked);
        assert_eq!(stay(&mut sight, Does::Run, u64::from(PROOFS - 1) * LOOK_NS), Verdict::Asked);
        assert_eq!(stay(&mut sight, Does::Run, LOOK_NS), Verdict::Shown);
    }

    #[test]
    fn a_program_may_compute_and_a_core_may_idle_for_ever() {
        let mut sight = Sight::default();
        let away = Seen { mark: 7, is_away: true, answers: 0 };
        assert!((0..1000).all(|_| sight.look(away, LOOK_NS) == Verdict::Well));
        assert!((1..1000).all(|mark| sight.look(Seen { mark, is_away: false, answers: 0 }, LOOK_NS) == Verdict::Well));
    }

    #[test]
    fn a_pause_of_the_whole_machine_ends_nothing() {
        assert_eq!(begun().look(Seen { mark: 7, is_away: false, answers: 90 }, u64::MAX), Verdict::Asked);
    }
}
