//! State of one core: the structure behind its GS base, and cells that only their own core opens.
//!
//! The kernel runs with interrupts off, and one stack per core, so nothing interleaves with a cell's user but NMI and machine
//! check handlers, which touch none of them, but for the event word (`report.rs`).
//!
//! Groups of fields: those that entry code reaches by offset come first; then what the core alone changes (cells);
//! then atomics that other cores read or write, each with a word about who does.
//!
//! * [`this_core`] is valid from the first lines of boot on, and also in a core that holds a zone in its wall.
//! * A slot is online while a core runs this instance in it. [`core_count`] counts slots that were ever used.
//! * [`CoreLocal::with`] panics if a core opens a value twice; that is a bug of this layer.

use crate::descriptors::{GlobalDescriptors, TaskState};
use core::arch::asm;
use core::cell::{Cell, UnsafeCell};
use core::mem::offset_of;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use gyre_platform::{CORES_MAX, Events, OwnTime};

/// One core's fixed data. The entry code reaches its first fields through GS by their offsets.
#[repr(C, align(4096))]
pub(crate) struct CoreBlock {
    /// Its own address.
    pub(crate) this: Cell<u64>,
    /// Index of the core.
    pub(crate) index: Cell<u64>,
    /// Registers of the user program that runs or ran last.
    pub(crate) user_registers: Cell<u64>,
    /// Vector by which it came back; [`crate::user_entry::VECTOR_SYSTEM_CALL`] for system calls.
    pub(crate) exit_vector: Cell<u64>,
    /// Error code of that exception.
    pub(crate) exit_code: Cell<u64>,
    /// Time stamp taken on entry.
    pub(crate) exit_cycles: AtomicU64,
    /// The event word: written by interrupt entries, taken by the core's loop.
    pub(crate) events: Cell<u64>,
    /// Address of the interrupt controller's end-of-interrupt register; 0 if it is a model-specific register.
    pub(crate) end_of_interrupt: Cell<u64>,
    /// Not 0 if SMAP is on and CLAC exists.
    pub(crate) has_smap: Cell<u64>,
    /// Turns that are left to its piece of work; see `turns.rs`.
    pub(crate) turns: Cell<u32>,
    /// The locks of the runtime that it holds; see `held.rs`.
    pub(crate) held: Cell<u32>,
    /// The time at which its piece of work began, in cycles; see `watch.rs`.
    pub(crate) work_mark: AtomicU64,
    /// The mark of the work that another core asks it to end; 0 for none.
    pub(crate) asked_to_end: AtomicU64,
    /// The mark of the work for which another core sends an NMI; 0 for none.
    pub(crate) stuck_mark: AtomicU64,
    /// Knocks that it has answered, and whether there is one now.
    pub(crate) knocks: AtomicU64,
    pub(crate) is_knocked: AtomicBool,
    /// The time that it has really had, as far as it shows.
    pub(crate) own_time: OwnTime,
    /// Task state; its `rsp0` is also the stack pointer that a system call continues on.
    pub(crate) task_state: UnsafeCell<TaskState>,
    /// Descriptors.
    pub(crate) descriptors: UnsafeCell<GlobalDescriptors>,
    /// Hardware id of the core.
    pub(crate) apic_id: AtomicU32,
    /// The word of the locks that it takes now: away from what it writes all the time, for who waits for one of them looks at it.
    pub(crate) lock_word: AtomicU32,
    /// Root of the page table that the core uses.
    pub(crate) loaded_root: AtomicU64,
    /// Root of the page table that the core is about to use.
    pub(crate) entering_root: AtomicU64,
    /// Owner of the extended registers, see `extended.rs`; 0 for nobody.
    pub(crate) extended_owner: AtomicU64,
    /// The context whose segments are loaded, and the bases of FS and GS that were loaded for it.
    pub(crate) user_segments: Cell<(u64, u64, u64)>,
    /// The number of the breakpoints that are loaded, see `debug.rs`; 0 for none.
    pub(crate) watches: Cell<u64>,
    /// Locks and core-local values of this layer that the core has open.
    pub(crate) open: Cell<u64>,
    /// The start of the stack that it runs on; 0 if nobody watches that.
    pub(crate) stack_start: Cell<u64>,
    /// Work that enters the heap with a stack pointer below this looks for the reason; see `guard.rs`.
    pub(crate) heap_floor: AtomicU64,
    /// Like `heap_floor`, for locks of the runtime.
    pub(crate) lock_floor: AtomicU64,
    /// The place to which the core returns when it gives up its work; 0 outside of any.
    pub(crate) resume_point: Cell<u64>,
    /// The layer above's note of the work in hand; see `note.rs`.
    pub(crate) note: Cell<*mut u8>,
    /// A failure is being dealt with.
    pub(crate) is_failing: Cell<bool>,
    /// Another core asks it to leave its guest, or not to enter one: see `guest/stop.rs`.
    pub(crate) leave_guest: AtomicU64,
}

