//! What each core has for itself: the structure behind its GS base, and cells that only their own core opens.
//!
//! The kernel runs with interrupts off, and one stack per core, so nothing interleaves with a cell's user but NMI and machine
//! check handlers, which touch none of them.

use crate::descriptors::{GlobalDescriptors, TaskState};
use core::arch::asm;
use core::cell::{Cell, UnsafeCell};
use core::mem::offset_of;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use gyre_platform::{CORES_MAX, Events};

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
    /// Address of the interrupt controller's end-of-interrupt register; 0 where it is a model-specific register.
    pub(crate) end_of_interrupt: Cell<u64>,
    /// Not 0 where SMAP is on and CLAC exists.
    pub(crate) has_smap: Cell<u64>,
    /// When its piece of work began, in cycles; see `watch.rs`.
    pub(crate) work_mark: AtomicU64,
    /// The mark of the work that another core asks it to end; 0 for none.
    pub(crate) asked_to_end: AtomicU64,
    /// The mark of the work for which another core sends an NMI; 0 for none.
    pub(crate) stuck_mark: AtomicU64,
    /// Task state; its `rsp0` is also the stack pointer that a system call continues on.
    pub(crate) task_state: UnsafeCell<TaskState>,
    /// Descriptors.
    pub(crate) descriptors: UnsafeCell<GlobalDescriptors>,
    /// Hardware id of the core.
    pub(crate) apic_id: AtomicU32,
    /// Root of the page table that the core uses.
    pub(crate) loaded_root: AtomicU64,
    /// Root of the page table that the core is about to use.
    pub(crate) entering_root: AtomicU64,
    /// Owner of the extended registers, see `extended.rs`; 0 for nobody.
    pub(crate) extended_owner: AtomicU64,
    /// The context whose segments are loaded, and the bases of FS and GS that were loaded for it.
    pub(crate) user_segments: Cell<(u64, u64, u64)>,
    /// Locks and core-local values of this layer that the core has open.
    pub(crate) open: Cell<u64>,
    /// The heap is not entered with a stack pointer below this; see `guard.rs`.
    pub(crate) heap_floor: Cell<u64>,
    /// No lock of the runtime is taken with a stack pointer below this.
    pub(crate) lock_floor: Cell<u64>,
    /// Where the core returns to when it gives up the work in hand; 0 outside of any.
    pub(crate) resume_point: Cell<u64>,
    /// A failure is being dealt with.
    pub(crate) is_failing: Cell<bool>,
}

/// Offsets into [`CoreBlock`] for the entry code.
pub(crate) mod offset {
    use super::*;
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
    pub(crate) const RSP0: usize = offset_of!(CoreBlock, task_state) + offset_of!(TaskState, rsp0);
}

// SAFETY: `Cell` fields are touched by their own core only (through GS), the atomics by everybody.
unsafe impl Sync for CoreBlock {}

impl CoreBlock {
    const fn new() -> CoreBlock {
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
            work_mark: AtomicU64::new(0),
            asked_to_end: AtomicU64::new(0),
            stuck_mark: AtomicU64::new(0),
            task_state: UnsafeCell::new(TaskState::new()),
            descriptors: UnsafeCell::new(GlobalDescriptors::new()),
            apic_id: AtomicU32::new(0),
            loaded_root: AtomicU64::new(0),
            entering_root: AtomicU64::new(0),
            extended_owner: AtomicU64::new(0),
            user_segments: Cell::new((0, 0, 0)),
            open: Cell::new(0),
            heap_floor: Cell::new(0),
            lock_floor: Cell::new(0),
            resume_point: Cell::new(0),
            is_failing: Cell::new(false),
        }
    }
}

static BLOCKS: [CoreBlock; CORES_MAX] = [const { CoreBlock::new() }; CORES_MAX];
static COUNT: AtomicUsize = AtomicUsize::new(1);

/// The block of core `index`; of the last core beyond the limit.
pub(crate) fn block_of(index: usize) -> &'static CoreBlock {
    &BLOCKS[index.min(CORES_MAX - 1)]
}

/// The block of the core that runs this code.
#[inline(always)]
pub(crate) fn this_core() -> &'static CoreBlock {
    &BLOCKS[core_index()]
}

/// The index of the core that runs this code.
#[inline(always)]
pub fn core_index() -> usize {
    let index: u64;
    // SAFETY: GS points to this core's block from the first lines of the boot code on.
    unsafe { asm!("mov {}, gs:[{}]", out(reg) index, const offset::INDEX, options(pure, readonly, nostack, preserves_flags)) };
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

/// How many cores this instance has; grows while [`crate::start_cores`] runs.
pub fn core_count() -> usize {
    COUNT.load(Ordering::Acquire)
}

/// Says that one more core is there.
pub(crate) fn count_core() {
    COUNT.fetch_add(1, Ordering::Release);
}

/// Takes what interrupts have posted on this core since the last call.
#[inline]
pub fn take_events() -> Events {
    crate::page_table::leave_dropped_table();
    Events(this_core().events.replace(0))
}

/// Posts events on this core, as an interrupt would.
pub(crate) fn post_event_here(bits: u64) {
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
