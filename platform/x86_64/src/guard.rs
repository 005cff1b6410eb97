//! Points to which a core returns when the work above them fails, so that a failure ends that work and not the machine.
//!
//! [`guarded`] is a call for the compiler: it returns once, by either way. Behind a failure the stack above the point is forgotten, not
//! unwound: nothing on it is dropped. So what was open then stays open for ever; the failure is contained only if nothing of this
//! layer was ([`judge`]), and whoever has set the judge answers for the layers above.
//!
//! Stacks: the heap and the runtime's locks are not entered with little stack left. The work that uses up a stack so fails at such a
//! place, with nothing of this layer open, and not at the guard page, which may be reached within anything. There it also sees that it was
//! asked to end: who asks raises the floor above any stack.

use crate::core_local::{CoreLocal, block_of, offset, this_core};
use crate::kernel_map::STACK_BYTES;
use crate::panic::Places;
use core::arch::{asm, global_asm};
use core::fmt::{Display, Write};
use core::sync::atomic::{AtomicUsize, Ordering};
use gyre_platform::{CORES_MAX, FailedAt, Failure, GivenUp, Verdict};

/// Bytes of stack that the heap finds at least: enough to say that there are too few.
const HEAP_STACK_BYTES: u64 = 16 << 10;
/// Bytes of stack that who takes a lock finds at least. More than the heap wants, so that what is done under the lock does not fail for
/// want of stack.
const LOCK_STACK_BYTES: u64 = 24 << 10;
/// How far below a stack an access still counts as its overflow.
const OVERFLOW_BYTES: u64 = 64 << 10;

global_asm!(
    r#"
.balign 16
.globl gyre_guarded
gyre_guarded:
    push rbp
    mov rbp, rsp
    push rbx
    push r12
    push r13
    push r14
    push r15
    push qword ptr gs:[{POINT}]
    mov gs:[{POINT}], rsp
    mov rax, rdi
    mov rdi, rsi
    call rax
    xor eax, eax
2:
    pop qword ptr gs:[{POINT}]
    pop r15
    pop r14
    pop r13
    pop r12
    pop rbx
    pop rbp
    ret
.globl gyre_resume
gyre_resume:
    cld
    mov rsp, rdi
    mov eax, 1
    jmp 2b
"#,
    POINT = const offset::RESUME_POINT,
);

unsafe extern "C" {
    /// Makes this the core's point, calls `work`, makes the point before the core's again and answers 0; 1 if the core came back by
    /// `gyre_resume`.
    fn gyre_guarded(work: extern "C" fn(*mut u8), context: *mut u8) -> u64;
    /// Goes back to a point of this core.
    fn gyre_resume(point: u64) -> !;
}

/// The function that decides for the layers above; 0 for none.
static JUDGE: AtomicUsize = AtomicUsize::new(0);
static FAILURES: CoreLocal<Failure> = CoreLocal::new([const { Failure::new() }; CORES_MAX]);

/// Sets who decides whether a failure within [`guarded`] ends only that. Asked on the core that failed, in the middle of the failure: must
/// neither wait nor fail.
pub fn set_judge(judge: fn(FailedAt) -> Verdict) {
    JUDGE.store(judge as usize, Ordering::Release);
}

extern "C" fn run<F: FnMut()>(context: *mut u8) {
    // SAFETY: `guarded` gives work of this type that lives until it returns.
    unsafe { (*context.cast::<F>())() }
}

/// Runs `work`, once.
///
/// # Errors
/// [`GivenUp`] if it failed and the failure was contained. [`last_failure`] tells about it.
#[inline(always)]
pub fn guarded<F: FnMut()>(mut work: F) -> Result<(), GivenUp> {
    // SAFETY: the frame of the call stays until it returns, once, by either way.
    let ended = unsafe { gyre_guarded(run::<F>, (&raw mut work).cast()) };
    if ended == 0 { Ok(()) } else { Err(GivenUp) }
}

/// The last failure that this core contained.
pub fn last_failure() -> Failure {
    FAILURES.with(|failure| *failure)
}

