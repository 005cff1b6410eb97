//! Since when each simulated core is in one piece of work.

use crate::machine::{Machine, core_index, with_machine};
use gyre_platform::CORES_MAX;
use std::sync::atomic::Ordering;

/// Notes that this core begins a piece of work.
#[inline]
pub fn mark_work(now_cycles: u64) {
    with_machine(|machine| machine.cores[core_index()].work_mark.store(now_cycles, Ordering::Relaxed));
}

/// When this core's piece of work began: the last [`mark_work`] or return from a program, in cycles; 0 before the first.
#[inline]
pub fn work_mark() -> u64 {
    work_mark_of(core_index())
}

/// The same of any core.
pub fn work_mark_of(core: usize) -> u64 {
    with_machine(|machine| of(machine, core).work_mark.load(Ordering::Relaxed))
}

/// Asks a core to end the piece of work that has this mark.
pub fn ask_to_end(core: usize, mark: u64) {
    with_machine(|machine| of(machine, core).asked_to_end.store(mark, Ordering::Release));
}

/// The mark of the work that this core was asked to end; 0 for none.
#[inline]
pub fn asked_to_end() -> u64 {
    with_machine(|machine| of(machine, core_index()).asked_to_end.load(Ordering::Relaxed))
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

/// A place where the work in hand may be given up, if the core was asked to.
#[inline]
pub fn safe_point() {
    if asked_to_end() != 0
        && let Some(hook) = with_machine(|machine| machine.end_hook.get().copied())
    {
        hook();
    }
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
