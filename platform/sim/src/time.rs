//! The clock: the host's by default, virtual once [`set_virtual_time`] was called. A cycle is a nanosecond.

use std::cell::Cell;
use std::sync::OnceLock;
use std::time::Instant;

thread_local! {
    static VIRTUAL_NS: Cell<Option<u64>> = const { Cell::new(None) };
    static TIMERS: Cell<[Option<u64>; gyre_platform::CORES_MAX]> = const { Cell::new([None; gyre_platform::CORES_MAX]) };
}

/// Returns the time stamp counter in cycles.
pub fn now() -> u64 {
    VIRTUAL_NS.get().unwrap_or_else(host_ns)
}

fn host_ns() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// Cycles of the time stamp counter in a millisecond.
pub fn cycles_per_ms() -> u64 {
    1_000_000
}

/// Nanoseconds since 1970.
pub fn wall_clock_ns() -> u64 {
    1_700_000_000_000_000_000 + now()
}

/// Switches this thread's clock to virtual time and sets it.
pub fn set_virtual_time(ns: u64) {
    VIRTUAL_NS.set(Some(ns));
}

/// Arms the one-shot timer of this core; a deadline that has passed fires at once.
pub fn set_timer(deadline_cycles: u64) {
    set_timer_of(crate::core_index(), Some(deadline_cycles));
}

/// Disarms the timer of this core.
pub fn clear_timer() {
    set_timer_of(crate::core_index(), None);
}

fn set_timer_of(core: usize, deadline: Option<u64>) {
    let mut timers = TIMERS.get();
    timers[core] = deadline;
    TIMERS.set(timers);
}

/// The deadline armed on `core`, in cycles.
pub fn armed_timer(core: usize) -> Option<u64> {
    TIMERS.get()[core]
}

/// True once the timer of `core` has expired; disarms it then.
pub(crate) fn timer_expired(core: usize) -> bool {
    let expired = armed_timer(core).is_some_and(|deadline| deadline <= now());
    if expired {
        set_timer_of(core, None);
    }
    expired
}
