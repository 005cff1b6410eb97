//! Points to which a core returns when the work above them fails, so that a failure ends that work and not the machine.
//!
//! [`guarded`] is a call for the compiler: it returns once, by either way. Behind a failure the stack above the point is forgotten, not
//! unwound: nothing on it is dropped. So what was open then stays open for ever; the failure is contained only where nothing of this
//! layer was ([`judge`]), and whoever has set the judge answers for the layers above.
//!
//! Stacks: the heap and the runtime's locks are not entered with little stack left. The work that uses up a stack so fails at such a
//! place, with nothing of this layer open, and not at the guard page, which may be reached within anything.

use crate::core_local::{CoreLocal, offset, this_core};
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
    push rdi
    mov [rdi], rsp
    mov rdi, rdx
    call rsi
    xor eax, eax
2:
    add rsp, 8
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
"#
);

unsafe extern "C" {
    /// Stores the point, calls `work` and answers 0; 1 where the core came back by `gyre_resume`.
    fn gyre_guarded(point: *mut u64, work: extern "C" fn(*mut u8), context: *mut u8) -> u64;
    /// Goes back to a point that `gyre_guarded` stored.
    fn gyre_resume(point: u64) -> !;
}

/// Who decides for the layers above; 0 for nobody.
static JUDGE: AtomicUsize = AtomicUsize::new(0);
static FAILURES: CoreLocal<Failure> = CoreLocal::new([const { Failure::new() }; CORES_MAX]);

/// Sets who decides whether a failure within [`guarded`] ends only that. Asked on the core that failed, in the middle of the failure: must
/// neither wait nor fail.
pub fn set_judge(judge: fn(FailedAt) -> Verdict) {
    JUDGE.store(judge as usize, Ordering::Release);
}

extern "C" fn run<F: FnOnce()>(context: *mut u8) {
    // SAFETY: `guarded` gives an Option of this type that lives until it returns.
    if let Some(work) = unsafe { (*context.cast::<Option<F>>()).take() } {
        work();
    }
}

/// Runs `work`.
///
/// # Errors
/// [`GivenUp`] where it failed and the failure was contained. [`last_failure`] tells about it.
#[inline(always)]
pub fn guarded<F: FnOnce()>(work: F) -> Result<(), GivenUp> {
    let point = &this_core().resume_point;
    let outer = point.get();
    let mut work = Some(work);
    // SAFETY: the frame of the call stays until it returns, once, by either way.
    let ended = unsafe { gyre_guarded(point.as_ptr(), run::<F>, (&raw mut work).cast()) };
    point.set(outer);
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
    let start = top - STACK_BYTES;
    this_core().heap_floor.set(start + HEAP_STACK_BYTES);
    this_core().lock_floor.set(start + LOCK_STACK_BYTES);
}

/// A core that dies may use all of its stack, and other stacks.
pub(crate) fn forget_stack() {
    this_core().heap_floor.set(0);
    this_core().lock_floor.set(0);
}

/// True for an address in the guard below this core's stack.
pub(crate) fn is_below_stack(address: u64) -> bool {
    let start = this_core().heap_floor.get().saturating_sub(HEAP_STACK_BYTES);
    (start.saturating_sub(OVERFLOW_BYTES)..start + 64).contains(&address)
}

/// Fails, with nothing open, where the stack is nearly used up. Who takes a lock calls this before.
#[inline(always)]
pub fn check_stack() {
    // SAFETY: compares registers with a word of this core's block.
    unsafe {
        asm!("cmp rsp, gs:[{}]", "jb {}", const offset::LOCK_FLOOR, label { stack_is_used_up() }, options(readonly, nostack));
    }
}

/// The same for the heap.
#[inline(always)]
pub(crate) fn check_heap_stack() {
    // SAFETY: compares registers with a word of this core's block.
    unsafe {
        asm!("cmp rsp, gs:[{}]", "jb {}", const offset::HEAP_FLOOR, label { stack_is_used_up() }, options(readonly, nostack));
    }
}

#[cold]
#[inline(never)]
fn stack_is_used_up() -> ! {
    panic!("the stack is used up")
}
