//! Events that interrupts have left for each simulated core.

use crate::machine::{core_index, with_machine};
use gyre_platform::{CORES_MAX, Events};
use std::sync::atomic::Ordering;

/// Longest sleep of a core that plays in host time without a timer armed, ns: bounds the damage of a test's mistake.
const IDLE_NS_MAX: u64 = 10_000_000;

/// Wakes `core` from [`idle`] and sets its wake event. Harmless for the calling core.
pub fn wake_core(core: usize) {
    post_event(core, Events::WAKE);
}

/// Posts events on a core, as an interrupt would.
pub fn post_event(core: usize, bits: u64) {
    with_machine(|machine| {
        let (core, bits) = crate::online::translate(machine, core, bits);
        if machine.online.load(Ordering::Acquire) >> core & 1 == 0 && core < machine.core_count.load(Ordering::Relaxed)
        {
            return;
        }
        let core = &machine.cores[core];
        core.events.fetch_or(bits, Ordering::SeqCst);
        core.ring();
    });
}

/// Takes what interrupts have posted on this core since the last call.
pub fn take_events() -> Events {
    with_machine(|machine| {
        let core = &machine.cores[core_index()];
        // The look before the swap keeps the common case free of a locked instruction.
        let mut taken = match core.events.load(Ordering::SeqCst) {
            0 => 0,
            _ => core.events.swap(0, Ordering::SeqCst),
        };
        if crate::time::timer_expired(machine) {
            taken |= Events::TIMER;
        }
        Events(taken)
    })
}

/// True if [`take_events`] would return something.
pub fn events_pending(core: usize) -> bool {
    with_machine(|machine| {
        let state = &machine.cores[core.min(CORES_MAX - 1)];
        state.events.load(Ordering::SeqCst) != 0
    })
}

/// Lets pending interrupts in; returns with interrupts off.
pub fn interrupt_window() {}

/// Waits for an interrupt. In virtual time it returns at once: the simulator advances the clocks.
pub fn idle() {
    with_machine(|machine| {
        let core = &machine.cores[core_index()];
        if machine.virtual_time.load(Ordering::Relaxed) || events_pending(core_index()) {
            return;
        }
        let timer = core.timer.load(Ordering::Relaxed);
        core.wait(timer.saturating_sub(crate::now()).min(IDLE_NS_MAX));
    });
}

/// Ends the machine with an exit code.
pub fn end_instance(code: u8) -> ! {
    std::process::exit(i32::from(code))
}