/// Decides what a failure on this core ends; from [`Verdict::Contain`] on the core deals with it.
pub(crate) fn judge(at: FailedAt) -> Verdict {
    let (core, judge) = (this_core(), JUDGE.load(Ordering::Acquire));
    if crate::panic::dying() {
        return Verdict::EndMachine("the machine ends already");
    }
    if core.resume_point.get() == 0 || judge == 0 {
        return Verdict::EndMachine("the machine's own work has failed");
    }
    if core.is_failing.replace(true) {
        return Verdict::EndMachine("a second failure while the first was dealt with");
    }
    if core.open.get() != 0 {
        return Verdict::EndMachine("a part of the platform was open");
    }
    // SAFETY: `set_judge` stored a function of this type.
    let judge = unsafe { core::mem::transmute::<usize, fn(FailedAt) -> Verdict>(judge) };
    judge(at)
}

/// Notes the failure and gives up the work above the innermost point of this core, which [`judge`] has allowed.
pub(crate) fn give_up(message: &dyn Display, rip: u64, rbp: u64) -> ! {
    FAILURES.with(|failure| {
        *failure = Failure::new();
        // A message that is too long is cut, which is no error.
        let _ = write!(failure, "{message}");
        failure.push_place(rip);
        Places(rbp).for_each(|place| failure.push_place(place));
    });
    let core = this_core();
    core.is_failing.set(false);
    // SAFETY: `judge` saw that the point is set; its frame is below on this very stack.
    unsafe { gyre_resume(core.resume_point.get()) }
}

/// From here on the core runs on the stack that ends at `top`.
pub(crate) fn watch_stack(top: u64) {
    this_core().stack_start.set(top - STACK_BYTES);
    lower_floors();
}

/// A core that dies may use all of its stack, and other stacks.
pub(crate) fn forget_stack() {
    this_core().stack_start.set(0);
    lower_floors();
}

/// Makes a core look at its next point of failure why it is stopped there, on whatever stack it is.
pub(crate) fn raise_floors(core: usize) {
    block_of(core).lock_floor.store(u64::MAX, Ordering::Release);
    block_of(core).heap_floor.store(u64::MAX, Ordering::Release);
}

/// This core is stopped only by what its stack lacks.
pub(crate) fn lower_floors() {
    let core = this_core();
    let floor = |bytes: u64| if core.stack_start.get() == 0 { 0 } else { core.stack_start.get() + bytes };
    core.lock_floor.store(floor(LOCK_STACK_BYTES), Ordering::Relaxed);
    core.heap_floor.store(floor(HEAP_STACK_BYTES), Ordering::Relaxed);
}

/// True for an address in the guard below this core's stack.
pub(crate) fn is_below_stack(address: u64) -> bool {
    let start = this_core().stack_start.get();
    (start.saturating_sub(OVERFLOW_BYTES)..start + 64).contains(&address)
}

/// A point at which the work in hand may fail, with nothing open: if the stack is nearly used up, or if another core asked this one
/// to end its work. Whoever takes a lock passes it before. One comparison tells of both.
#[inline(always)]
pub fn failure_point() {
    // SAFETY: compares registers with a word of this core's block.
    unsafe {
        asm!("cmp rsp, gs:[{}]", "jb {}", const offset::LOCK_FLOOR, label { stopped(LOCK_STACK_BYTES) }, options(readonly, nostack));
    }
}

/// Like [`failure_point`], for work that takes memory from the heap.
#[inline(always)]
pub(crate) fn heap_failure_point() {
    // SAFETY: compares registers with a word of this core's block.
    unsafe {
        asm!("cmp rsp, gs:[{}]", "jb {}", const offset::HEAP_FLOOR, label { stopped(HEAP_STACK_BYTES) }, options(readonly, nostack));
    }
}

/// Fails if the stack is nearly used up; called before memory is given back to the heap.
#[inline(always)]
pub(crate) fn check_heap_stack() {
    // SAFETY: compares registers with a word of this core's block.
    unsafe {
        asm!("cmp rsp, gs:[{}]", "jb {}", const offset::HEAP_FLOOR, label { check_stack(HEAP_STACK_BYTES) }, options(readonly, nostack));
    }
}

#[cold]
#[inline(never)]
fn stopped(bytes: u64) {
    check_stack(bytes);
    if crate::watch::asked_to_end() == 0 {
        // The question was taken back while it was asked.
        lower_floors();
    }
    crate::watch::safe_point();
}

#[cold]
#[inline(never)]
fn check_stack(bytes: u64) {
    let start = this_core().stack_start.get();
    if start != 0 && stack_pointer() < start + bytes {
        panic!("the stack is used up");
    }
}

#[inline(always)]
fn stack_pointer() -> u64 {
    let pointer: u64;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, rsp", out(reg) pointer, options(nomem, nostack, preserves_flags)) };
    pointer
}
