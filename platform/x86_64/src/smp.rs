//! Starting the other cores: INIT, startup, a trampoline from real mode to the kernel (SDM vol. 3, 8.4).
//!
//! In a zone the supervisor's parking loop hands the core over instead: no core of a zone is ever sent INIT or a startup message by it. From
//! its arrival on such a core goes the same way as others.
//!
//! One core at a time, so that indices are dense and each finds its own stack in the trampoline's parameters. A core that does not
//! come in time is given up: should it come later, it finds its number taken back and halts, or goes back to the parking loop.
//!
//! A core is told nothing but what its entry needs: it finds its number and its stacks in the statics below.
//! A supervisor has one trampoline for two ends. While [`start_cores`] runs it leads into this kernel, otherwise to the parking loop.

use crate::boot::start::{low_page, zone};
use crate::core_local::{core_count, count_core, is_online};
use crate::descriptors::INTERRUPT_STACKS;
use crate::instructions::{halt_forever, rdtsc};
use crate::paging::{ACCESSED, GLOBAL, PRESENT, WRITE, copy_entries, find_or_make, reach};
use crate::zone::cores::{self, WayIn};
use crate::zone::{crossing, inside};
use crate::{apic, descriptors, kernel_map, memory, page_table, time, user};
use core::arch::global_asm;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use gyre_platform::{CORES_MAX, OutOfMemory};

/// Waits so long for a core that starts; other guests of the host may delay it. Meanwhile the console tells each [`TELL_MS`].
const START_MS: u64 = 60_000;
/// How often it tells, ms.
const TELL_MS: u64 = 3000;
/// Waits so long for a core that waits for a call; other guests of the host may delay it.
pub(crate) const PATIENCE_MS: u64 = 3000;
/// The second startup message follows when the first had no effect for so long.
const SECOND_STARTUP_MS: u64 = 20;

/// Offsets of parameters from the trampoline's start; see the code.
const ENTRY_OFFSET: u64 = 0xfe8;
const ROOT_OFFSET: u64 = 0xff0;
const STACK_OFFSET: u64 = 0xff8;

const WAITING: u32 = 1;
const ARRIVED: u32 = 2;
const GIVEN_UP: u32 = 3;

static STATE: AtomicU32 = AtomicU32::new(0);
static NUMBER: AtomicUsize = AtomicUsize::new(0);
static STACK: AtomicU64 = AtomicU64::new(0);
static INTERRUPT_STACK_TOPS: [AtomicU64; INTERRUPT_STACKS] = [const { AtomicU64::new(0) }; INTERRUPT_STACKS];
/// A function of type `fn(usize) -> !` that the core which is waited for enters.
static ENTRY: AtomicU64 = AtomicU64::new(0);
/// The one that was given to [`start_cores`].
static FIRST_ENTRY: AtomicU64 = AtomicU64::new(0);

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
    callq *0xfe8(%rbx)
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

/// The way in which a core is brought to this kernel.
#[derive(Clone, Copy)]
enum Way {
    /// By INIT and startup, at a page below 640 KiB.
    Startup {
        /// The page.
        page: u64,
        /// The page table to load, which has the page.
        root: u64,
    },
    /// From the supervisor's parking loop.
    Parking,
}

/// Starts the zone's other cores, each of which enters `entry` with its index, and returns how many run then. The first core calls
/// it once; a core that does not come up in time is reported and left out.
pub fn start_cores(entry: fn(usize) -> !) -> usize {
    FIRST_ENTRY.store(entry as usize as u64, Ordering::Release);
    let zone = zone();
    let way = match low_page() {
        _ if inside::zone_page().is_some() => Ok(Way::Parking),
        Some(page) => way_by_startup(page),
        // A machine of one core may have no page for it.
        None => return core_count(),
    };
    let Ok(way) = way else {
        log::error!("no memory to start other cores");
        return core_count();
    };
    for (slot, apic_id) in zone.core_ids.iter().enumerate().take(zone.core_count).skip(1) {
        if let Err(reason) = start_core(slot, *apic_id, way) {
            log::error!("core with hardware id {apic_id} is left out: {reason}");
        }
    }
    lead_to_parking();
    core_count()
}

/// Why a core does not run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotStarted {
    /// There is no memory for its stacks.
    OutOfMemory,
    /// It did not come in time, or no core waits there.
    Absent,
    /// The instance has no slot for it.
    NoSlot,
    /// Another core is on its way.
    Busy,
}

