//! The clock: the time stamp counter, measured against a timer of known rate at boot.
//!
//! All times of the kernel are cycles of this counter; nanoseconds are made of them by one multiplication. The rate comes, in this order, from
//! the command line, the hypervisor, the PIT and the local timer of an emulator. The local timer is measured against the counter in its turn,
//! unless it compares with the counter itself. The wall clock is read once, from the battery-backed clock, and goes on with the counter.
//!
//! A zone measures nothing: its supervisor has, and all cores of the machine share one time. [`follow`] takes the rates and the wall clock from
//! the plan.

use crate::apic;
use crate::instructions::{cpuid, inb, outb, rdtsc};
use crate::rate::plausible;
use core::sync::atomic::{AtomicU64, Ordering};
use gyre_platform::{ClockScale, ZonePlan};

static CYCLES_PER_MS: AtomicU64 = AtomicU64::new(0);
static BOOT_CYCLES: AtomicU64 = AtomicU64::new(0);
/// Wall clock at cycle 0, in nanoseconds since 1970.
static WALL_CLOCK_BASE_NS: AtomicU64 = AtomicU64::new(0);
/// Nanoseconds per cycle, times 2^32.
static NS_PER_CYCLE: AtomicU64 = AtomicU64::new(0);

/// Rate of the PIT (Intel 8254).
const PIT_HZ: u64 = 1_193_182;
const PIT_CHANNEL_2: u16 = 0x42;
const PIT_COMMAND: u16 = 0x43;
const PIT_GATE: u16 = 0x61;
/// A measurement spans so many PIT ticks: about 10 ms.
const WINDOW_TICKS: u64 = 11_932;
/// Rate of the local APIC timer in QEMU and KVM, before its divider.
const VIRTUAL_APIC_HZ: u64 = 1_000_000_000;

/// Returns the time stamp counter in cycles.
#[inline(always)]
pub fn now() -> u64 {
    rdtsc()
}

/// Cycles of the time stamp counter in a millisecond.
#[inline(always)]
pub fn cycles_per_ms() -> u64 {
    CYCLES_PER_MS.load(Ordering::Relaxed)
}

/// Nanoseconds since 1970: the hardware clock of boot time (UTC, to the second) plus the time since.
pub fn wall_clock_ns() -> u64 {
    WALL_CLOCK_BASE_NS.load(Ordering::Relaxed) + cycles_to_ns(rdtsc())
}

/// From cycles to clocks, for programs. They do not learn what [`set_wall_clock_ns`] changes later.
pub fn clock_scale() -> ClockScale {
    ClockScale {
        cycles_per_ms: CYCLES_PER_MS.load(Ordering::Relaxed),
        ns_per_cycle: NS_PER_CYCLE.load(Ordering::Relaxed),
        base_ns: WALL_CLOCK_BASE_NS.load(Ordering::Relaxed),
        tells_core: crate::user::tells_core(),
    }
}

/// Sets the wall clock, for a loader or protocol that knows better than the hardware clock.
pub fn set_wall_clock_ns(ns_since_1970: u64) {
    WALL_CLOCK_BASE_NS.store(ns_since_1970.saturating_sub(cycles_to_ns(rdtsc())), Ordering::Relaxed);
}

fn cycles_to_ns(cycles: u64) -> u64 {
    ((u128::from(cycles) * u128::from(NS_PER_CYCLE.load(Ordering::Relaxed))) >> 32) as u64
}

/// Microseconds since the kernel's first lines, for the log; 0 before the clock is known.
pub(crate) fn microseconds_since_boot() -> u64 {
    cycles_to_ns(rdtsc() - BOOT_CYCLES.load(Ordering::Relaxed)) / 1000
}

/// Remembers when the kernel began.
pub(crate) fn mark_boot() {
    BOOT_CYCLES.store(rdtsc(), Ordering::Relaxed);
}

/// Cycles at which the kernel began.
pub fn boot_cycles() -> u64 {
    BOOT_CYCLES.load(Ordering::Relaxed)
}

/// Measures the time stamp counter and the local timer. `told_khz` is what the command line says, a plausible rate.
///
/// # Panics
/// If no timer of known rate is found and the command line does not help.
pub(crate) fn calibrate(told_khz: Option<u64>) {
    let khz = told_khz
        .or_else(hypervisor_khz)
        .or_else(against_pit)
        .or_else(against_virtual_apic)
        .expect("no timer to measure the clock against: give tsc_khz= on the command line");
    set_scale(khz);
    let rate = if apic::has_deadline_mode() { 0 } else { apic_ticks_per_cycle(khz) };
    apic::set_timer_rate(rate);
    WALL_CLOCK_BASE_NS.store(crate::rtc::seconds_since_1970() * 1_000_000_000, Ordering::Relaxed);
    set_wall_clock_ns(WALL_CLOCK_BASE_NS.load(Ordering::Relaxed));
}

