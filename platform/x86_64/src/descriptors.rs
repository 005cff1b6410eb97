//! Segment descriptors, task state and the interrupt table (SDM vol. 3, chapters 3, 6, 8).
//!
//! Selectors are those of Linux, because programs find cs = 0x33 and ss = 0x2b in their signal frames.
//!
//! * [`fill_interrupt_table`] runs once, on the boot core, before the table becomes read-only.
//! * [`load_descriptors`] runs first on each core: it points GS to the core's block. [`protect_core`] then turns on
//!   NX, WP, SMEP, SMAP, UMIP and machine checks.
//! * Four exceptions have stacks of their own: double fault, NMI, machine check, debug. The word below the top of each
//!   leads to the block, for entries that cannot trust GS.
//! * There is no 32-bit user code segment, so no program leaves 64-bit mode.

use crate::core_local::{CoreBlock, block_of};
use crate::instructions::{cpuid, rdmsr, read_cr0, read_cr4, write_cr0, write_cr4, wrmsr};
use core::arch::{asm, global_asm};
use core::cell::UnsafeCell;

/// Kernel code.
pub(crate) const KERNEL_CODE: u16 = 0x10;
/// Kernel data.
pub(crate) const KERNEL_DATA: u16 = 0x18;
/// The place of 32-bit user code: the base from which SYSRET counts. Not present.
pub(crate) const USER_CODE_32: u16 = 0x23;
/// User data.
pub(crate) const USER_DATA: u16 = 0x2b;
/// 64-bit user code.
pub(crate) const USER_CODE: u16 = 0x33;
const TASK_STATE: u16 = 0x40;

/// Bytes of one interrupt stack (IST).
pub(crate) const INTERRUPT_STACK_BYTES: usize = 8192;
/// Interrupt stacks of a core: double fault, NMI, machine check, debug.
pub(crate) const INTERRUPT_STACKS: usize = 4;

/// The 64-bit task state segment.
#[repr(C, packed(4))]
pub(crate) struct TaskState {
    reserved_0: u32,
    /// Stack on entry from user mode.
    pub(crate) rsp0: u64,
    rsp1: u64,
    rsp2: u64,
    reserved_1: u64,
    ist: [u64; 7],
    reserved_2: u64,
    reserved_3: u16,
    /// Beyond the limit: no port is open to user programs.
    io_map: u16,
}

impl TaskState {
    pub(crate) const fn new() -> TaskState {
        TaskState {
            reserved_0: 0,
            rsp0: 0,
            rsp1: 0,
            rsp2: 0,
            reserved_1: 0,
            ist: [0; 7],
            reserved_2: 0,
            reserved_3: 0,
            io_map: 104,
        }
    }
}

/// The global descriptor table of a core.
#[repr(C, align(16))]
pub(crate) struct GlobalDescriptors([u64; 10]);

impl GlobalDescriptors {
    pub(crate) const fn new() -> GlobalDescriptors {
        GlobalDescriptors([
            0,
            0,
            0x00af_9b00_0000_ffff,
            0x00cf_9300_0000_ffff,
            // 32-bit user code would be here; there is none, so that no program leaves 64-bit mode.
            0,
            0x00cf_f300_0000_ffff,
            0x00af_fb00_0000_ffff,
            0,
            0,
            0,
        ])
    }

    fn set_task_state(&mut self, address: u64) {
        let limit = size_of::<TaskState>() as u64 - 1;
        self.0[8] = limit | (address & 0xff_ffff) << 16 | 0x89 << 40 | (address >> 24 & 0xff) << 56;
        self.0[9] = address >> 32;
    }
}

#[derive(Clone, Copy)]
#[repr(C)]
struct InterruptGate {
    low: u64,
    high: u64,
}

/// The interrupt table; read-only once the final page tables are loaded.
#[repr(C, align(4096))]
struct InterruptTable(UnsafeCell<[InterruptGate; 256]>);

// SAFETY: written by the boot core before any other runs, read by hardware afterwards.
unsafe impl Sync for InterruptTable {}

#[unsafe(link_section = ".data.sealed")]
static INTERRUPTS: InterruptTable = InterruptTable(UnsafeCell::new([InterruptGate { low: 0, high: 0 }; 256]));

#[repr(C, packed)]
struct TablePointer {
    limit: u16,
    base: u64,
}

unsafe extern "C" {
    static gyre_vectors: u8;
    static gyre_spurious: u8;
}

/// Bytes between the entries of consecutive vectors.
const VECTOR_STRIDE: u64 = 16;

/// Returns the address of a vector's entry; there are 96.
pub(crate) fn entry_of(vector: u64) -> u64 {
    (&raw const gyre_vectors) as u64 + vector * VECTOR_STRIDE
}

