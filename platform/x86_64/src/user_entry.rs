//! The way into user mode and every way back, in assembly.
//!
//! `gyre_enter_user` is left like a function: whatever ends the stay (system call, exception, interrupt) stores the program's
//! registers where the caller said, puts the kernel's stack back as it was and returns. Interrupts that arrive in kernel mode (in
//! [`crate::interrupt_window`] and [`crate::idle`] only) set a bit and return.
//!
//! Rules: user or kernel is decided by the saved CS, never by an error code (the emulator's supervisor-right stack reads of IRET
//! and RET FAR from ring 3 set U=0). GS is swapped exactly when the saved CS says user mode. NMI, machine check, double fault and
//! debug traps in the kernel cannot know which GS is loaded; they find the core's block on their own stack.

use crate::core_local::offset;
use core::arch::global_asm;
use core::mem::offset_of;
use gyre_platform::{Registers, WORK_TURNS};

/// The pretended vector of system calls.
pub(crate) const VECTOR_SYSTEM_CALL: u64 = 256;
/// Vector of event bit 0; the event bits follow each other.
pub(crate) const VECTOR_FIRST_EVENT: u64 = 32;

unsafe extern "C" {
    /// Runs the user program; see the module. `fast` allows SYSRET.
    pub(crate) fn gyre_enter_user(registers: *mut Registers, fast: u64);
    /// The target of SYSCALL.
    pub(crate) fn gyre_system_call();
}

