//! The code of the parking loop: one page, which hangs on nothing of the instance that put it there.
//!
//! A core comes from the trampoline (`gyre_parking_arrive`), from an instance (`gyre_parking_back`) or from the wall of one
//! (`gyre_parking_held`), always with interrupts off. It drops
//! what it had (translations, control registers, what its interrupt controller was to raise), says that it is there, and halts until its slot's
//! word says otherwise. Each core has a slot of [`SLOT_BYTES`]: the [`Mailbox`](super::mailbox::Mailbox), then its stack. Interrupts are
//! acknowledged and forgotten; NMIs too. An exception here halts the core for good; a reset brings it back.
//!
//! The page is mapped at its physical address in the parking table and in those of the instances that cores come from. So nothing in it is
//! written but before the first core comes, and the words behind the code are found relative to it.

use super::mailbox::{BOXED, ENTER, IDLE, Mailbox, SLOT_BYTES, START};
use core::arch::global_asm;
use core::mem::offset_of;
use gyre_platform::CoreBox;

unsafe extern "C" {
    pub(crate) static gyre_parking: u8;
    pub(crate) static gyre_parking_back: u8;
    pub(crate) static gyre_parking_held: u8;
    pub(crate) static gyre_parking_arrive: u8;
    pub(crate) static gyre_parking_fault: u8;
    pub(crate) static gyre_parking_nothing: u8;
    pub(crate) static gyre_parking_interrupt: u8;
    pub(crate) static gyre_parking_segments: u8;
    pub(crate) static gyre_parking_words: u8;
    pub(crate) static gyre_parking_end: u8;
}

/// The words behind the code.
#[repr(C)]
pub(crate) struct Words {
    /// Physical address of the parking table.
    pub(crate) root: u64,
    /// Physical address of the slot of hardware id 0.
    pub(crate) slots: u64,
    /// Physical address of the local interrupt controller's registers; 0 if they are model-specific ones.
    pub(crate) registers: u64,
    /// Limit and address of the segment descriptors, in the last ten bytes.
    pub(crate) segments: [u16; 8],
    /// Limit and address of the interrupt table, in the last ten bytes.
    pub(crate) interrupts: [u16; 8],
    /// An interrupt table without entries.
    pub(crate) no_interrupts: [u16; 8],
}

