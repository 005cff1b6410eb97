//! What the cores see of each other: since when each is in one piece of work, and how one that does not come back is told.
//!
//! The kernel runs with interrupts off, so a core that hangs in it answers to nobody. Each notes where a piece of work begins (here, and
//! the entry code at each trap); the others look at the notes, ask it to end at the next safe point, and at last send an NMI.

use crate::apic;
use crate::core_local::{CoreBlock, block_of, offset, this_core};
use crate::exception::KernelFrame;
use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering};
use log::error;

/// Exit code of a machine one of whose cores hung in the kernel; QEMU's debug exit makes 205 of it.
pub const STUCK_CODE: u8 = 102;

/// A function of type `fn()`, called at safe points of a core that was asked to end its work; 0 for none.
static HOOK: AtomicU64 = AtomicU64::new(0);

/// Notes that this core begins a piece of work.
#[inline]
pub fn mark_work(now_cycles: u64) {
    this_core().work_mark.store(now_cycles, Ordering::Relaxed);
}

/// When this core's piece of work began: the last [`mark_work`] or return from a program, in cycles; 0 before the first.
#[inline]
pub fn work_mark() -> u64 {
    mark_of(this_core())
}

/// The same of any core.
pub fn work_mark_of(core: usize) -> u64 {
    mark_of(block_of(core))
}

#[inline]
fn mark_of(block: &CoreBlock) -> u64 {
    block.work_mark.load(Ordering::Relaxed).max(block.exit_cycles.load(Ordering::Relaxed))
}

/// Asks a core to end the piece of work that has this mark.
pub fn ask_to_end(core: usize, mark: u64) {
    block_of(core).asked_to_end.store(mark, Ordering::Release);
}

/// The mark of the work that this core was asked to end; 0 for none.
#[inline(always)]
pub fn asked_to_end() -> u64 {
    let mark: u64;
    // SAFETY: GS points to this core's block; an aligned load of an atomic. It lies on the way of every lock: one instruction.
    unsafe { asm!("mov {}, gs:[{}]", out(reg) mark, const offset::ASKED_TO_END, options(readonly, nostack, preserves_flags)) };
    mark
}

/// Forgets that this core was asked.
pub fn forget_asked() {
    this_core().asked_to_end.store(0, Ordering::Relaxed);
}

/// Sets what is called at safe points of a core that was asked to end its work.
pub fn set_end_hook(hook: fn()) {
    HOOK.store(hook as usize as u64, Ordering::Release);
}

/// A place where the work in hand may be given up, if the core was asked to.
#[inline(always)]
pub fn safe_point() {
    if asked_to_end() != 0 {
        call_hook();
    }
}

#[cold]
#[inline(never)]
fn call_hook() {
    let hook = HOOK.load(Ordering::Acquire);
    if hook != 0 {
        // SAFETY: `set_end_hook` stored a function of this type.
        let hook = unsafe { core::mem::transmute::<usize, fn()>(hook as usize) };
        hook();
    }
}

/// Makes a core print where it is and end the machine, if it is still in the work with this mark.
pub fn show_stuck(core: usize, mark: u64) {
    block_of(core).stuck_mark.store(mark, Ordering::SeqCst);
    apic::send_nmi(core);
}

/// An NMI has come: does what [`show_stuck`] asked for.
pub(crate) fn on_nmi(frame: &KernelFrame) {
    let mark = this_core().stuck_mark.swap(0, Ordering::SeqCst);
    if mark != 0 && mark == work_mark() && frame.is_kernels() {
        crate::exception::dump_stuck(frame, since_ms(mark));
        end_stuck()
    }
}

/// Ends the machine because of a core that takes no NMI either.
pub fn end_unreachable(core: usize, mark: u64) -> ! {
    crate::panic::begin_dying();
    error!(target: "watch", "core {core} has been in one piece of work for {} ms and takes no interrupt", since_ms(mark));
    end_stuck()
}

fn since_ms(mark: u64) -> u64 {
    crate::now().saturating_sub(mark) / crate::cycles_per_ms().max(1)
}

fn end_stuck() -> ! {
    error!(target: "watch", "the machine stops with code {STUCK_CODE}");
    crate::power::shut_down(STUCK_CODE)
}
