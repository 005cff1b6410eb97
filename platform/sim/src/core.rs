//! Simulated cores: which one this thread plays, and what interrupts have left for each.

use gyre_platform::{CORES_MAX, Events};
use std::cell::Cell;

thread_local! {
    static CURRENT: Cell<usize> = const { Cell::new(0) };
    static COUNT: Cell<usize> = const { Cell::new(1) };
    static EVENTS: Cell<[u64; CORES_MAX]> = const { Cell::new([0; CORES_MAX]) };
}

/// The index of the core that runs this code.
pub fn core_index() -> usize {
    CURRENT.get()
}

/// How many cores this instance has.
pub fn core_count() -> usize {
    COUNT.get()
}

/// Makes this thread play `core` from now on.
pub fn select_core(core: usize) {
    CURRENT.set(core.min(CORES_MAX - 1));
}

/// Sets the number of cores of the simulated machine.
pub fn set_core_count(cores: usize) {
    COUNT.set(cores.clamp(1, CORES_MAX));
}

/// Wakes `core` from [`idle`] and sets its wake event. Harmless for the calling core.
pub fn wake_core(core: usize) {
    post_event(core, Events::WAKE);
}

/// Posts events on a core, as an interrupt would.
pub fn post_event(core: usize, bits: u64) {
    let mut events = EVENTS.get();
    events[core] |= bits;
    EVENTS.set(events);
}

/// Takes what interrupts have posted on this core since the last call.
pub fn take_events() -> Events {
    let core = core_index();
    let mut events = EVENTS.get();
    let mut taken = std::mem::take(&mut events[core]);
    EVENTS.set(events);
    if crate::time::timer_expired(core) {
        taken |= Events::TIMER;
    }
    Events(taken)
}

/// Lets pending interrupts in; returns with interrupts off.
pub fn interrupt_window() {}

/// Waits for an interrupt. On a host it returns at once: the simulator advances the time.
pub fn idle() {
    std::thread::yield_now();
}

/// Ends the machine with an exit code.
pub fn shut_down(code: u8) -> ! {
    std::process::exit(i32::from(code))
}
