//! The clock: the host's by default, virtual once [`set_virtual_time`] was called. A cycle is a nanosecond.
//!
//! In virtual time each core has a clock of its own, so that the simulator can let the core that is furthest behind go next
//! and the work of one core does not pass time on the others.

use crate::machine::{DISARMED, Machine, core_index, with_machine};
use gyre_platform::{CORES_MAX, ClockScale};
use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Returns the time stamp counter in cycles.
#[inline]
pub fn now() -> u64 {
    with_machine(|machine| {
        if !machine.virtual_time.load(Ordering::Relaxed) {
            return host_ns();
        }
        let tick = machine.tick_ns.load(Ordering::Relaxed);
        let clock = &machine.cores[core_index()].clock_ns;
        let now = clock.load(Ordering::Relaxed);
        if tick != 0 {
            clock.store(now + tick, Ordering::Relaxed);
        }
        now + tick
    })
}

/// The host's clock, from the time stamp counter if there is one: 10 ns instead of 25 per look, as on the real machine.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
fn host_ns() -> u64 {
    struct Scale {
        start: u64,
        /// Nanoseconds per 2^32 cycles.
        ns_per_4g: u64,
    }
    static SCALE: OnceLock<Scale> = OnceLock::new();
    let stamp = || {
        // SAFETY: every x86-64 processor has the instruction, and user programs may use it on all systems we test on.
        unsafe { core::arch::x86_64::_rdtsc() }
    };
    let scale = SCALE.get_or_init(|| {
        let (clock, start) = (Instant::now(), stamp());
        while clock.elapsed().as_millis() < 5 {
            std::hint::spin_loop();
        }
        let (ns, cycles) = (clock.elapsed().as_nanos(), stamp().saturating_sub(start).max(1));
        Scale { start, ns_per_4g: ((ns << 32) / u128::from(cycles)) as u64 }
    });
    let cycles = stamp().saturating_sub(scale.start);
    ((u128::from(cycles) * u128::from(scale.ns_per_4g)) >> 32) as u64
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
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

/// From cycles to clocks, for programs.
pub fn clock_scale() -> ClockScale {
    ClockScale {
        cycles_per_ms: cycles_per_ms(),
        ns_per_cycle: 1 << 32,
        base_ns: 1_700_000_000_000_000_000,
        tells_core: false,
    }
}

/// The moment at which virtual time begins by itself, ns. No test comes there by the host's clock, which begins with the process, so all that
/// was noted before lies in the past.
const VIRTUAL_START_NS: u64 = 3_600_000_000_000;

/// Switches this machine to virtual time, which begins at the same moment in each run; if it is virtual already, it goes on.
pub fn begin_virtual_time() {
    if !with_machine(|machine| machine.virtual_time.load(Ordering::Relaxed)) {
        set_virtual_time(VIRTUAL_START_NS);
    }
}

/// Switches this machine to virtual time and sets the clocks of all its cores.
pub fn set_virtual_time(ns: u64) {
    with_machine(|machine| {
        machine.virtual_time.store(true, Ordering::Relaxed);
        for core in &machine.cores {
            core.clock_ns.store(ns, Ordering::Relaxed);
        }
    });
}

/// Lets `ns` pass at each look at the virtual clock, so that code costs time in a simulation.
pub fn set_virtual_tick(ns: u64) {
    with_machine(|machine| machine.tick_ns.store(ns, Ordering::Relaxed));
}

/// Lets virtual time pass on this core: a handler's computing in a simulation. Nothing happens in host time.
pub fn advance(ns: u64) {
    with_machine(|machine| {
        let clock = &machine.cores[core_index()].clock_ns;
        clock.store(clock.load(Ordering::Relaxed).saturating_add(ns), Ordering::Relaxed);
    });
}

/// Sets the virtual clock of one core; clocks never go back.
pub fn advance_core_to(core: usize, ns: u64) {
    with_machine(|machine| {
        let clock = &machine.cores[core.min(CORES_MAX - 1)].clock_ns;
        clock.fetch_max(ns, Ordering::Relaxed);
    });
}

/// The virtual clock of a core, ns, without letting time pass.
pub fn virtual_clock(core: usize) -> u64 {
    with_machine(|machine| machine.cores[core.min(CORES_MAX - 1)].clock_ns.load(Ordering::Relaxed))
}

/// Arms the one-shot timer of this core; a deadline that has passed fires at once.
pub fn set_timer(deadline_cycles: u64) {
    let core = core_index();
    set_timer_of(core, deadline_cycles.min(DISARMED - 1));
    with_machine(|machine| machine.cores[core].timer_arms.fetch_add(1, Ordering::Relaxed));
}

/// How often timers of this machine were armed so far, on all cores: each costs an access to a device.
pub fn timer_arms() -> u64 {
    with_machine(|machine| machine.cores.iter().map(|core| core.timer_arms.load(Ordering::Relaxed)).sum())
}

/// Disarms the timer of this core.
pub fn clear_timer() {
    set_timer_of(core_index(), DISARMED);
}

fn set_timer_of(core: usize, deadline: u64) {
    with_machine(|machine| machine.cores[core].timer.store(deadline, Ordering::Relaxed));
}

/// The deadline armed on `core`, in cycles.
pub fn armed_timer(core: usize) -> Option<u64> {
    with_machine(|machine| {
        let deadline = machine.cores[core.min(CORES_MAX - 1)].timer.load(Ordering::Relaxed);
        (deadline != DISARMED).then_some(deadline)
    })
}

/// True once the timer of this core has expired; disarms it then.
pub(crate) fn timer_expired(machine: &Machine) -> bool {
    let timer = &machine.cores[core_index()].timer;
    let deadline = timer.load(Ordering::Relaxed);
    let expired = deadline != DISARMED && deadline <= now();
    if expired {
        timer.store(DISARMED, Ordering::Relaxed);
    }
    expired
}