impl core::fmt::Display for NotStarted {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            NotStarted::OutOfMemory => f.write_str("no memory for its stacks"),
            NotStarted::Absent => f.write_str("it did not come up in time"),
            NotStarted::NoSlot => write!(f, "there is no free slot for it, of {CORES_MAX}"),
            NotStarted::Busy => f.write_str("another core is on its way"),
        }
    }
}

fn way_by_startup(page: u64) -> Result<Way, OutOfMemory> {
    place_trampoline(page);
    Ok(Way::Startup { page, root: make_root(page)? })
}

/// The way of the trampoline.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Startup {
    /// The page table to load, below 4 GiB; the trampoline's page is in it at its physical address.
    pub(crate) root: u64,
    /// The end of a stack there.
    pub(crate) stack: u64,
    /// The code to call there.
    pub(crate) entry: u64,
}

/// Copies the trampoline's code to its page, where it stays.
pub(crate) fn place_trampoline(page: u64) {
    let start = &raw const gyre_trampoline;
    let length = (&raw const gyre_trampoline_end) as usize - start as usize;
    // SAFETY: the page is RAM that nobody uses, and mapped; the code is shorter than the parameters' offset.
    unsafe { core::ptr::copy_nonoverlapping(start, reach(page) as *mut u8, length) };
}

/// In a supervisor, leads cores that start from now on to the parking loop.
pub(crate) fn lead_to_parking() {
    if let (Some(page), Some(startup)) = (low_page(), crate::zone::parking::startup()) {
        lead(page, &startup);
    }
}

fn lead(page: u64, startup: &Startup) {
    let parameters = [(ROOT_OFFSET, startup.root), (STACK_OFFSET, startup.stack), (ENTRY_OFFSET, startup.entry)];
    for (offset, value) in parameters {
        // SAFETY: a parameter of the trampoline.
        unsafe { ((reach(page) + offset) as *mut u64).write_volatile(value) };
    }
}

/// Makes a page table with the trampoline's page in the lower half. It stays: a late core may still come.
fn make_root(page: u64) -> Result<u64, OutOfMemory> {
    let new_table = || memory::raw::take_frames(0, true);
    let root = new_table().filter(|root| *root < 1 << 32).ok_or(OutOfMemory)?;
    // SAFETY: the kernel's half, and a fresh root.
    unsafe { copy_entries(kernel_map::root(), root, 256, 256) };
    // SAFETY: the new root is ours.
    let slot = unsafe { find_or_make(root, page, 1, PRESENT | WRITE | ACCESSED, new_table) }.ok_or(OutOfMemory)?;
    slot.set((page | PRESENT | ACCESSED) & !GLOBAL);
    Ok(root)
}

/// The arrival of a core in a zone that runs.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// The number of the box at which the core waits.
    pub place: usize,
    /// The slot of this instance that it comes to; no core is in it.
    pub slot: usize,
    /// The function that it enters, with its slot.
    pub entry: fn(usize) -> !,
}

/// Calls a core that waits at a box into this zone. It comes by itself and is not yet online when it enters the function: what that does with
/// the slot is the engine's. One core is called at a time; one that does not come is given up by [`give_up_core`].
///
/// # Errors
/// [`NotStarted`].
pub fn fetch_core(arrival: &Arrival) -> Result<(), NotStarted> {
    if arrival.slot >= CORES_MAX || is_online(arrival.slot) {
        return Err(NotStarted::NoSlot);
    }
    let stack = expect_core(arrival.slot, arrival.entry)?;
    let way = WayIn { root: crossing::root(), stack, entry: enter_from_parking };
    if way.root != 0 && cores::call(arrival.place, &way) {
        return Ok(());
    }
    give_up_core();
    Err(NotStarted::Absent)
}

/// Gives up the core that is on its way; false if it has come, or none is. If it comes later it goes back to the parking loop.
pub fn give_up_core() -> bool {
    STATE.compare_exchange(WAITING, GIVEN_UP, Ordering::SeqCst, Ordering::SeqCst).is_ok()
}

