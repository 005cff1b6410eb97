//! The local APIC of each core: timer, wake-ups, end of interrupts (SDM vol. 3, chapter 11).
//!
//! With x2APIC its registers are model-specific ones, otherwise memory; register `r` is MSR `0x800 + r / 16` or offset `r`.
//!
//! Order: the boot core calls [`map`] once; each core calls [`start`]; then the boot core calibrates
//! ([`count_freely`], [`ticks`]) and chooses the timer's mode ([`set_timer_rate`]). Each core writes its own
//! controller only. Others are reached by [`wake_core`] within the instance and by hardware id outside of it.
//!
//! An interrupt sets a bit of the core's event word and says nothing else. So a wake-up too many is harmless, and a
//! timer may fire early. A zone behind a wall reaches its controller by calls that `zone/wall_apic.rs` checks.

use crate::core_local::{block_of, core_index, is_online, online, this_core};
use crate::instructions::{cpuid, rdmsr, rdtsc, wrmsr};
use crate::kernel_map;
use crate::user_entry::VECTOR_FIRST_EVENT;
use crate::zone::inside;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use gyre_platform::{Events, OutOfMemory};

const ID: u32 = 0x20;
const TASK_PRIORITY: u32 = 0x80;
const END_OF_INTERRUPT: u32 = 0xb0;
const SPURIOUS: u32 = 0xf0;
const COMMAND: u32 = 0x300;
const COMMAND_HIGH: u32 = 0x310;
const TIMER: u32 = 0x320;
const LINT0: u32 = 0x350;
const LINT1: u32 = 0x360;
const ERROR: u32 = 0x370;
const TIMER_INITIAL: u32 = 0x380;
const TIMER_CURRENT: u32 = 0x390;
const TIMER_DIVIDE: u32 = 0x3e0;

const MASKED: u32 = 1 << 16;
const APIC_BASE: u32 = 0x1b;
const TSC_DEADLINE: u32 = 0x6e0;
const VECTOR_TIMER: u32 = VECTOR_FIRST_EVENT as u32;
const VECTOR_WAKE: u32 = VECTOR_FIRST_EVENT as u32 + Events::WAKE.trailing_zeros();
const VECTOR_BELL: u32 = VECTOR_FIRST_EVENT as u32 + Events::BELL.trailing_zeros();
const VECTOR_LINK: u32 = VECTOR_FIRST_EVENT as u32 + Events::LINK.trailing_zeros();
/// Divides by 16: at QEMU's 1 GHz 16 ns resolution and 68 s of range.
const DIVIDE_BY_16: u32 = 3;

/// The address of the mapped registers; 0 with x2APIC.
static REGISTERS: AtomicU64 = AtomicU64::new(0);
/// Their physical address; 0 with x2APIC.
static REGISTERS_PA: AtomicU64 = AtomicU64::new(0);
/// Timer ticks per cycle, times 2^32; 0 if the timer compares with the time stamp counter itself.
static TICKS_PER_CYCLE: AtomicU64 = AtomicU64::new(0);
/// This instance's first core has turned its controller on.
static IS_ON: AtomicBool = AtomicBool::new(false);

#[inline]
fn write(register: u32, value: u32) {
    let base = REGISTERS.load(Ordering::Relaxed);
    if base == 0 {
        // SAFETY: x2APIC is on, and these registers are only written by their owner core.
        unsafe { wrmsr(0x800 + register / 16, u64::from(value)) };
    } else {
        // SAFETY: the page is mapped; each core sees its own APIC there.
        unsafe { ((base + u64::from(register)) as *mut u32).write_volatile(value) };
    }
}

#[inline]
fn read(register: u32) -> u32 {
    let base = REGISTERS.load(Ordering::Relaxed);
    if base == 0 {
        // SAFETY: as above.
        unsafe { rdmsr(0x800 + register / 16) as u32 }
    } else {
        // SAFETY: as above.
        unsafe { ((base + u64::from(register)) as *const u32).read_volatile() }
    }
}

/// The physical address of the registers; 0 with x2APIC.
pub(crate) fn registers_address() -> u64 {
    REGISTERS_PA.load(Ordering::Relaxed)
}

