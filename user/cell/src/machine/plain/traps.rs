//! How the program's system calls, faults and signals come to the runtime: as signals, on a stack of their own.
//!
//! * A call of the program traps, since Linux dispatches it to the program itself (prctl(2), PR_SET_SYSCALL_USER_DISPATCH).
//! * A handler changes the context that Linux goes on with: the next thread runs when it returns.
//! * A signal that comes while the runtime works is noted (`Arrivals`), and told when the runtime goes on.
//!
//! Nothing of the runtime is entered twice: `IS_INSIDE` says that it works.
//! The mask of the launcher's thread is the program's, without the signals by which the runtime itself is called.

use core::{
    arch::global_asm,
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU64, Ordering},
};

use linux_raw_sys::general as nr;

use super::{Plain, context::Context, harmless};
use crate::{
    memory::Rights,
    runtime::Runtime,
    signal::{Action, Info, bit},
};

const PR_SET_SYSCALL_USER_DISPATCH: u64 = 59;
const DISPATCH_OFF: u64 = 0;
const DISPATCH_ON: u64 = 1;
const SA_RESTORER: u64 = 0x0400_0000;
const MASK_BYTES: u64 = 8;
const ALL: u64 = u64::MAX;
/// Bytes of the stack of the runtime.
const STACK_BYTES: usize = 1 << 20;
/// The processor's error codes of page faults.
const FAULT_WRITE: u64 = 1 << 1;
const FAULT_FETCH: u64 = 1 << 4;

/// Linux reads it at each call outside of the launcher's code: 1 is "make it a signal".
static SELECTOR: AtomicU8 = AtomicU8::new(1);
/// The runtime, once the program has begun.
static RUNTIME: AtomicPtr<Runtime<Plain>> = AtomicPtr::new(core::ptr::null_mut());
/// Signals that the program holds back: the mask of its thread, which is the process's one that takes signals.
static HELD: AtomicU64 = AtomicU64::new(0);
/// These come to the runtime whatever the program wishes.
const OWN: u64 = 1 << (nr::SIGSYS - 1) | 1 << (nr::SIGSEGV - 1);
/// Whether the runtime runs, not the program.
static IS_INSIDE: AtomicBool = AtomicBool::new(false);

// A handler returns here. libc's code for this is outside of the launcher if it is linked dynamically, so its call would be a trap.
global_asm!(".globl gyre_cell_return", "gyre_cell_return:", "mov eax, 15", "syscall", "ud2");

unsafe extern "C" {
    fn gyre_cell_return();
    // The linker's names for the first and the last byte of the launcher's code.
    static __executable_start: u8;
    static etext: u8;
}

/// The launcher's code: first address and bytes.
pub fn own_code() -> [u64; 2] {
    let [start, end] = [&raw const __executable_start, &raw const etext].map(|address| address as u64);
    [start, end - start]
}

/// Returns whether this kernel can do it.
pub fn is_supported() -> bool {
    harmless(nr::__NR_prctl, [PR_SET_SYSCALL_USER_DISPATCH, DISPATCH_OFF, 0, 0, 0, 0]) == 0
}

/// Starts the program: from now on its calls, faults and signals come to the runtime.
///
/// # Safety
/// Code lies at `entry`, a stack as Linux makes it at `stack`. Nothing of the caller is used again.
pub unsafe fn begin(runtime: &'static mut Runtime<Plain>, entry: u64, stack: u64) -> ! {
    let text = runtime.machine.text;
    runtime.fiber().fs = current_fs();
    runtime.begin_holding(mask());
    hold(runtime.fiber().blocked);
    RUNTIME.store(runtime, Ordering::Release);
    use_own_stack();
    set_handler(nr::SIGSYS, on_call as *const () as u64);
    set_handler(nr::SIGSEGV, on_fault as *const () as u64);
    let selector = SELECTOR.as_ptr() as u64;
    harmless(nr::__NR_prctl, [PR_SET_SYSCALL_USER_DISPATCH, DISPATCH_ON, text[0], text[1], selector, 0]);
    // SAFETY: the caller answers for both addresses.
    unsafe { crate::launch::jump(entry, stack) }
}

fn current_fs() -> u64 {
    const ARCH_GET_FS: u64 = 0x1003;
    let mut base = 0u64;
    harmless(nr::__NR_arch_prctl, [ARCH_GET_FS, (&raw mut base) as u64, 0, 0, 0, 0]);
    base
}

/// The signals that this thread holds back.
fn mask() -> u64 {
    let mut mask = 0u64;
    harmless(nr::__NR_rt_sigprocmask, [nr::SIG_BLOCK.into(), 0, (&raw mut mask) as u64, MASK_BYTES, 0, 0]);
    mask
}

fn set_mask(mask: u64) {
    harmless(nr::__NR_rt_sigprocmask, [nr::SIG_SETMASK.into(), (&raw const mask) as u64, 0, MASK_BYTES, 0, 0]);
}

/// The program holds these signals back, from when it goes on, and while the runtime waits.
pub fn hold(held: u64) {
    HELD.store(held & !OWN, Ordering::Relaxed);
}