/// Offsets into [`CoreBlock`] for the entry code.
pub(crate) mod offset {
    use super::*;
    pub(crate) const THIS: usize = offset_of!(CoreBlock, this);
    pub(crate) const INDEX: usize = offset_of!(CoreBlock, index);
    pub(crate) const REGISTERS: usize = offset_of!(CoreBlock, user_registers);
    pub(crate) const VECTOR: usize = offset_of!(CoreBlock, exit_vector);
    pub(crate) const CODE: usize = offset_of!(CoreBlock, exit_code);
    pub(crate) const CYCLES: usize = offset_of!(CoreBlock, exit_cycles);
    pub(crate) const EVENTS: usize = offset_of!(CoreBlock, events);
    pub(crate) const END_OF_INTERRUPT: usize = offset_of!(CoreBlock, end_of_interrupt);
    pub(crate) const HAS_SMAP: usize = offset_of!(CoreBlock, has_smap);
    pub(crate) const OPEN: usize = offset_of!(CoreBlock, open);
    pub(crate) const HEAP_FLOOR: usize = offset_of!(CoreBlock, heap_floor);
    pub(crate) const LOCK_FLOOR: usize = offset_of!(CoreBlock, lock_floor);
    pub(crate) const ASKED_TO_END: usize = offset_of!(CoreBlock, asked_to_end);
    pub(crate) const TURNS: usize = offset_of!(CoreBlock, turns);
    pub(crate) const HELD: usize = offset_of!(CoreBlock, held);
    pub(crate) const RESUME_POINT: usize = offset_of!(CoreBlock, resume_point);
    pub(crate) const NOTE: usize = offset_of!(CoreBlock, note);
    pub(crate) const LOCK_WORD: usize = offset_of!(CoreBlock, lock_word);
    pub(crate) const LEAVE_GUEST: usize = offset_of!(CoreBlock, leave_guest);
    pub(crate) const RSP0: usize = offset_of!(CoreBlock, task_state) + offset_of!(TaskState, rsp0);
}

// SAFETY: `Cell` fields are touched by their own core only (through GS), the atomics by everybody.
unsafe impl Sync for CoreBlock {}

impl CoreBlock {
    /// A block that no core has yet.
    pub(crate) const fn new(index: usize) -> CoreBlock {
        CoreBlock {
            this: Cell::new(0),
            index: Cell::new(0),
            user_registers: Cell::new(0),
            exit_vector: Cell::new(0),
            exit_code: Cell::new(0),
            exit_cycles: AtomicU64::new(0),
            events: Cell::new(0),
            end_of_interrupt: Cell::new(0),
            has_smap: Cell::new(0),
            turns: Cell::new(0),
            held: Cell::new(0),
            work_mark: AtomicU64::new(0),
            asked_to_end: AtomicU64::new(0),
            stuck_mark: AtomicU64::new(0),
            knocks: AtomicU64::new(0),
            is_knocked: AtomicBool::new(false),
            own_time: OwnTime::new(),
            task_state: UnsafeCell::new(TaskState::new()),
            descriptors: UnsafeCell::new(GlobalDescriptors::new()),
            apic_id: AtomicU32::new(0),
            lock_word: AtomicU32::new(crate::held::first_word(index)),
            loaded_root: AtomicU64::new(0),
            entering_root: AtomicU64::new(0),
            extended_owner: AtomicU64::new(0),
            user_segments: Cell::new((0, 0, 0)),
            watches: Cell::new(0),
            open: Cell::new(0),
            stack_start: Cell::new(0),
            heap_floor: AtomicU64::new(0),
            lock_floor: AtomicU64::new(0),
            resume_point: Cell::new(0),
            note: Cell::new(core::ptr::null_mut()),
            is_failing: Cell::new(false),
            leave_guest: AtomicU64::new(0),
        }
    }
}

static BLOCKS: [CoreBlock; CORES_MAX] = {
    let mut blocks = [const { CoreBlock::new(0) }; CORES_MAX];
    let mut index = 0;
    while index < CORES_MAX {
        blocks[index] = CoreBlock::new(index);
        index += 1;
    }
    blocks
};
static COUNT: AtomicUsize = AtomicUsize::new(1);
/// Cores that run this instance, a bit each.
static ONLINE: AtomicU64 = AtomicU64::new(1);

/// The block of core `index`; of the last core beyond the limit.
pub(crate) fn block_of(index: usize) -> &'static CoreBlock {
    &BLOCKS[index.min(CORES_MAX - 1)]
}

/// The block of the core that runs this code: one of the instance's own, or that of a core that holds a zone in its wall.
#[inline(always)]
pub(crate) fn this_core() -> &'static CoreBlock {
    let this: u64;
    // SAFETY: GS points to this core's block from the first lines of the boot code on.
    unsafe {
        asm!("mov {}, gs:[{}]", out(reg) this, const offset::THIS, options(pure, readonly, nostack, preserves_flags))
    };
    // SAFETY: the word is the block's own address, written before GS is; a block lives as long as a core has it.
    unsafe { &*(this as *const CoreBlock) }
}

