//! Starting the other cores: INIT, startup, a trampoline from real mode to the kernel (SDM vol. 3, 8.4).
//!
//! One core at a time, so that indices are dense and each finds its own stack in the trampoline's parameters. A core that does not
//! come in time is given up: should it come later, it finds its number taken back and halts.

use crate::boot::start::{low_page, zone};
use crate::core_local::{core_count, count_core};
use crate::descriptors::INTERRUPT_STACKS;
use crate::instructions::{halt_forever, rdtsc};
use crate::paging::{ACCESSED, GLOBAL, PRESENT, WRITE, copy_entries, find_or_make, reach};
use crate::{apic, descriptors, kernel_map, memory, page_table, time, user};
use core::arch::global_asm;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use gyre_platform::OutOfMemory;

/// Waits so long for a core; other guests of the host may delay it.
const PATIENCE_MS: u64 = 3000;
/// The second startup message follows when the first had no effect for so long.
const SECOND_STARTUP_MS: u64 = 20;

/// Offsets of parameters from the trampoline's start; see the code.
const ROOT_OFFSET: u64 = 0xff0;
const STACK_OFFSET: u64 = 0xff8;

const WAITING: u32 = 1;
const ARRIVED: u32 = 2;
const GIVEN_UP: u32 = 3;

static STATE: AtomicU32 = AtomicU32::new(0);
static NUMBER: AtomicUsize = AtomicUsize::new(0);
static STACK: AtomicU64 = AtomicU64::new(0);
static INTERRUPT_STACK_TOPS: [AtomicU64; INTERRUPT_STACKS] = [const { AtomicU64::new(0) }; INTERRUPT_STACKS];
static ENTRY: AtomicU64 = AtomicU64::new(0);

unsafe extern "C" {
    static gyre_trampoline: u8;
    static gyre_trampoline_end: u8;
}

global_asm!(
    r#"
.section .rodata.trampoline, "a", @progbits
.code16
.globl gyre_trampoline
gyre_trampoline:
    cli
    cld
    movw %cs, %ax
    movw %ax, %ds
    movzwl %ax, %ebx
    shll $4, %ebx
    /* The descriptor table and the far jump hold offsets from here; ebx = physical start. */
    leal (trampoline_gdt - gyre_trampoline)(%ebx), %eax
    movl %eax, (trampoline_gdt_pointer - gyre_trampoline + 2)
    leal (trampoline_long - gyre_trampoline)(%ebx), %eax
    movl %eax, (trampoline_target - gyre_trampoline)
    movl $0xa0, %eax                /* CR4.PAE, PGE */
    movl %eax, %cr4
    movl 0xff0, %eax
    movl %eax, %cr3
    movl $0xc0000080, %ecx          /* EFER.NXE, LME */
    rdmsr
    orl $0x900, %eax
    wrmsr
    lgdtl (trampoline_gdt_pointer - gyre_trampoline)
    movl $0x80010011, %eax          /* CR0.PG, WP, ET, PE: straight to long mode */
    movl %eax, %cr0
    ljmpl *(trampoline_target - gyre_trampoline)
.code64
trampoline_long:
    movl $0x18, %eax
    movl %eax, %ss
    movq 0xff8(%rbx), %rsp
    xorl %ebp, %ebp
    movabsq $gyre_core_main, %rax
    callq *%rax
    ud2
.balign 8
trampoline_gdt:
    .quad 0, 0
    .quad 0x00af9b000000ffff
    .quad 0x00cf93000000ffff
trampoline_gdt_pointer:
    .word 31
    .long 0
trampoline_target:
    .long 0
    .word 0x10
.globl gyre_trampoline_end
gyre_trampoline_end:
.text
"#,
    options(att_syntax)
);

/// Starts the zone's other cores, each of which enters `entry` with its index, and returns how many run then. The first core calls
/// it once; a core that does not come up in time is reported and left out.
pub fn start_cores(entry: fn(usize) -> !) -> usize {
    ENTRY.store(entry as usize as u64, Ordering::Release);
    let zone = zone();
    // A zone of one core may have no page for it.
    let Some(page) = low_page() else { return core_count() };
    if let Err(OutOfMemory) = prepare_trampoline(page) {
        log::error!("no memory to start other cores");
        return core_count();
    }
    for apic_id in &zone.core_ids[1..zone.core_count] {
        match start_core(*apic_id, page) {
            Ok(true) => {}
            Ok(false) => log::error!("core with hardware id {apic_id} did not come up within {PATIENCE_MS} ms and is left out"),
            Err(OutOfMemory) => log::error!("no memory for the stacks of core {apic_id}"),
        }
    }
    core_count()
}

