//! The way into a guest and back, in assembly.
//!
//! Between the first and the last instruction about the global interrupt flag neither interrupts nor NMIs come, so the guest's GS and
//! task state may stand in the processor. Interrupts are let in there, and still wait: they end the stay of a guest that does not take
//! them itself. A request to leave is looked at in there too: made before, it is seen; made later, its NMI ends the stay. State that the
//! processor does not exchange (general registers) is exchanged by hand.

use crate::core_local::offset;
use crate::instructions::{rdmsr, wrmsr};
use core::arch::global_asm;
use core::mem::offset_of;
use gyre_platform::Registers;

const EFER: u32 = 0xc000_0080;
const EFER_GUESTS: u64 = 1 << 12;
const HOST_SAVE_ADDRESS: u32 = 0xc001_0117;

unsafe extern "C" {
    fn gyre_enter_guest(block: u64, registers: *mut Registers, host: u64) -> u64;
}

global_asm!(
    r#"
.balign 16
.globl gyre_enter_guest
gyre_enter_guest:
    push rbx
    push rbp
    push r12
    push r13
    push r14
    push r15
    push rdx
    push rsi
    mov rax, rdx
    vmsave rax
    mov rax, rdi
    clgi
    test byte ptr gs:[{LEAVE_GUEST}], 1
    jnz 9f
    sti
    vmload rax
    mov rbx, [rsi + {RBX}]
    mov rcx, [rsi + {RCX}]
    mov rdx, [rsi + {RDX}]
    mov rdi, [rsi + {RDI}]
    mov rbp, [rsi + {RBP}]
    mov r8, [rsi + {R8}]
    mov r9, [rsi + {R9}]
    mov r10, [rsi + {R10}]
    mov r11, [rsi + {R11}]
    mov r12, [rsi + {R12}]
    mov r13, [rsi + {R13}]
    mov r14, [rsi + {R14}]
    mov r15, [rsi + {R15}]
    mov rsi, [rsi + {RSI}]
    vmrun rax
    vmsave rax
    xchg rsi, [rsp]
    mov [rsi + {RBX}], rbx
    mov [rsi + {RCX}], rcx
    mov [rsi + {RDX}], rdx
    mov [rsi + {RDI}], rdi
    mov [rsi + {RBP}], rbp
    mov [rsi + {R8}], r8
    mov [rsi + {R9}], r9
    mov [rsi + {R10}], r10
    mov [rsi + {R11}], r11
    mov [rsi + {R12}], r12
    mov [rsi + {R13}], r13
    mov [rsi + {R14}], r14
    mov [rsi + {R15}], r15
    pop rax
    mov [rsi + {RSI}], rax
    pop rax
    vmload rax
    cli
    stgi
    xor eax, eax
8:  pop r15
    pop r14
    pop r13
    pop r12
    pop rbp
    pop rbx
    ret
9:  stgi
    add rsp, 16
    mov eax, 1
    jmp 8b
"#,
    RBX = const offset_of!(Registers, rbx),
    RCX = const offset_of!(Registers, rcx),
    RDX = const offset_of!(Registers, rdx),
    RSI = const offset_of!(Registers, rsi),
    RDI = const offset_of!(Registers, rdi),
    RBP = const offset_of!(Registers, rbp),
    R8 = const offset_of!(Registers, r8),
    R9 = const offset_of!(Registers, r9),
    R10 = const offset_of!(Registers, r10),
    R11 = const offset_of!(Registers, r11),
    R12 = const offset_of!(Registers, r12),
    R13 = const offset_of!(Registers, r13),
    R14 = const offset_of!(Registers, r14),
    R15 = const offset_of!(Registers, r15),
    LEAVE_GUEST = const offset::LEAVE_GUEST,
);

/// The physical addresses of the areas of one core of a guest.
pub(super) struct Areas {
    /// The control block.
    pub(super) block: u64,
    /// The processor saves the host here by itself.
    pub(super) host_save: u64,
    /// The rest of the host is saved here.
    pub(super) host_state: u64,
}

/// Whether a stay has begun.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stay {
    /// The guest ran, and has left.
    Over,
    /// It did not run: this core is asked not to enter.
    Refused,
}

/// Runs the guest on this core until it leaves.
///
/// # Safety
/// The processor has the instructions; the block describes a guest that is held back from everything of the host, and it and the
/// other two areas are the caller's pages.
pub(super) unsafe fn run(areas: &Areas, registers: &mut Registers) -> Stay {
    // SAFETY: EFER exists.
    let efer = unsafe { rdmsr(EFER) };
    // A reset of the core clears the bit, and the address below.
    if efer & EFER_GUESTS == 0 {
        // SAFETY: the processor knows the bit, as the caller says.
        unsafe { wrmsr(EFER, efer | EFER_GUESTS) };
    }
    // SAFETY: the register exists with that bit, and the page is the caller's.
    unsafe { wrmsr(HOST_SAVE_ADDRESS, areas.host_save) };
    // SAFETY: as the caller says.
    match unsafe { gyre_enter_guest(areas.block, registers, areas.host_state) } {
        0 => Stay::Over,
        _ => Stay::Refused,
    }
}
