//! Since when each simulated core is in one piece of work, and how many turns are left to that.

use crate::machine::{Machine, core_index, with_machine};
use gyre_platform::own_time::SinceAsked;
use gyre_platform::{CORES_MAX, WORK_TURNS};
use std::sync::atomic::Ordering;

/// Notes that this core begins a piece of work, which has all its turns.
#[inline]
pub fn mark_work(now_cycles: u64) {
    with_machine(|machine| of(machine, core_index()).work_mark.store(now_cycles, Ordering::Relaxed));
    replace_turns(WORK_TURNS);
}

/// Takes a turn of the piece of work in hand; false if none is left. A work that nobody marked has no end of turns.
#[inline]
pub fn take_turn() -> bool {
    let left = replace_turns(0);
    if left > 0 {
        replace_turns(left - 1);
        return true;
    }
    failure_point();
    work_mark() == 0
}

/// How many turns are left.
pub fn turns_left() -> u32 {
    with_machine(|machine| of(machine, core_index()).turns.load(Ordering::Relaxed))
}

/// Sets how many turns are left; answers how many were.
#[inline]
pub fn replace_turns(turns: u32) -> u32 {
    with_machine(|machine| of(machine, core_index()).turns.swap(turns, Ordering::Relaxed))
}

/// When this core's piece of work began: the last [`mark_work`] or return from a program, in cycles; 0 before the first.
#[inline]
pub fn work_mark() -> u64 {
    work_mark_of(core_index())
}

/// When the piece of work of any core began.
pub fn work_mark_of(core: usize) -> u64 {
    with_machine(|machine| of(machine, core).work_mark.load(Ordering::Relaxed))
}

/// Asks a core to end the piece of work that has this mark.
pub fn ask_to_end(core: usize, mark: u64) {
    with_machine(|machine| {
        let core = of(machine, core);
        if core.asked_to_end.swap(mark, Ordering::AcqRel) != mark {
            core.own_time.ask();
        }
    });
}

/// The mark of the work that this core was asked to end; 0 for none.
#[inline]
pub fn asked_to_end() -> u64 {
    with_machine(|machine| of(machine, core_index()).asked_to_end.load(Ordering::Relaxed))
}

/// How long a core has run since it was asked to end the work with this mark, cycles; none if it was not.
pub fn ran_since_asked(core: usize, mark: u64) -> Option<u64> {
    with_machine(|machine| {
        let core = of(machine, core);
        (core.asked_to_end.load(Ordering::Acquire) == mark).then(|| core.own_time.since_asked())
    })
}

/// This core passes a safe point of work that was asked to end; answers what it has done since.
pub fn pass_safe_point() -> SinceAsked {
    let (now, cycles_per_ms) = (crate::now(), crate::cycles_per_ms());
    with_machine(|machine| of(machine, core_index()).own_time.pass(now, cycles_per_ms))
}

/// This core runs.
fn show_sign() {
    let (now, cycles_per_ms) = (crate::now(), crate::cycles_per_ms());
    with_machine(|machine| of(machine, core_index()).own_time.sign(now, cycles_per_ms));
}

/// Answers a knock on this core, as an NMI does on the machine; a test calls it in the middle of work.
pub fn answer_knock() {
    with_machine(|machine| of(machine, core_index()).knocks.fetch_add(1, Ordering::Relaxed));
    show_sign();
}

/// Forgets that this core was asked.
pub fn forget_asked() {
    ask_to_end(core_index(), 0);
}

/// Sets what is called at safe points of a core that was asked to end its work; the first one counts.
pub fn set_end_hook(hook: fn()) {
    with_machine(|machine| {
        let _ = machine.end_hook.set(hook);
    });
}

/// A point at which the work in hand may fail, with nothing open: if the core was asked to end it. A host's stacks are watched by the host.
#[inline]
pub fn failure_point() {
    if asked_to_end() != 0
        && let Some(hook) = with_machine(|machine| machine.end_hook.get().copied())
    {
        hook();
    }
}

/// Has a core show that it runs. A thread that plays a core cannot be interrupted; it is taken for one that runs.
pub fn knock(core: usize) {
    with_machine(|machine| of(machine, core).knocks.fetch_add(1, Ordering::Relaxed));
}

/// Knocks that a core has answered.
pub fn knocks_answered_by(core: usize) -> u64 {
    with_machine(|machine| of(machine, core).knocks.load(Ordering::Relaxed))
}

/// Ends the test: a thread that plays a core cannot be interrupted.
///
/// # Panics
/// Always.
pub fn show_stuck(core: usize, mark: u64) {
    end_unreachable(core, mark)
}

/// Ends the test.
///
/// # Panics
/// Always.
pub fn end_unreachable(core: usize, mark: u64) -> ! {
    panic!("core {core} has been in one piece of work since {mark}")
}

fn of(machine: &Machine, core: usize) -> &crate::machine::CoreState {
    &machine.cores[core.min(CORES_MAX - 1)]
}