/// The index of the core that runs this code.
#[inline(always)]
pub fn core_index() -> usize {
    let index: u64;
    // SAFETY: GS points to this core's block from the first lines of the boot code on.
    unsafe {
        asm!("mov {}, gs:[{}]", out(reg) index, const offset::INDEX, options(pure, readonly, nostack, preserves_flags))
    };
    // The mask lets the compiler drop bounds checks of arrays of CORES_MAX elements.
    index as usize & (CORES_MAX - 1)
}

/// Counts something of this layer that the core opens: work that fails meanwhile cannot be given up.
#[inline(always)]
pub(crate) fn note_opened() {
    // SAFETY: the counter is this core's own.
    unsafe { asm!("inc qword ptr gs:[{}]", const offset::OPEN, options(nostack)) };
}

/// Counts it closed.
#[inline(always)]
pub(crate) fn note_closed() {
    // SAFETY: the counter is this core's own.
    unsafe { asm!("dec qword ptr gs:[{}]", const offset::OPEN, options(nostack)) };
}

/// The number of slots for cores that this instance has used so far; grows while [`crate::start_cores`] runs. A slot whose core has left counts.
pub fn core_count() -> usize {
    COUNT.load(Ordering::Acquire)
}

/// Says that one more core is there: the one that calls.
pub(crate) fn count_core() {
    set_online();
    COUNT.fetch_add(1, Ordering::Release);
}

/// Returns the cores that run this instance, a bit each.
#[inline]
pub fn online_cores() -> u64 {
    ONLINE.load(Ordering::Acquire)
}

/// Returns the hardware id of the core that runs this instance in a slot; `None` if none does.
pub fn hardware_id(slot: usize) -> Option<u32> {
    is_online(slot).then(|| block_of(slot).apic_id.load(Ordering::Acquire))
}

/// True while a core runs this instance.
#[inline]
pub(crate) fn is_online(core: usize) -> bool {
    core < CORES_MAX && online_cores() >> core & 1 == 1
}

/// The cores that run this instance.
pub(crate) fn online() -> impl Iterator<Item = usize> {
    (0..CORES_MAX).filter(|core| is_online(*core))
}

/// The core that calls runs this instance from now on.
pub(crate) fn set_online() {
    ONLINE.fetch_or(1 << core_index(), Ordering::AcqRel);
}

/// The core that calls runs this instance no more.
pub(crate) fn set_offline() {
    ONLINE.fetch_and(!(1 << core_index()), Ordering::AcqRel);
}

/// Notes that the slot of the core that calls is used.
pub(crate) fn count_slot() {
    COUNT.fetch_max(core_index() + 1, Ordering::AcqRel);
}

/// Takes what interrupts have posted on this core since the last call.
#[inline]
pub fn take_events() -> Events {
    crate::page_table::leave_dropped_table();
    Events(this_core().events.replace(0))
}

/// Posts events on this core, as an interrupt would.
pub fn post_event_here(bits: u64) {
    let events = &this_core().events;
    events.set(events.get() | bits);
}

/// A value per core which only that core opens.
pub(crate) struct CoreLocal<T>([Slot<T>; CORES_MAX]);

#[repr(align(64))]
struct Slot<T> {
    busy: Cell<bool>,
    value: UnsafeCell<T>,
}

// SAFETY: `with` reaches the slot of the running core only, and refuses to open it twice.
unsafe impl<T: Send> Sync for CoreLocal<T> {}

impl<T> CoreLocal<T> {
    /// Makes the value of each core.
    pub(crate) const fn new(values: [T; CORES_MAX]) -> CoreLocal<T> {
        let values = core::mem::ManuallyDrop::new(values);
        // SAFETY: `values` is forgotten, each element is read exactly once below.
        let source = unsafe { &*(&raw const values).cast::<[T; CORES_MAX]>() };
        CoreLocal([
            Slot::read(&source[0]),
            Slot::read(&source[1]),
            Slot::read(&source[2]),
            Slot::read(&source[3]),
            Slot::read(&source[4]),
            Slot::read(&source[5]),
            Slot::read(&source[6]),
            Slot::read(&source[7]),
        ])
    }

    /// Opens this core's value.
    #[inline(always)]
    pub(crate) fn with<R>(&self, action: impl FnOnce(&mut T) -> R) -> R {
        let slot = &self.0[core_index()];
        assert!(!slot.busy.replace(true), "core-local value opened twice");
        note_opened();
        // SAFETY: only this core comes here, and `busy` says that it is not inside already.
        let result = action(unsafe { &mut *slot.value.get() });
        slot.busy.set(false);
        note_closed();
        result
    }
}

impl<T> Slot<T> {
    const fn read(from: &T) -> Slot<T> {
        // SAFETY: the caller reads each element of a forgotten array once.
        Slot { busy: Cell::new(false), value: UnsafeCell::new(unsafe { core::ptr::read(from) }) }
    }
}