/// Finds out which kind there is and maps it. Boot core, once.
///
/// # Errors
/// [`OutOfMemory`].
pub(crate) fn map(pa: u64) -> Result<(), OutOfMemory> {
    // A zone whose controllers stand behind its wall reaches them by the registers of x2APIC, whatever the machine has.
    if cpuid(1, 0)[2] >> 21 & 1 == 0 && !inside::has_apic_by_call() {
        REGISTERS.store(kernel_map::map_device(pa, 4096)?, Ordering::Release);
        REGISTERS_PA.store(pa, Ordering::Release);
    }
    Ok(())
}

/// Turns this core's APIC on, with everything masked but what is set up later.
pub(crate) fn start() {
    let base = REGISTERS.load(Ordering::Relaxed);
    let enable = if base == 0 { 1 << 11 | 1 << 10 } else { 1 << 11 };
    // SAFETY: enables the APIC in the mode that was found.
    unsafe { wrmsr(APIC_BASE, rdmsr(APIC_BASE) | enable) };
    for register in [TIMER, LINT0, ERROR] {
        write(register, MASKED);
    }
    // An NMI by LINT1, as the firmware has it.
    write(LINT1, 0x400);
    write(TASK_PRIORITY, 0);
    write(TIMER_DIVIDE, DIVIDE_BY_16);
    write(SPURIOUS, 0x1ff);
    let core = this_core();
    core.apic_id.store(id(), Ordering::Release);
    core.end_of_interrupt.set(if base == 0 { 0 } else { base + u64::from(END_OF_INTERRUPT) });
    if TICKS_PER_CYCLE.load(Ordering::Relaxed) == 0 && crate::time::cycles_per_ms() != 0 {
        write(TIMER, 2 << 17 | VECTOR_TIMER);
    } else {
        write(TIMER, VECTOR_TIMER);
    }
    IS_ON.store(true, Ordering::Release);
}

/// The hardware id of this core.
pub(crate) fn id() -> u32 {
    if REGISTERS.load(Ordering::Relaxed) == 0 { read(ID) } else { read(ID) >> 24 }
}

/// The hardware id of this core, as the processor tells it before its controller is on.
pub(crate) fn initial_id() -> u32 {
    cpuid(1, 0)[1] >> 24
}

/// Lets the timer count down from its maximum without an interrupt, for calibration.
pub(crate) fn count_freely() {
    write(TIMER, MASKED);
    write(TIMER_DIVIDE, DIVIDE_BY_16);
    write(TIMER_INITIAL, u32::MAX);
}

/// Ticks since [`count_freely`].
pub(crate) fn ticks() -> u32 {
    u32::MAX - read(TIMER_CURRENT)
}

/// True if the timer can compare with the time stamp counter.
pub(crate) fn has_deadline_mode() -> bool {
    cpuid(1, 0)[2] >> 24 & 1 == 1
}

/// Chooses how the timer is driven: by ticks at this rate, or by deadlines of the time stamp counter if 0.
/// The write of the mode must be over before the first deadline is written (SDM vol. 3, 11.5.4.1), hence the fence.
pub(crate) fn set_timer_rate(ticks_per_cycle_shifted: u64) {
    write(TIMER_INITIAL, 0);
    TICKS_PER_CYCLE.store(ticks_per_cycle_shifted, Ordering::Release);
    write(TIMER, if ticks_per_cycle_shifted == 0 { 2 << 17 | VECTOR_TIMER } else { VECTOR_TIMER });
    crate::dma_fence();
}

/// Ticks of the timer per cycle, times 2^32; 0 if it has deadlines.
pub(crate) fn timer_rate() -> u64 {
    TICKS_PER_CYCLE.load(Ordering::Relaxed)
}

/// Arms the one-shot timer of this core; a deadline that has passed fires at once.
///
/// Deadlines beyond the counter's range (68 s in QEMU) fire early: the event says "look at the clock", not "the deadline is over".
#[inline]
pub fn set_timer(deadline_cycles: u64) {
    let rate = TICKS_PER_CYCLE.load(Ordering::Relaxed);
    if rate == 0 {
        // SAFETY: the core has deadline mode. 0 would disarm.
        unsafe { wrmsr(TSC_DEADLINE, deadline_cycles.max(1)) };
        return;
    }
    let cycles = deadline_cycles.saturating_sub(rdtsc());
    let ticks = (u128::from(cycles) * u128::from(rate)) >> 32;
    // Rounded up, so that the deadline is over when the event comes.
    write(TIMER_INITIAL, u32::try_from(ticks + 1).unwrap_or(u32::MAX));
}

