//! The debug registers of the core (SDM vol. 3, 17.2): breakpoints of the program that runs, and why a debug exception came.
//!
//! * A core notes whose breakpoints it has ([`CoreBlock::watches`]), and changes the registers only as programs change. Without any, entering a
//!   program costs a comparison.
//! * The kernel touches memory of programs by addresses of its own, so breakpoints may stay loaded while it works. They are out before anything else
//!   runs at addresses that programs may have: a guest, the parking loop ([`rest`]).
//! * A program may have its debug exception come in the kernel: at the first instruction behind a system call, if it loads a watched word into its
//!   stack segment before. It is acknowledged, and that is all.
//! * A step is taken without the breakpoints on data. The processor raises one exception for both causes, the emulator one after the other: the
//!   second comes before the first instruction behind the first, on the same stack, and what the first one has saved there is gone. A program can
//!   still have that happen if it sets the trap flag itself. It has lost its place then: it traps at address 0 ([`acknowledge`]).
//!
//! A zone behind walls has no breakpoints: its supervisor ends it if it touches DR0 to DR3.

use crate::core_local::{CoreBlock, this_core};
use crate::exception::KernelFrame;
use crate::zone::inside;
use alloc::boxed::Box;
use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering};
use gyre_platform::{BREAKPOINT_SLOTS, Breakpoints, causes};

/// DR6 without a cause; causes are ones, but for some that this layer does not know.
const STATUS_RESET: u64 = 0xffff_0ff0;
/// The vector of debug exceptions.
const DEBUG: u64 = 1;
/// No breakpoints, in [`CoreBlock::watches`].
const NONE: u64 = 0;

/// Identities are even: the lowest bit is for the [`Way`].
static NEXT_IDENTITY: AtomicU64 = AtomicU64::new(NONE + 2);

/// The way in which a program is entered.
#[derive(Clone, Copy)]
#[repr(u64)]
pub(crate) enum Way {
    Runs = 0,
    /// It traps behind its next instruction.
    Steps = 1,
}

/// Breakpoints of a thread, with a number that no others ever have.
pub(crate) struct Watches {
    identity: u64,
    breakpoints: Breakpoints,
}

impl Watches {
    /// Keeps breakpoints for a thread; `None` if there are none, or the machine has none.
    pub(crate) fn keep(breakpoints: Breakpoints) -> Option<Box<Watches>> {
        let identity = || NEXT_IDENTITY.fetch_add(2, Ordering::Relaxed);
        let is_kept = has_breakpoints() && !breakpoints.is_empty();
        is_kept.then(|| Box::new(Watches { identity: identity(), breakpoints }))
    }

    /// The breakpoints.
    pub(crate) fn breakpoints(&self) -> Breakpoints {
        self.breakpoints
    }
}

/// True if programs may have breakpoints of the processor.
pub fn has_breakpoints() -> bool {
    !inside::is_walled()
}

/// Forgets what the firmware, or an instance before this one, left on this core. A zone behind walls may touch these two.
pub(crate) fn start() {
    write_control(Breakpoints::NONE.control());
    take_status();
    this_core().watches.set(NONE);
}

/// Has this core have the breakpoints of the program that it enters, those on instructions only if that takes a step.
#[inline(always)]
pub(crate) fn load(core: &CoreBlock, watches: Option<&Watches>, way: Way) {
    if core.watches.get() != watches.map_or(NONE, |watches| watches.identity | way as u64) {
        change(core, watches, way);
    }
}

#[cold]
fn change(core: &CoreBlock, watches: Option<&Watches>, way: Way) {
    rest();
    let Some(Watches { identity, breakpoints }) = watches else { return };
    let breakpoints = match way {
        Way::Runs => *breakpoints,
        Way::Steps => breakpoints.of_step(),
    };
    // First, for an NMI that takes the core meanwhile.
    core.watches.set(identity | way as u64);
    write_addresses(breakpoints.addresses());
    take_status();
    write_control(breakpoints.control());
}

/// Takes the breakpoints out of this core. Callable in any state.
#[inline]
pub(crate) fn rest() {
    let core = this_core();
    if core.watches.get() != NONE {
        write_control(Breakpoints::NONE.control());
        write_addresses(Breakpoints::NONE.addresses());
        core.watches.set(NONE);
    }
}

/// Returns the causes of the debug exception of a program, and forgets them. The processor may also name breakpoints that are not armed.
#[cold]
pub(crate) fn take_causes(watches: Option<&Watches>) -> u32 {
    let armed = watches.map_or(0, |watches| watches.breakpoints.armed());
    (take_status() ^ STATUS_RESET) as u32 & (causes::STEP | armed)
}

/// Takes note of an exception that came in the kernel, with its frame: its causes are forgotten, or it becomes one of the program.
pub(crate) fn acknowledge(frame: &mut KernelFrame) {
    match frame.is_at_entry_of(DEBUG) {
        true => frame.become_programs(),
        false => _ = take_status(),
    }
}

fn write_addresses(addresses: [u64; BREAKPOINT_SLOTS]) {
    let [one, two, three, four] = addresses;
    // SAFETY: zeros, or addresses that breakpoints may have; none is armed. Behind walls nobody has any.
    unsafe {
        asm!("mov dr0, {}", "mov dr1, {}", "mov dr2, {}", "mov dr3, {}", in(reg) one, in(reg) two, in(reg) three, in(reg) four, options(nostack))
    };
}

fn write_control(control: u64) {
    // SAFETY: the word of breakpoints, which are at addresses of programs only.
    unsafe { asm!("mov dr7, {}", in(reg) control, options(nostack)) };
}

fn take_status() -> u64 {
    let status;
    // SAFETY: the register says what has happened; writing it has no effect but that.
    unsafe { asm!("mov {}, dr6", "mov dr6, {}", out(reg) status, in(reg) STATUS_RESET, options(nostack)) };
    status
}