global_asm!(
    r#"
.macro SAVE_FROM_RBX
    mov [rax + {RBX}], rbx
    mov [rax + {RCX}], rcx
    mov [rax + {RSI}], rsi
    mov [rax + {RDI}], rdi
    mov [rax + {RBP}], rbp
    mov [rax + {R8}], r8
    mov [rax + {R9}], r9
    mov [rax + {R10}], r10
    mov [rax + {R11}], r11
    mov [rax + {R12}], r12
    mov [rax + {R13}], r13
    mov [rax + {R14}], r14
    mov [rax + {R15}], r15
.endm

/* A piece of work begins: when, and its turns. */
.macro STAMP
    rdtsc
    mov gs:[{CYCLES}], eax
    mov gs:[{CYCLES} + 4], edx
    mov dword ptr gs:[{TURNS}], {WORK_TURNS}
.endm

/* Returns from gyre_enter_user; the callee-saved registers lie where rsp0 points. */
.macro LEAVE_USER
    mov rsp, gs:[{RSP0}]
    pop r15
    pop r14
    pop r13
    pop r12
    pop rbp
    pop rbx
    ret
.endm

.macro END_OF_INTERRUPT scratch
    mov rax, gs:[{END_OF_INTERRUPT}]
    test rax, rax
    jz 8f
    mov dword ptr [rax], 0
    jmp 9f
8:  mov ecx, 0x80b
    xor edx, edx
    wrmsr
9:
.endm

.balign 16
.globl gyre_enter_user
gyre_enter_user:
    push rbx
    push rbp
    push r12
    push r13
    push r14
    push r15
    mov gs:[{REGISTERS}], rdi
    mov gs:[{RSP0}], rsp
    mov rax, [rdi + {RAX}]
    mov rbx, [rdi + {RBX}]
    mov rdx, [rdi + {RDX}]
    mov rbp, [rdi + {RBP}]
    mov r8, [rdi + {R8}]
    mov r9, [rdi + {R9}]
    mov r10, [rdi + {R10}]
    mov r12, [rdi + {R12}]
    mov r13, [rdi + {R13}]
    mov r14, [rdi + {R14}]
    mov r15, [rdi + {R15}]
    test esi, esi
    jz 1f
    mov rcx, [rdi + {RIP}]
    mov r11, [rdi + {RFLAGS}]
    mov rsp, [rdi + {RSP}]
    mov rsi, [rdi + {RSI}]
    mov rdi, [rdi + {RDI}]
    swapgs
    sysretq
1:  push {USER_DATA}
    push [rdi + {RSP}]
    push [rdi + {RFLAGS}]
    push {USER_CODE}
    push [rdi + {RIP}]
    mov rcx, [rdi + {RCX}]
    mov r11, [rdi + {R11}]
    mov rsi, [rdi + {RSI}]
    mov rdi, [rdi + {RDI}]
    swapgs
    iretq

/* FMASK has cleared IF, TF, DF, AC, NT: nothing to do about flags here. */
.balign 16
.globl gyre_system_call
gyre_system_call:
    swapgs
    mov gs:[{CODE}], rsp
    mov rsp, gs:[{REGISTERS}]
    mov [rsp + {RAX}], rax
    mov [rsp + {RDX}], rdx
    STAMP
    mov rax, rsp
    SAVE_FROM_RBX
    mov [rax + {RIP}], rcx
    mov [rax + {RFLAGS}], r11
    mov rcx, gs:[{CODE}]
    mov [rax + {RSP}], rcx
    mov qword ptr gs:[{VECTOR}], {VECTOR_SYSTEM_CALL}
    LEAVE_USER

/* Stack: vector, code, rip, cs, rflags, rsp, ss. */
gyre_exception:
    test byte ptr [rsp + 24], 3
    jz gyre_kernel_exception
    swapgs
    lfence
    push rax
    push rdx
    STAMP
    cld
    cmp qword ptr gs:[{HAS_SMAP}], 0
    je 1f
    clac
1:  mov rax, gs:[{REGISTERS}]
    SAVE_FROM_RBX
    pop [rax + {RDX}]
    pop [rax + {RAX}]
    pop gs:[{VECTOR}]
    pop gs:[{CODE}]
    pop [rax + {RIP}]
    add rsp, 8
    pop [rax + {RFLAGS}]
    pop [rax + {RSP}]
    LEAVE_USER

/* Stack: vector, 0, rip, cs, rflags, rsp, ss. */
gyre_interrupt:
    test byte ptr [rsp + 24], 3
    jz 2f
    swapgs
    lfence
    push rax
    push rdx
    STAMP
    cld
    cmp qword ptr gs:[{HAS_SMAP}], 0
    je 1f
    clac
1:  mov rax, gs:[{REGISTERS}]
    SAVE_FROM_RBX
    pop [rax + {RDX}]
    pop [rax + {RAX}]
    pop rcx
    mov gs:[{VECTOR}], rcx
    add rsp, 8
    pop [rax + {RIP}]
    add rsp, 8
    pop [rax + {RFLAGS}]
    pop [rax + {RSP}]
    sub ecx, {VECTOR_FIRST_EVENT}
    bts qword ptr gs:[{EVENTS}], rcx
    END_OF_INTERRUPT
    LEAVE_USER
2:  push rax
    push rcx
    push rdx
    mov rcx, [rsp + 24]
    sub ecx, {VECTOR_FIRST_EVENT}
    bts qword ptr gs:[{EVENTS}], rcx
    END_OF_INTERRUPT
    pop rdx
    pop rcx
    pop rax
    add rsp, 16
    iretq

/* Vectors that nothing is programmed to raise; also the local APIC's spurious one, which wants no end of interrupt. */
.balign 16
.globl gyre_spurious
gyre_spurious:
    iretq

.macro PUSH_ALL
    push rax
    push rbx
    push rcx
    push rdx
    push rsi
    push rdi
    push rbp
    push r8
    push r9
    push r10
    push r11
    push r12
    push r13
    push r14
    push r15
.endm

.macro POP_ALL
    pop r15
    pop r14
    pop r13
    pop r12
    pop r11
    pop r10
    pop r9
    pop r8
    pop rbp
    pop rdi
    pop rsi
    pop rdx
    pop rcx
    pop rbx
    pop rax
.endm

/* A fault of the kernel itself: the handler writes a dump and never returns. */
gyre_kernel_exception:
    PUSH_ALL
    cld
    mov rdi, rsp
    and rsp, -16
    call gyre_on_kernel_exception
    ud2

/* On an interrupt stack of its own; a debug trap of a program takes the ordinary way. */
gyre_paranoid:
    cmp qword ptr [rsp], 1
    jne 1f
    test byte ptr [rsp + 24], 3
    jnz gyre_exception
1:  PUSH_ALL
    cld
    mov ecx, 0xc0000101
    rdmsr
    mov r12d, eax
    mov r13d, edx
    mov rax, [rsp + 176]
    mov rdx, rax
    shr rdx, 32
    wrmsr
    cmp qword ptr gs:[{HAS_SMAP}], 0
    je 2f
    clac
2:  mov rdi, rsp
    mov rbp, rsp
    and rsp, -16
    call gyre_on_paranoid
    mov rsp, rbp
    mov ecx, 0xc0000101
    mov eax, r12d
    mov edx, r13d
    wrmsr
    POP_ALL
    cmp qword ptr [rsp], 1
    jne 3f
    test byte ptr [rsp + 24], 3
    jnz gyre_exception
3:  add rsp, 16
    iretq

/* One entry per vector, 16 bytes each. */
.balign 16
.globl gyre_vectors
gyre_vectors:
.set vector, 0
.rept 32
    .balign 16
    .if (0x60227d00 >> vector) & 1
    .else
    .byte 0x6a, 0
    .endif
    .byte 0x6a, vector
    .if (vector == 1) || (vector == 2) || (vector == 8) || (vector == 18)
    jmp gyre_paranoid
    .else
    jmp gyre_exception
    .endif
    .set vector, vector + 1
.endr
.rept 64
    .balign 16
    .byte 0x6a, 0
    .byte 0x6a, vector
    jmp gyre_interrupt
    .set vector, vector + 1
.endr
"#,
    RAX = const offset_of!(Registers, rax),
    RBX = const offset_of!(Registers, rbx),
    RCX = const offset_of!(Registers, rcx),
    RDX = const offset_of!(Registers, rdx),
    RSI = const offset_of!(Registers, rsi),
    RDI = const offset_of!(Registers, rdi),
    RBP = const offset_of!(Registers, rbp),
    RSP = const offset_of!(Registers, rsp),
    R8 = const offset_of!(Registers, r8),
    R9 = const offset_of!(Registers, r9),
    R10 = const offset_of!(Registers, r10),
    R11 = const offset_of!(Registers, r11),
    R12 = const offset_of!(Registers, r12),
    R13 = const offset_of!(Registers, r13),
    R14 = const offset_of!(Registers, r14),
    R15 = const offset_of!(Registers, r15),
    RIP = const offset_of!(Registers, rip),
    RFLAGS = const offset_of!(Registers, rflags),
    USER_DATA = const crate::descriptors::USER_DATA,
    USER_CODE = const crate::descriptors::USER_CODE,
    VECTOR_SYSTEM_CALL = const VECTOR_SYSTEM_CALL,
    VECTOR_FIRST_EVENT = const VECTOR_FIRST_EVENT,
    REGISTERS = const offset::REGISTERS,
    VECTOR = const offset::VECTOR,
    CODE = const offset::CODE,
    CYCLES = const offset::CYCLES,
    EVENTS = const offset::EVENTS,
    TURNS = const offset::TURNS,
    WORK_TURNS = const WORK_TURNS,
    END_OF_INTERRUPT = const offset::END_OF_INTERRUPT,
    HAS_SMAP = const offset::HAS_SMAP,
    RSP0 = const offset::RSP0,
);
