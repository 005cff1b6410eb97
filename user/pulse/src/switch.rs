//! The few instructions by which a thread leaves its stack, and comes back.

use std::arch::{global_asm, naked_asm};

// A parked stack, from its pointer up: mxcsr and the x87 control word, r15 to r12, rbx, rbp, the address to go on at (System V ABI, 3.2.1).
global_asm!(
    ".global gyre_pulse_park",
    "gyre_pulse_park:",
    "push rbp",
    "push rbx",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    "sub rsp, 8",
    "stmxcsr [rsp]",
    "fnstcw [rsp + 4]",
    "mov [rdi], rsp",
    "mov rsp, rsi",
    "xor ebp, ebp",
    "mov rdi, rcx",
    "call rdx",
    "ud2",
    ".global gyre_pulse_unpark",
    "gyre_pulse_unpark:",
    "mov rsp, rdi",
    "ldmxcsr [rsp]",
    "fldcw [rsp + 4]",
    "add rsp, 8",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbx",
    "pop rbp",
    "ret",
);

unsafe extern "C" {
    /// Saves where the caller is in `*saved`, and calls `entry(argument)` on another stack. Returns by [`gyre_pulse_unpark`].
    pub(crate) fn gyre_pulse_park(
        saved: *mut u64,
        stack: u64,
        entry: extern "C" fn(*const u8) -> !,
        argument: *const u8,
    );
    /// Goes on where a stack was parked.
    pub(crate) fn gyre_pulse_unpark(saved: u64) -> !;
}

/// Control words after reset (System V ABI, 3.4.1): mxcsr below, x87 above.
const CONTROL: u64 = 0x1f80 | 0x037f << 32;
/// Words of a parked stack.
const PARKED_WORDS: usize = 8;

/// The first instructions of a new thread: rbx is its argument, r12 its function.
#[unsafe(naked)]
extern "C" fn begin() -> ! {
    naked_asm!("mov rdi, rbx", "xor ebp, ebp", "call r12", "ud2")
}

/// Prepares a stack on which `entry(argument)` begins; answers what [`gyre_pulse_unpark`] takes.
pub(crate) fn prepare(stack: &mut [u64], entry: extern "C" fn(*const u8) -> !, argument: *const u8) -> u64 {
    // After the last `ret` the stack is a multiple of 16, as before a call.
    let first = stack.len() - PARKED_WORDS - 2;
    let words = [CONTROL, 0, 0, 0, entry as usize as u64, argument as u64, 0, begin as *const () as u64];
    stack[first..first + PARKED_WORDS].copy_from_slice(&words);
    stack[first..].as_ptr() as u64
}
