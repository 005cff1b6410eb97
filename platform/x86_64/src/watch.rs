//! The cores' view of each other: since when each is in one piece of work, and how one that does not come back is told.
//!
//! The kernel runs with interrupts off, so a core that hangs in it answers to nobody. Each notes where a piece of work begins (here, and
//! the entry code at each trap); the others look at the notes, ask it to end at the next safe point, and at last send an NMI.

use crate::apic;
use crate::core_local::{CoreBlock, block_of, offset, this_core};
use crate::exception::KernelFrame;
use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering};
use gyre_platform::WORK_TURNS;
use gyre_platform::own_time::SinceAsked;
use log::error;

/// Exit code of a machine one of whose cores hung in the kernel; QEMU's debug exit makes 205 of it.
pub const STUCK_CODE: u8 = 102;

/// A function of type `fn()`, called at safe points of a core that was asked to end its work; 0 for none.
static HOOK: AtomicU64 = AtomicU64::new(0);

/// Notes that this core begins a piece of work, which has all its turns.
#[inline]
pub fn mark_work(now_cycles: u64) {
    let core = this_core();
    core.work_mark.store(now_cycles, Ordering::Relaxed);
    core.turns.set(WORK_TURNS);
}

/// When this core's piece of work began: the last [`mark_work`] or return from a program, in cycles; 0 before the first.
#[inline]
pub fn work_mark() -> u64 {
    mark_of(this_core())
}

/// Like [`work_mark`], of any core.
pub fn work_mark_of(core: usize) -> u64 {
    mark_of(block_of(core))
}

#[inline]
fn mark_of(block: &CoreBlock) -> u64 {
    block.work_mark.load(Ordering::Relaxed).max(block.exit_cycles.load(Ordering::Relaxed))
}

/// Asks a core to end the piece of work that has this mark.
pub fn ask_to_end(core: usize, mark: u64) {
    let block = block_of(core);
    if block.asked_to_end.load(Ordering::Relaxed) != mark {
        block.own_time.ask();
    }
    block.asked_to_end.store(mark, Ordering::Release);
    crate::guard::raise_floors(core);
}

/// The mark of the work that this core was asked to end; 0 for none.
#[inline(always)]
pub fn asked_to_end() -> u64 {
    let mark: u64;
    // SAFETY: GS points to this core's block; an aligned load of an atomic.
    unsafe {
        asm!("mov {}, gs:[{}]", out(reg) mark, const offset::ASKED_TO_END, options(readonly, nostack, preserves_flags))
    };
    mark
}

/// How long a core has run since it was asked to end the work with this mark, cycles; none if it was not.
pub fn ran_since_asked(core: usize, mark: u64) -> Option<u64> {
    let block = block_of(core);
    (block.asked_to_end.load(Ordering::Acquire) == mark).then(|| block.own_time.since_asked())
}

/// This core passes a safe point of work that was asked to end; answers what it has done since.
pub fn pass_safe_point() -> SinceAsked {
    this_core().own_time.pass(crate::now(), crate::cycles_per_ms())
}

/// This core runs.
fn show_sign() {
    this_core().own_time.sign(crate::now(), crate::cycles_per_ms());
}

/// Forgets that this core was asked.
pub fn forget_asked() {
    this_core().asked_to_end.store(0, Ordering::Relaxed);
    crate::guard::lower_floors();
}

/// Sets what is called at safe points of a core that was asked to end its work.
pub fn set_end_hook(hook: fn()) {
    HOOK.store(hook as usize as u64, Ordering::Release);
}

/// A place where the work in hand may be given up, if the core was asked to.
#[inline(always)]
pub(crate) fn safe_point() {
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

/// Has a core show that it runs: it answers with its next instruction, whatever it does, unless its hypervisor lets it stand still.
pub fn knock(core: usize) {
    block_of(core).is_knocked.store(true, Ordering::SeqCst);
    apic::send_nmi(core);
}

/// Knocks that a core has answered.
pub fn knocks_answered_by(core: usize) -> u64 {
    block_of(core).knocks.load(Ordering::Relaxed)
}

/// Answers a knock; false if there was none.
fn answer_knock() -> bool {
    let is_knocked = this_core().is_knocked.swap(false, Ordering::SeqCst);
    this_core().knocks.fetch_add(u64::from(is_knocked), Ordering::Relaxed);
    show_sign();
    is_knocked
}

/// The sender of an NMI.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Question {
    /// A core of this instance: it has seen meanwhile that all is well.
    Answered,
    /// Nobody of this instance.
    Nobodys,
}

/// An NMI has come: answers a [`knock`], and does what [`show_stuck`] asked for.
pub(crate) fn take_question(frame: &KernelFrame) -> Question {
    let is_knocked = answer_knock();
    let mark = this_core().stuck_mark.swap(0, Ordering::SeqCst);
    if mark != 0 && mark == work_mark() && frame.is_kernels() {
        crate::exception::dump_stuck(frame, since_ms(mark));
        end_stuck()
    }
    if mark == 0 && !is_knocked { Question::Nobodys } else { Question::Answered }
}

/// Ends the machine because of a core that takes no NMI either.
pub fn end_unreachable(core: usize, mark: u64) -> ! {
    crate::panic::begin_dying();
    let ms = since_ms(mark);
    let words = format_args!("core {core} has been in one piece of work for {ms} ms and takes no interrupt");
    crate::zone::end::write_last_words(words);
    error!(target: "watch", "core {core} has been in one piece of work for {ms} ms and takes no interrupt");
    end_stuck()
}

/// Milliseconds since a mark was set.
pub(crate) fn since_ms(mark: u64) -> u64 {
    crate::now().saturating_sub(mark) / crate::cycles_per_ms().max(1)
}

fn end_stuck() -> ! {
    error!(target: "watch", "the machine stops with code {STUCK_CODE}");
    crate::zone::end::end_instance(STUCK_CODE)
}