/// Gets ready for a core: its stacks, and what it is told. Returns the top of its stack.
fn expect_core(slot: usize, entry: fn(usize) -> !) -> Result<u64, NotStarted> {
    if STATE.load(Ordering::SeqCst) == WAITING {
        return Err(NotStarted::Busy);
    }
    let (stack, interrupt_stacks) = kernel_map::map_stacks(slot).map_err(|OutOfMemory| NotStarted::OutOfMemory)?;
    NUMBER.store(slot, Ordering::Relaxed);
    STACK.store(stack, Ordering::Relaxed);
    INTERRUPT_STACK_TOPS.iter().zip(interrupt_stacks).for_each(|(top, value)| top.store(value, Ordering::Relaxed));
    ENTRY.store(entry as usize as u64, Ordering::Relaxed);
    STATE.store(WAITING, Ordering::SeqCst);
    Ok(stack)
}

/// Starts the core with this number in the zone's list.
fn start_core(place: usize, apic_id: u32, way: Way) -> Result<(), NotStarted> {
    let number = core_count();
    if number >= CORES_MAX {
        return Err(NotStarted::NoSlot);
    }
    let stack = expect_core(number, begin)?;
    match way {
        Way::Startup { page, root } => start_up(apic_id, page, root, stack),
        Way::Parking => call_parked(place, stack),
    }
    if give_up_core() {
        return Err(NotStarted::Absent);
    }
    // The core has said that it runs; it now counts itself.
    while core_count() == number {
        core::hint::spin_loop();
    }
    Ok(())
}

/// The first act of a core that [`start_cores`] starts.
fn begin(number: usize) -> ! {
    count_core();
    enter(&FIRST_ENTRY, number)
}

/// Enters the function in a static, for good.
fn enter(function: &AtomicU64, number: usize) -> ! {
    // SAFETY: both statics hold functions of this type before a core is expected.
    let entry = unsafe { core::mem::transmute::<usize, fn(usize) -> !>(function.load(Ordering::Acquire) as usize) };
    entry(number)
}

fn start_up(apic_id: u32, page: u64, root: u64, stack: u64) {
    lead(page, &Startup { root, stack, entry: gyre_core_main as *const () as u64 });
    apic::send_init(apic_id);
    wait_for_arrival(1);
    apic::send_startup(apic_id, page);
    if !wait_for_arrival(SECOND_STARTUP_MS) {
        apic::send_startup(apic_id, page);
        wait_for_start(apic_id);
    }
}

fn wait_for_start(apic_id: u32) {
    for waited in 1..=START_MS / TELL_MS {
        if wait_for_arrival(TELL_MS) {
            return;
        }
        log::warn!("core with hardware id {apic_id} has not come up for {} s", waited * TELL_MS / 1000);
    }
}

/// Calls a core that waits in the parking loop, or will soon: the supervisor may still be bringing it there.
fn call_parked(slot: usize, stack: u64) {
    let way = WayIn { root: crossing::root(), stack, entry: enter_from_parking };
    let end = rdtsc() + PATIENCE_MS * time::cycles_per_ms();
    while way.root != 0 && rdtsc() < end {
        if cores::call(slot, &way) {
            wait_for_arrival(PATIENCE_MS);
            return;
        }
        core::hint::spin_loop();
    }
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

/// Continues on a core that comes from the trampoline, on its own stack.
extern "C" fn gyre_core_main() -> ! {
    if STATE.compare_exchange(WAITING, ARRIVED, Ordering::SeqCst, Ordering::SeqCst).is_err() {
        halt_forever();
    }
    join()
}

/// Continues on a core that comes from the parking loop by the box with this number, on its own stack.
extern "C" fn enter_from_parking(slot: u64) -> ! {
    if STATE.compare_exchange(WAITING, ARRIVED, Ordering::SeqCst, Ordering::SeqCst).is_err() {
        crossing::leave();
    }
    cores::tell_running(slot as usize);
    join()
}

/// Becomes the core that is waited for.
fn join() -> ! {
    let number = NUMBER.load(Ordering::Relaxed);
    let tops = core::array::from_fn(|stack| INTERRUPT_STACK_TOPS[stack].load(Ordering::Relaxed));
    // SAFETY: first thing on this core, with stacks mapped for it.
    unsafe { descriptors::load_descriptors(number, tops) };
    descriptors::protect_core();
    page_table::load_root(kernel_map::root());
    crate::guard::watch_stack(STACK.load(Ordering::Relaxed));
    apic::start();
    user::prepare_core();
    enter(&ENTRY, number)
}