fn use_own_stack() {
    let stack = Box::leak(vec![0u8; STACK_BYTES].into_boxed_slice());
    let wish = [stack.as_mut_ptr() as u64, 0, STACK_BYTES as u64];
    harmless(nr::__NR_sigaltstack, [wish.as_ptr() as u64, 0, 0, 0, 0, 0]);
}

fn set_handler(signal: u32, handler: u64) -> i64 {
    let flags = u64::from(nr::SA_SIGINFO | nr::SA_ONSTACK | nr::SA_RESTART) | SA_RESTORER;
    let restorer = gyre_cell_return as *const () as u64;
    set_action(signal, Action { handler, flags, restorer, mask: ALL })
}

fn set_action(signal: u32, action: Action) -> i64 {
    let words = action.words();
    harmless(nr::__NR_rt_sigaction, [signal.into(), words.as_ptr() as u64, 0, MASK_BYTES, 0, 0])
}

/// Does what the program wishes for a signal: its handler is called by the runtime, the rest is Linux's.
pub fn change_action(signal: u32, address: u64) -> i64 {
    let mut words = [0u64; 4];
    if let Err(errno) = super::copy(nr::__NR_process_vm_readv, [words.as_mut_ptr() as u64, 32], address) {
        return errno.result();
    }
    let wish = Action::of_words(words);
    match signal {
        // These two stay the runtime's.
        nr::SIGSYS | nr::SIGSEGV => 0,
        _ if wish.is_handled() => set_handler(signal, on_signal as *const () as u64),
        _ => set_action(signal, wish),
    }
}

/// Ends the process by a signal, if it is one that ends.
pub fn default_action(signal: u32) {
    set_action(signal, Action::default());
    let none = bit(signal);
    harmless(nr::__NR_rt_sigprocmask, [nr::SIG_UNBLOCK.into(), (&raw const none) as u64, 0, MASK_BYTES, 0, 0]);
    let [pid, tid] = [nr::__NR_getpid, nr::__NR_gettid].map(|number| harmless(number, [0; 6]).cast_unsigned());
    harmless(nr::__NR_tgkill, [pid, tid, signal.into(), 0, 0, 0]);
}

/// Holds all signals back from this thread: they are for the program's.
fn hold_signals_back() {
    set_mask(ALL);
}

/// Does something while all signals are held back, such as the making of threads.
pub fn with_signals_held_back<T>(work: impl FnOnce() -> T) -> T {
    let before = mask();
    hold_signals_back();
    let done = work();
    set_mask(before);
    done
}

/// Lets signals come while the runtime waits, but for those that the program holds back.
pub fn with_signals(wait: impl FnOnce()) {
    set_mask(HELD.load(Ordering::Relaxed) | OWN);
    wait();
    hold_signals_back();
}

/// Runs the runtime for the thread that a signal has stopped.
fn inside(context: *mut libc::c_void, work: impl FnOnce(&mut Runtime<Plain>)) {
    // SAFETY: the one runtime; handlers do not interrupt each other, as each holds all signals back, and the one that may come in between
    // looks at `IS_INSIDE` and touches only what is shared.
    let runtime = unsafe { &mut *RUNTIME.load(Ordering::Acquire) };
    // SAFETY: the handler returns after this.
    runtime.machine.context = unsafe { Context::of_handler(context) };
    IS_INSIDE.store(true, Ordering::Relaxed);
    let registers = runtime.machine.context.read();
    runtime.fiber().registers = registers;
    work(runtime);
    let registers = runtime.fiber().registers;
    runtime.machine.context.write(&registers);
    runtime.machine.context.set_mask(HELD.load(Ordering::Relaxed));
    IS_INSIDE.store(false, Ordering::Relaxed);
}

extern "C" fn on_call(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    inside(context, |runtime| {
        let then = runtime.on_call();
        runtime.settle(then);
    });
}

extern "C" fn on_fault(_: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: Linux gives a fault's siginfo.
    let (address, code) = unsafe { ((*info).si_addr() as u64, (*info).si_code) };
    inside(context, |runtime| {
        let why = runtime.machine.context.fault_code();
        let access = match why {
            _ if why & FAULT_WRITE != 0 => Rights::WRITE,
            _ if why & FAULT_FETCH != 0 => Rights::EXECUTE,
            _ => Rights::READ,
        };
        match runtime.space.arena.touches(address, 1) {
            true => runtime.on_fault(address, access),
            false => runtime.on_trap(nr::SIGSEGV, Info::of_fault(code, address)),
        }
    });
}

extern "C" fn on_signal(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the runtime is there for ever; this part of it is shared. Linux gives a handler its siginfo, which has 16 words.
    let (shared, words) = unsafe { ((*RUNTIME.load(Ordering::Acquire)).machine.shared, &*info.cast()) };
    shared.signals.note(signal.unsigned_abs(), words);
    match IS_INSIDE.load(Ordering::Relaxed) {
        true => shared.wake_cell(),
        false => inside(context, Runtime::deliver),
    }
}