/// Follows a supervisor's plan, whose numbers are plausible: one time stamp counter and one kind of timer for all instances.
pub(crate) fn follow(plan: &ZonePlan) {
    set_scale(plan.cycles_per_ms);
    if plan.timer_rate == 0 && !apic::has_deadline_mode() {
        crate::power::refuse("the zone's plan says that the local timer has deadlines, and it has none");
    }
    apic::set_timer_rate(plan.timer_rate);
    WALL_CLOCK_BASE_NS.store(plan.wall_clock_base_ns, Ordering::Relaxed);
}

fn set_scale(khz: u64) {
    CYCLES_PER_MS.store(khz, Ordering::Relaxed);
    NS_PER_CYCLE.store((1_000_000u64 << 32) / khz, Ordering::Relaxed);
}

/// Returns the rate of the local timer in ticks per cycle, times 2^32; 0 if it has deadlines. For the plan of another instance.
pub fn timer_rate() -> u64 {
    apic::timer_rate()
}

/// The leaf in which KVM and VMware tell the rate.
fn hypervisor_khz() -> Option<u64> {
    let limit = cpuid(0x4000_0000, 0)[0];
    let khz = if limit >= 0x4000_0010 { u64::from(cpuid(0x4000_0010, 0)[0]) } else { 0 };
    plausible(khz)
}

/// Two measurements that agree within 1 %, or the lower of four: a core that lost time while it read errs upward.
fn against_pit() -> Option<u64> {
    let mut least = u64::MAX;
    for round in 0..4 {
        let khz = measure_pit()?;
        let agrees = khz.abs_diff(least) < khz / 100;
        least = least.min(khz);
        if round > 0 && agrees {
            break;
        }
    }
    plausible(least)
}

/// A reading of a timer and the cycle in the middle of it; the narrowest of several.
fn sample(read: impl Fn() -> u64) -> (u64, u64) {
    let mut best = (u64::MAX, 0, 0);
    for _ in 0..5 {
        let before = rdtsc();
        let value = read();
        let width = rdtsc() - before;
        if width < best.0 {
            best = (width, value, before + width / 2);
        }
    }
    (best.1, best.2)
}

fn measure_pit() -> Option<u64> {
    let read = || {
        // SAFETY: latches and reads channel 2, which nobody else uses.
        unsafe {
            outb(PIT_COMMAND, 0x80);
            u64::from(inb(PIT_CHANNEL_2)) | u64::from(inb(PIT_CHANNEL_2)) << 8
        }
    };
    // SAFETY: gate on, speaker off; channel 2 counts down from 0xffff in mode 0.
    unsafe {
        outb(PIT_GATE, inb(PIT_GATE) & !2 | 1);
        outb(PIT_COMMAND, 0xb0);
        outb(PIT_CHANNEL_2, 0xff);
        outb(PIT_CHANNEL_2, 0xff);
    }
    let (first, first_cycles) = sample(read);
    let mut turns = 0;
    while first.wrapping_sub(read()) & 0xffff < WINDOW_TICKS {
        turns += 1;
        // A machine without the timer, or without its gate (microvm): about a second of reads.
        if turns > 2_000_000 || rdtsc() - first_cycles > 2_000_000_000 {
            return None;
        }
    }
    let (last, last_cycles) = sample(read);
    let ticks = first.checked_sub(last).filter(|ticks| (WINDOW_TICKS..0xffff).contains(ticks))?;
    Some((last_cycles - first_cycles) * PIT_HZ / ticks / 1000)
}

/// In QEMU and KVM the local timer runs at a fixed rate.
fn against_virtual_apic() -> Option<u64> {
    if cpuid(1, 0)[2] >> 31 & 1 == 0 {
        return None;
    }
    let (ticks, cycles) = run_apic_timer(|ticks, _| ticks >= VIRTUAL_APIC_HZ / 16 / 50);
    plausible(cycles * (VIRTUAL_APIC_HZ / 16) / ticks.max(1) / 1000)
}

fn run_apic_timer(enough: impl Fn(u64, u64) -> bool) -> (u64, u64) {
    let read = || u64::from(apic::ticks());
    apic::count_freely();
    let (first, first_cycles) = sample(read);
    while !enough(read() - first, rdtsc() - first_cycles) {
        core::hint::spin_loop();
    }
    let (last, last_cycles) = sample(read);
    (last - first, last_cycles - first_cycles)
}

fn apic_ticks_per_cycle(khz: u64) -> u64 {
    let (ticks, cycles) = run_apic_timer(|_, cycles| cycles >= 5 * khz);
    assert!(ticks > 0, "the local timer does not count");
    (ticks << 32) / cycles.max(1)
}