/// Fills the interrupt table. Boot core only, before it is made read-only.
pub(crate) fn fill_interrupt_table() {
    let spurious = (&raw const gyre_spurious) as u64;
    for vector in 0..256u64 {
        let entry = if vector < 96 { entry_of(vector) } else { spurious };
        let stack = match vector {
            8 => 1,
            2 => 2,
            18 => 3,
            1 => 4,
            _ => 0,
        };
        // Breakpoint and overflow are the only ones that programs may raise by INT.
        let privilege = if vector == 3 || vector == 4 { 3 } else { 0 };
        let low = (entry & 0xffff)
            | u64::from(KERNEL_CODE) << 16
            | stack << 32
            | (0x8e | privilege << 5) << 40
            | (entry >> 16 & 0xffff) << 48;
        // SAFETY: only the boot core runs, and the table is still writable.
        unsafe { (*INTERRUPTS.0.get())[vector as usize] = InterruptGate { low, high: entry >> 32 } };
    }
}

/// Points GS to the core's block and loads descriptors, task state and the interrupt table.
///
/// `stacks` is the top of each interrupt stack. The word at a top less 16 holds the block's address: entries that cannot trust GS
/// find it there.
///
/// # Safety
/// Once per core, first thing, on that core; the stacks must be mapped and its alone.
pub(crate) unsafe fn load_descriptors(index: usize, stacks: [u64; INTERRUPT_STACKS]) {
    let block = block_of(index);
    let address = block as *const CoreBlock as u64;
    block.this.set(address);
    block.index.set(index as u64);
    // SAFETY: as the caller says.
    unsafe { set_interrupt_stacks(block, stacks) };
    // SAFETY: nobody else uses this core's descriptors.
    unsafe { (*block.descriptors.get()).set_task_state(block.task_state.get() as u64) };
    let descriptors =
        TablePointer { limit: size_of::<GlobalDescriptors>() as u16 - 1, base: block.descriptors.get() as u64 };
    // SAFETY: the table holds the selectors loaded below.
    unsafe { gyre_load_segments(&raw const descriptors, TASK_STATE) };
    let interrupts = TablePointer { limit: 4095, base: INTERRUPTS.0.get() as u64 };
    // SAFETY: the table is filled.
    unsafe { asm!("lidt [{}]", in(reg) &raw const interrupts, options(readonly, nostack)) };
    for (register, value) in [(0xc000_0101, address), (0xc000_0102, 0)] {
        // SAFETY: GS base, and the user's, exist in long mode.
        unsafe { wrmsr(register, value) };
    }
}

/// Replaces the interrupt stacks of a core.
///
/// # Safety
/// As for [`load_descriptors`].
pub(crate) unsafe fn set_interrupt_stacks(block: &CoreBlock, stacks: [u64; INTERRUPT_STACKS]) {
    for (number, top) in stacks.into_iter().enumerate() {
        let start = top - 16;
        // SAFETY: the caller gives mapped stacks.
        unsafe { *(start as *mut u64) = block as *const CoreBlock as u64 };
        // SAFETY: the core's own task state.
        unsafe { (*block.task_state.get()).ist[number] = start };
    }
}

unsafe extern "C" {
    fn gyre_load_segments(pointer: *const TablePointer, task_state: u16);
}

global_asm!(
    r#"
gyre_load_segments:
    lgdt [rdi]
    mov eax, {data}
    mov ss, ax
    mov ds, ax
    mov es, ax
    xor eax, eax
    mov fs, ax
    mov gs, ax
    ltr si
    xor eax, eax
    lldt ax
    pop rax
    push {code}
    push rax
    retfq
"#,
    data = const KERNEL_DATA,
    code = const KERNEL_CODE,
);

/// Turns on what protects the kernel on this core: no execution and no access of user pages, no writes to read-only pages, no
/// leaks of table addresses; machine checks; SSE and XSAVE for user programs.
///
/// # Panics
/// If the processor lacks no-execute pages.
pub(crate) fn protect_core() {
    let features = cpuid(1, 0);
    let extended = cpuid(7, 0);
    let amd = cpuid(0x8000_0001, 0);
    assert!(amd[3] >> 20 & 1 == 1, "the processor has no NX bit");
    // EFER: SCE, NXE.
    // SAFETY: EFER exists in long mode, NXE was checked.
    unsafe { wrmsr(0xc000_0080, rdmsr(0xc000_0080) | 1 | 1 << 11) };
    // CR0: clear EM, TS, NW, CD; set MP, NE, WP, AM.
    let cr0 = read_cr0() & !(1 << 2 | 1 << 3 | 1 << 29 | 1 << 30) | 1 << 1 | 1 << 5 | 1 << 16 | 1 << 18;
    // SAFETY: the kernel's mappings are correct under WP.
    unsafe { write_cr0(cr0) };
    let optional = |present: u32, bit: u32| u64::from(present) << bit;
    let cr4 = read_cr4() & !(1 << 2 | 1 << 16 | 1 << 22)
        | optional(features[3] >> 13 & 1, 7)
        | 1 << 6
        | 1 << 9
        | 1 << 10
        | optional(extended[2] >> 2 & 1, 11)
        | optional(features[2] >> 26 & 1, 18)
        | optional(extended[1] >> 7 & 1, 20)
        | optional(extended[1] >> 20 & 1, 21);
    // SAFETY: each bit is offered; user pages are never touched through their user addresses.
    unsafe { write_cr4(cr4) };
    crate::debug::start();
    crate::core_local::this_core().has_smap.set(u64::from(extended[1] >> 20 & 1));
}