/// Copies the code, and makes a page table with the trampoline's page in the lower half. Both stay: a late core may still come.
fn prepare_trampoline(page: u64) -> Result<(), OutOfMemory> {
    let start = &raw const gyre_trampoline;
    let length = (&raw const gyre_trampoline_end) as usize - start as usize;
    // SAFETY: the page is RAM that nobody uses, and mapped; the code is shorter than the parameters' offset.
    unsafe { core::ptr::copy_nonoverlapping(start, reach(page) as *mut u8, length) };
    let new_table = || memory::raw::take_frames(0, true);
    let root = new_table().filter(|root| *root < 1 << 32).ok_or(OutOfMemory)?;
    // SAFETY: the kernel's half, and a fresh root.
    unsafe { copy_entries(kernel_map::root(), root, 256, 256) };
    // SAFETY: the new root is ours.
    let slot = unsafe { find_or_make(root, page, 1, PRESENT | WRITE | ACCESSED, new_table) }.ok_or(OutOfMemory)?;
    slot.set((page | PRESENT | ACCESSED) & !GLOBAL);
    // SAFETY: a parameter of the trampoline.
    unsafe { ((reach(page) + ROOT_OFFSET) as *mut u64).write_volatile(root) };
    Ok(())
}

fn start_core(apic_id: u32, page: u64) -> Result<bool, OutOfMemory> {
    let number = core_count();
    let (stack, interrupt_stacks) = kernel_map::map_stacks(number)?;
    NUMBER.store(number, Ordering::Relaxed);
    STACK.store(stack, Ordering::Relaxed);
    INTERRUPT_STACK_TOPS.iter().zip(interrupt_stacks).for_each(|(top, value)| top.store(value, Ordering::Relaxed));
    // SAFETY: a parameter of the trampoline.
    unsafe { ((reach(page) + STACK_OFFSET) as *mut u64).write_volatile(stack) };
    STATE.store(WAITING, Ordering::SeqCst);
    apic::send_init(apic_id);
    wait_for_arrival(1);
    apic::send_startup(apic_id, page);
    if !wait_for_arrival(SECOND_STARTUP_MS) {
        apic::send_startup(apic_id, page);
        wait_for_arrival(PATIENCE_MS);
    }
    if STATE.compare_exchange(WAITING, GIVEN_UP, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
        return Ok(false);
    }
    // The core has said that it runs; it now counts itself.
    while core_count() == number {
        core::hint::spin_loop();
    }
    Ok(true)
}

/// True once the core is there.
fn wait_for_arrival(ms: u64) -> bool {
    let end = rdtsc() + ms * time::cycles_per_ms();
    while rdtsc() < end {
        if STATE.load(Ordering::SeqCst) == ARRIVED {
            return true;
        }
        // The emulator may run all cores on one thread: PAUSE lets the other go on.
        core::hint::spin_loop();
    }
    false
}

/// Where a core arrives from the trampoline, on its own stack.
#[unsafe(no_mangle)]
extern "C" fn gyre_core_main() -> ! {
    if STATE.compare_exchange(WAITING, ARRIVED, Ordering::SeqCst, Ordering::SeqCst).is_err() {
        halt_forever();
    }
    let number = NUMBER.load(Ordering::Relaxed);
    let tops = core::array::from_fn(|stack| INTERRUPT_STACK_TOPS[stack].load(Ordering::Relaxed));
    // SAFETY: first thing on this core, with stacks mapped for it.
    unsafe { descriptors::load_descriptors(number, tops) };
    descriptors::protect_core();
    page_table::load_root(kernel_map::root());
    crate::guard::watch_stack(STACK.load(Ordering::Relaxed));
    apic::start();
    user::prepare_core();
    count_core();
    // SAFETY: `start_cores` stored a function of this type.
    let entry = unsafe { core::mem::transmute::<usize, fn(usize) -> !>(ENTRY.load(Ordering::Acquire) as usize) };
    entry(number)
}