global_asm!(
    r#"
.section .rodata.parking, "a", @progbits
.balign 16
.code64
.globl gyre_parking, gyre_parking_back, gyre_parking_held, gyre_parking_arrive, gyre_parking_fault, gyre_parking_nothing, gyre_parking_interrupt
.globl gyre_parking_segments, gyre_parking_words, gyre_parking_end
gyre_parking:
gyre_parking_back:
    cli
    cld
    mov rax, [rip + gyre_parking_words + {ROOT}]
    mov cr3, rax
    xor r12d, r12d
    xor r13d, r13d
    jmp 1f
    /* From a wall, with NMIs held back: they are let in once the loop's own interrupt table is loaded. */
gyre_parking_held:
    cli
    cld
    mov rax, [rip + gyre_parking_words + {ROOT}]
    mov cr3, rax
    xor r12d, r12d
    mov r13d, 1
    jmp 1f
gyre_parking_arrive:
    mov r12d, 1
    xor r13d, r13d
1:
    /* Without PGE and PCIDE no translation survives, of global pages either. */
    mov eax, 0x20
    mov cr4, rax
    mov eax, 0xa0
    mov cr4, rax
    mov eax, 0x80010011             /* CR0.PG, WP, ET, PE */
    mov cr0, rax
    mov eax, 1
    cpuid
    shr ebx, 24                     /* the hardware id */
    imul ebx, ebx, {SLOT_BYTES}
    add rbx, [rip + gyre_parking_words + {SLOTS}]
    lea rsp, [rbx + {SLOT_BYTES}]
    lgdt [rip + gyre_parking_words + {SEGMENTS} + 6]
    lidt [rip + gyre_parking_words + {INTERRUPTS} + 6]
    mov eax, 0x18
    mov ss, eax
    mov ds, eax
    mov es, eax
    xor eax, eax
    mov fs, eax
    mov gs, eax
    lldt ax
    push 0x10
    lea rax, [rip + 2f]
    push rax
    retfq
2:
    test r13d, r13d
    jz 3f
    stgi
3:
    mov ecx, 0xc0000080             /* EFER: LMA as it is, NXE, LME */
    rdmsr
    and eax, 0x400
    or eax, 0x900
    xor edx, edx
    wrmsr
    mov ecx, 0x277                  /* PAT as reset leaves it (SDM vol. 3, 12.12.4) */
    mov eax, 0x00070406
    mov edx, eax
    wrmsr
    mov eax, 0x400
    mov dr7, rax

    /* The interrupt controller: on, everything masked but NMIs. */
    mov r8, [rip + gyre_parking_words + {REGISTERS}]
    mov ecx, 0x1b
    rdmsr
    or eax, 0x800
    test r8, r8
    jnz 3f
    or eax, 0x400                   /* x2APIC */
3:  wrmsr
    lea r9, [rip + parking_settings]
3:  mov ecx, [r9]
    mov eax, [r9 + 4]
    test ecx, ecx
    jz 4f
    call parking_write
    add r9, 8
    jmp 3b
    /* The handling that the core was in ends: at most one interrupt of each priority class. */
4:  mov r10d, 16
5:  mov ecx, 0xa0
    call parking_read
    test eax, 0xf0
    jz 6f
    mov ecx, 0xb0
    xor eax, eax
    call parking_write
    dec r10d
    jnz 5b
6:
    /* It is there: at the box of an instance, or idle. */
    add [rbx + {STARTS}], r12
    mov rax, [rbx + {WORD}]
7:  mov r8, rax
    and r8, -64
    mov ecx, r8d
    test ecx, ecx
    jz 8f
    mov r9, rax
    rdtsc
    mov [rcx + {SINCE}], eax
    mov [rcx + {SINCE} + 4], edx
    mov rax, r9
    mov dword ptr [rcx + {STATE}], {PARKED}
    or r8, {BOXED}
    jmp 9f
8:  or r8, {IDLE}
9:  lock cmpxchg [rbx + {WORD}], r8
    jne 7b

parking_wait:
    mov rax, [rbx + {WORD}]
    mov r8, rax
    and r8, -64
    mov ecx, eax
    and ecx, 63
    cmp ecx, {BOXED}
    je parking_box
    cmp ecx, {ENTER}
    je parking_enter
    cmp ecx, {START}
    je parking_start
parking_halt:
    sti
    hlt
    cli
    jmp parking_wait

    /* r8 = the word without its state: the core is away when it is written. */
parking_box:
    mov ecx, r8d
    cmp dword ptr [rcx + {STATE}], {CALLED}
    jne parking_halt
    lock cmpxchg [rbx + {WORD}], r8
    jne parking_wait
    mov rax, [rcx + {BOX_ROOT}]
    mov rdx, [rcx + {BOX_STACK}]
    mov rsi, [rcx + {BOX_ENTRY}]
    mov rdi, [rcx + {BOX_ARGUMENT}]
    jmp 2f
parking_enter:
    lock cmpxchg [rbx + {WORD}], r8
    jne parking_wait
    mov rax, [rbx + {MAIL_ROOT}]
    mov rdx, [rbx + {MAIL_STACK}]
    mov rsi, [rbx + {MAIL_ENTRY}]
    mov rdi, [rbx + {MAIL_ARGUMENT}]
2:  xor ebx, ebx
    xor ecx, ecx
    xor ebp, ebp
    xor r8d, r8d
    xor r9d, r9d
    xor r10d, r10d
    xor r11d, r11d
    xor r12d, r12d
    xor r13d, r13d
    xor r14d, r14d
    xor r15d, r15d
    mov cr3, rax
    mov rsp, rdx
    push 0                          /* no caller: the end of traces */
    jmp rsi

    /* To 32-bit protected mode without paging, as a PVH loader leaves it. */
parking_start:
    lock cmpxchg [rbx + {WORD}], r8
    jne parking_wait
    mov esi, [rbx + {MAIL_ENTRY}]
    mov ebx, [rbx + {MAIL_ARGUMENT}]
    lidt [rip + gyre_parking_words + {NO_INTERRUPTS} + 6]
    push 0x08
    lea rax, [rip + 2f]
    push rax
    retfq
.code32
2:  mov eax, cr0
    and eax, 0x7fffffff
    mov cr0, eax
    mov ecx, 0xc0000080
    xor eax, eax
    xor edx, edx
    wrmsr
    mov cr4, eax
    mov eax, 0x11
    mov cr0, eax
    mov eax, 0x18
    mov ss, eax
    mov ds, eax
    mov es, eax
    mov fs, eax
    mov gs, eax
    xor eax, eax
    xor ecx, ecx
    xor edi, edi
    xor ebp, ebp
    jmp esi
.code64

    /* ecx = register, r8 = address of the registers or 0; value in eax. */
parking_write:
    test r8, r8
    jz 2f
    mov [r8 + rcx], eax
    ret
2:  xor edx, edx
    shr ecx, 4
    add ecx, 0x800
    wrmsr
    ret
parking_read:
    test r8, r8
    jz 2f
    mov eax, [r8 + rcx]
    ret
2:  shr ecx, 4
    add ecx, 0x800
    rdmsr
    ret

gyre_parking_interrupt:
    push rax
    push rcx
    push rdx
    push r8
    mov r8, [rip + gyre_parking_words + {REGISTERS}]
    mov ecx, 0xb0
    xor eax, eax
    call parking_write
    pop r8
    pop rdx
    pop rcx
    pop rax
gyre_parking_nothing:
    iretq
gyre_parking_fault:
    cli
    hlt
    jmp gyre_parking_fault

.balign 8
    /* Register, value: priority, spurious vector, timer and its count, performance counters, pins, errors. */
parking_settings:
    .long 0x80, 0, 0xf0, 0x1ff, 0x320, 0x10000, 0x380, 0, 0x340, 0x10000, 0x350, 0x10000, 0x360, 0x400, 0x370, 0x10000, 0, 0
.balign 16
gyre_parking_segments:
    .quad 0
    .quad 0x00cf9b000000ffff        /* 0x08: 32-bit code */
    .quad 0x00af9b000000ffff        /* 0x10: 64-bit code */
    .quad 0x00cf93000000ffff        /* 0x18: data */
    /* The assembler refuses code that is longer; the words end before the page does. */
.org gyre_parking + 0xe00
gyre_parking_words:
    .skip {WORDS_BYTES}
gyre_parking_end:
.text
"#,
    ROOT = const offset_of!(Words, root),
    SLOTS = const offset_of!(Words, slots),
    REGISTERS = const offset_of!(Words, registers),
    SEGMENTS = const offset_of!(Words, segments),
    INTERRUPTS = const offset_of!(Words, interrupts),
    NO_INTERRUPTS = const offset_of!(Words, no_interrupts),
    WORDS_BYTES = const size_of::<Words>(),
    SLOT_BYTES = const SLOT_BYTES,
    WORD = const offset_of!(Mailbox, word),
    STARTS = const offset_of!(Mailbox, starts),
    MAIL_ROOT = const offset_of!(Mailbox, root),
    MAIL_STACK = const offset_of!(Mailbox, stack),
    MAIL_ENTRY = const offset_of!(Mailbox, entry),
    MAIL_ARGUMENT = const offset_of!(Mailbox, argument),
    BOXED = const BOXED,
    IDLE = const IDLE,
    ENTER = const ENTER,
    START = const START,
    STATE = const offset_of!(CoreBox, state),
    SINCE = const offset_of!(CoreBox, since_cycle),
    BOX_ROOT = const offset_of!(CoreBox, root),
    BOX_STACK = const offset_of!(CoreBox, stack),
    BOX_ENTRY = const offset_of!(CoreBox, entry),
    BOX_ARGUMENT = const offset_of!(CoreBox, argument),
    PARKED = const CoreBox::PARKED,
    CALLED = const CoreBox::CALLED,
);
