//! A tick's entry, and the way back into the thread that it stopped: the kernel saves and restores general registers only at the entry; the rest is
//! here, without a call of the kernel.
//!
//! The last two instructions let ticks in and go on in the thread. If a tick or a signal comes between them, the kernel does the second one, too
//! (`gyre_contract::native::PULSE`).

use std::{arch::global_asm, mem::offset_of};

use gyre_contract::pulse::{Area, Context, EXTENDED_OFFSET};

const LOW: usize = offset_of!(Context, low);
const HIGH: usize = offset_of!(Context, high);

// XSAVE and XRSTOR of all that the kernel has enabled (SDM vol. 1, 13.7 and 13.8).
global_asm!(
    ".global gyre_pulse_called",
    "gyre_pulse_called:",
    "mov rcx, [rdi + {running}]",
    "mov eax, -1",
    "mov edx, -1",
    "xsave64 [rcx + {extended}]",
    "jmp {called}",
    ".global gyre_pulse_resume",
    "gyre_pulse_resume:",
    "mov eax, -1",
    "mov edx, -1",
    "xrstor64 [rdi + {extended}]",
    "mov rax, [rdi + {rip}]",
    "mov gs:[{resume}], rax",
    "push qword ptr [rdi + {rflags}]",
    "popfq",
    "mov rax, [rdi + {low}]",
    "mov rbx, [rdi + {low} + 8]",
    "mov rcx, [rdi + {low} + 16]",
    "mov rdx, [rdi + {low} + 24]",
    "mov rsi, [rdi + {low} + 32]",
    "mov rbp, [rdi + {low} + 48]",
    "mov r8, [rdi + {high}]",
    "mov r9, [rdi + {high} + 8]",
    "mov r10, [rdi + {high} + 16]",
    "mov r11, [rdi + {high} + 24]",
    "mov r12, [rdi + {high} + 32]",
    "mov r13, [rdi + {high} + 40]",
    "mov r14, [rdi + {high} + 48]",
    "mov r15, [rdi + {high} + 56]",
    "mov rsp, [rdi + {low} + 56]",
    "mov rdi, [rdi + {low} + 40]",
    ".global gyre_pulse_last",
    "gyre_pulse_last:",
    "mov dword ptr gs:[{masked}], 0",
    "jmp qword ptr gs:[{resume}]",
    ".global gyre_pulse_last_end",
    "gyre_pulse_last_end:",
    running = const offset_of!(Area, running),
    resume = const offset_of!(Area, resume),
    masked = const offset_of!(Area, masked),
    extended = const EXTENDED_OFFSET,
    rip = const offset_of!(Context, rip),
    rflags = const offset_of!(Context, rflags),
    low = const LOW,
    high = const HIGH,
    called = sym crate::core::called,
);

unsafe extern "C" {
    /// A tick's entry: saves the extended state of the thread that ran, and calls the scheduler.
    pub(crate) fn gyre_pulse_called(area: *const u8, reason: u64) -> !;
    /// Goes on in a context, and lets ticks in.
    pub(crate) fn gyre_pulse_resume(context: u64) -> !;
    fn gyre_pulse_last();
    fn gyre_pulse_last_end();
}

/// Addresses of the last instructions of [`gyre_pulse_resume`]: the first one, and the end.
pub(crate) fn last_instructions() -> (u64, u64) {
    (gyre_pulse_last as *const () as u64, gyre_pulse_last_end as *const () as u64)
}