/// Disarms the timer of this core.
#[inline]
pub fn clear_timer() {
    if TICKS_PER_CYCLE.load(Ordering::Relaxed) == 0 {
        // SAFETY: as in `set_timer`.
        unsafe { wrmsr(TSC_DEADLINE, 0) };
    } else {
        write(TIMER_INITIAL, 0);
    }
}

fn command(target: u32, command: u32) {
    if REGISTERS.load(Ordering::Relaxed) == 0 {
        // SAFETY: the x2APIC's command register; earlier stores must be visible before the other core is told.
        unsafe { core::arch::asm!("mfence", options(nostack)) };
        // SAFETY: as above.
        unsafe { wrmsr(0x800 + COMMAND / 16, u64::from(target) << 32 | u64::from(command)) };
        return;
    }
    while read(COMMAND) & 1 << 12 != 0 {
        core::hint::spin_loop();
    }
    write(COMMAND_HIGH, target << 24);
    write(COMMAND, command);
}

/// Wakes `core` from [`crate::idle`] and sets its wake event. Harmless for the calling core, and for one that has left the instance.
#[inline]
pub fn wake_core(core: usize) {
    if core == core_index() {
        crate::core_local::post_event_here(Events::WAKE);
    } else if is_online(core) {
        command(block_of(core).apic_id.load(Ordering::Relaxed), 0x4000 | VECTOR_WAKE);
    }
}

/// Sends a core with this hardware id, also of another instance, an interrupt. Nothing happens before this core's controller is on.
pub(crate) fn interrupt(apic_id: u32, vector: u32) {
    if IS_ON.load(Ordering::Relaxed) {
        command(apic_id, 0x4000 | vector);
    }
}

/// Sets the bell event of the core with this hardware id: of another instance too, which shares a page with this one.
pub fn ring_core(hardware_id: u32) {
    interrupt(hardware_id, VECTOR_BELL);
}

/// Sets the link event of the core with this hardware id, of an instance that has a link to this one.
pub fn ring_link(hardware_id: u32) {
    interrupt(hardware_id, VECTOR_LINK);
}

/// Lets this core's controller raise nothing by itself, for a core that leaves.
pub(crate) fn silence() {
    if IS_ON.load(Ordering::Relaxed) {
        clear_timer();
        write(TIMER, MASKED);
    }
}

/// Reads a register of this core's controller for a zone, which `wall_apic.rs` has checked.
pub(crate) fn read_for_zone(register: u32) -> u32 {
    if register == ID { id() } else { read(register) }
}

/// Writes one for a zone.
pub(crate) fn write_for_zone(register: u32, value: u32) {
    write(register, value);
}

/// Sends a command for a zone.
pub(crate) fn command_for_zone(target: u32, value: u32) {
    command(target, value);
}

/// True for the command by which an instance rings the core of another.
pub(crate) fn is_bell(value: u32) -> bool {
    value & !0x4000 == VECTOR_BELL
}

/// True for the command by which an instance rings the other end of a link.
pub(crate) fn is_link_bell(value: u32) -> bool {
    value & !0x4000 == VECTOR_LINK
}

/// Resets a core, so that it waits for [`send_startup`].
pub(crate) fn send_init(apic_id: u32) {
    command(apic_id, 0xc500);
    command(apic_id, 0x8500);
}

/// Starts a core in real mode at a page below 1 MiB.
pub(crate) fn send_startup(apic_id: u32, page: u64) {
    command(apic_id, 0x4600 | (page >> 12) as u32 & 0xff);
}

/// Interrupts this core as soon as it lets interrupts in. May be called in the middle of another command: it needs one register only.
pub(crate) fn interrupt_self() {
    write(COMMAND, 0x4_4000 | VECTOR_WAKE);
}

/// Sends a core an NMI.
pub(crate) fn send_nmi(core: usize) {
    send_nmi_to(block_of(core).apic_id.load(Ordering::Relaxed));
}

/// Sends the core with this hardware id an NMI.
pub(crate) fn send_nmi_to(apic_id: u32) {
    command(apic_id, 0x4400);
}

/// Stops all other cores of this instance by NMI. For a core that dies.
pub(crate) fn stop_other_cores() {
    if this_core().end_of_interrupt.get() == 0 && REGISTERS.load(Ordering::Relaxed) != 0 {
        return; // Too early: there are no others.
    }
    for core in online().filter(|core| *core != core_index()) {
        send_nmi(core);
    }
}
