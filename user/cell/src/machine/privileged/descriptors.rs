//! Segments, gates and stacks of a cell's core. The table of gates is one for all cores; segments and stacks are each core's own.
//!
//! Each gate has a stack of its own (IST): below the program's stack pointer lie 128 bytes that are a function's, and a processor that
//! stays at one level would write its frame there. Source: AMD64 Architecture Programmer's Manual, volume 2, 4.8, 8.9 and 12.2.

use core::{arch::asm, cell::UnsafeCell, ptr};

use super::{
    area::{Area, Raw},
    entry,
};

/// The selector of the code segment.
pub const CODE: u16 = 0x08;
/// The selector of the stack segment.
pub const DATA: u16 = 0x10;
const TASK: u16 = 0x18;
const CODE_SEGMENT: u64 = 0x00af_9b00_0000_ffff;
const DATA_SEGMENT: u64 = 0x00cf_9300_0000_ffff;
const TASK_BYTES: u64 = 104;
const TASK_AVAILABLE: u64 = 0x89 << 40;
const GATE: u64 = 0x8e00;
/// Those of traps, and one for notices.
const GATES: usize = 33;
/// The word of a task segment that names the first stack of gates, counted in halves of words.
const FIRST_STACK: usize = 9;
const NMI: usize = 2;
const DOUBLE_FAULT: usize = 8;
const MACHINE_CHECK: usize = 18;

const STAR: u32 = 0xc000_0081;
const LSTAR: u32 = 0xc000_0082;
const CSTAR: u32 = 0xc000_0083;
const SFMASK: u32 = 0xc000_0084;
const FS_BASE: u32 = 0xc000_0100;
const GS_BASE: u32 = 0xc000_0101;
/// Flags that are clear in the runtime: direction, interrupts, single step, alignment check.
const CLEARED: u64 = 1 << 10 | 1 << 9 | 1 << 8 | 1 << 18;

const SEGMENTS: [u64; 5] = [0, CODE_SEGMENT, DATA_SEGMENT, 0, 0];
static GATE_TABLE: Raw<[u64; 2 * GATES]> = Raw(UnsafeCell::new([0; 2 * GATES]));

#[repr(C, packed)]
struct Pointer {
    limit: u16,
    base: u64,
}

/// Loads all of them into the core, the address for system calls, and the place of its words.
pub fn load(area: &'static Area) {
    fill_task_segment(area);
    if area.is_first() {
        fill_gates();
    }
    load_tables(area);
    write_register(GS_BASE, ptr::from_ref(&area.words) as u64);
    let star = u64::from(CODE) << 32;
    for [register, value] in [
        [STAR.into(), star],
        [LSTAR.into(), entry::call_address()],
        [CSTAR.into(), entry::call_address()],
        [SFMASK.into(), CLEARED],
    ] {
        write_register(register as u32, value);
    }
}

/// Sets the base of the `fs` segment.
pub fn set_fs(base: u64) {
    write_register(FS_BASE, base);
}

fn write_register(register: u32, value: u64) {
    // SAFETY: the registers of this module are the cell's own.
    unsafe { asm!("wrmsr", in("ecx") register, in("eax") value as u32, in("edx") (value >> 32) as u32) };
}

fn fill_task_segment(area: &Area) {
    let (task, table) = (area.task.0.get(), area.segments.0.get());
    for index in 0..2 {
        let top = area.gate_stack_top(index);
        // SAFETY: nobody reads the segment yet.
        unsafe {
            (*task)[FIRST_STACK + 2 * index] = top as u32;
            (*task)[FIRST_STACK + 2 * index + 1] = (top >> 32) as u32;
        }
    }
    let base = task as u64;
    let low = TASK_AVAILABLE | (TASK_BYTES - 1) | (base & 0xff_ffff) << 16 | (base >> 24 & 0xff) << 56;
    // SAFETY: as above. No port is the cell's: the map begins behind the segment.
    unsafe {
        (*task)[25] = (TASK_BYTES as u32) << 16;
        *table = SEGMENTS;
        (*table)[3] = low;
        (*table)[4] = base >> 32;
    }
}

fn fill_gates() {
    for vector in 0..GATES {
        let address = entry::trap_address(vector);
        let stack = if matches!(vector, NMI | DOUBLE_FAULT | MACHINE_CHECK) { 2 } else { 1 };
        let low = address & 0xffff | u64::from(CODE) << 16 | (GATE | stack) << 32 | (address >> 16 & 0xffff) << 48;
        // SAFETY: nobody reads the table yet.
        unsafe {
            (*GATE_TABLE.0.get())[2 * vector] = low;
            (*GATE_TABLE.0.get())[2 * vector + 1] = address >> 32;
        }
    }
}

fn load_tables(area: &Area) {
    let segments = Pointer { limit: 5 * 8 - 1, base: area.segments.0.get() as u64 };
    let gates = Pointer { limit: (16 * GATES - 1) as u16, base: GATE_TABLE.0.get() as u64 };
    // SAFETY: both tables are whole and stay; the new code segment is as the old one. `fs` and `gs` keep their bases.
    unsafe {
        asm!(
            "lgdt [{segments}]",
            "lidt [{gates}]",
            "mov ss, {data:x}",
            "push {code}",
            "lea {scratch}, [rip + 2f]",
            "push {scratch}",
            "retfq",
            "2:",
            "ltr {task:x}",
            segments = in(reg) ptr::from_ref(&segments),
            gates = in(reg) ptr::from_ref(&gates),
            data = in(reg) u64::from(DATA),
            code = in(reg) u64::from(CODE),
            task = in(reg) u64::from(TASK),
            scratch = out(reg) _,
        );
    }
}
