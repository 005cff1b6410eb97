//! The area of a core: the words that the entry code uses, its segments and its stacks. The core finds it by the base of `gs`, which programs
//! on x86-64 leave alone.
//!
//! Left out: a program that sets the base of `gs` itself loses its own cell.

use core::{
    arch::asm,
    cell::UnsafeCell,
    mem::offset_of,
    sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering},
};

use crate::runtime::CORES_MAX;

const RUNTIME_STACK_BYTES: usize = 128 << 10;
const STACK_BYTES: usize = 16 << 10;

/// The words of the entry code.
#[repr(C)]
pub struct Words {
    /// The address behind the general registers of the fiber that runs.
    pub registers: AtomicU64,
    /// The address of its extended registers.
    pub extended: AtomicU64,
    /// The top of the runtime's stack.
    pub stack: AtomicU64,
    /// rsp, rflags, rip and rax at a trap or call.
    scratch: [AtomicU64; 4],
    /// The code of the last trap.
    pub code: AtomicU64,
    /// The address of the words.
    own: AtomicU64,
    /// The last trap.
    pub vector: AtomicU32,
    /// The process.
    pub pid: AtomicU32,
    /// The core.
    pub number: AtomicU32,
    /// Not 0: the processor has XSAVE.
    pub xsave: AtomicU8,
}

/// Offsets for the entry code.
pub mod offset {
    use super::{Words, offset_of};

    pub const REGISTERS: usize = offset_of!(Words, registers);
    pub const EXTENDED: usize = offset_of!(Words, extended);
    pub const STACK: usize = offset_of!(Words, stack);
    pub const SCRATCH: usize = offset_of!(Words, scratch);
    pub const CODE: usize = offset_of!(Words, code);
    pub const VECTOR: usize = offset_of!(Words, vector);
    pub const PID: usize = offset_of!(Words, pid);
    pub const XSAVE: usize = offset_of!(Words, xsave);
}

/// Memory that the processor, or one core alone, uses.
#[repr(C, align(64))]
pub struct Raw<T>(pub UnsafeCell<T>);

// SAFETY: it is written by its core alone, or before the processor is told of it.
unsafe impl<T> Sync for Raw<T> {}

/// The area of a core.
#[repr(C, align(64))]
pub struct Area {
    /// The words of the entry code.
    pub words: Words,
    /// Segments.
    pub segments: Raw<[u64; 5]>,
    /// The task segment, which names the stacks of gates.
    pub task: Raw<[u32; 26]>,
    /// Stacks of gates.
    pub stacks: Raw<[[u8; STACK_BYTES]; 2]>,
    stack: Raw<[u8; RUNTIME_STACK_BYTES]>,
}

static AREAS: [AtomicPtr<Area>; CORES_MAX] = [const { AtomicPtr::new(core::ptr::null_mut()) }; CORES_MAX];
static COUNT: AtomicUsize = AtomicUsize::new(1);

/// Makes the areas of so many cores: while the process is an ordinary one.
pub fn make(cores: usize) {
    for place in AREAS.iter().take(cores) {
        // SAFETY: all parts of an area may be zeros.
        let area: Box<Area> = unsafe { Box::<Area>::new_zeroed().assume_init() };
        place.store(Box::leak(area), Ordering::Release);
    }
    COUNT.store(cores.min(CORES_MAX), Ordering::Release);
}

/// The number of cores.
pub fn count() -> usize {
    COUNT.load(Ordering::Relaxed)
}

/// The area of a core for which [`make`] was called.
pub fn of(core: usize) -> &'static Area {
    // SAFETY: it was leaked, and each part that changes is atomic or `Raw`.
    unsafe { &*AREAS[core].load(Ordering::Acquire) }
}

impl Area {
    /// Fills the words.
    pub fn fill(&'static self, core: usize, pid: u32, xsave: u8) {
        let words = &self.words;
        words.own.store(core::ptr::from_ref(words) as u64, Ordering::Relaxed);
        words.number.store(core as u32, Ordering::Relaxed);
        words.pid.store(pid, Ordering::Relaxed);
        words.xsave.store(xsave, Ordering::Relaxed);
        words.stack.store(self.stack_top(), Ordering::Release);
    }

    /// Returns true for the core that begins.
    pub fn is_first(&self) -> bool {
        self.words.number.load(Ordering::Relaxed) == 0
    }

    /// The top of the runtime's stack.
    pub fn stack_top(&self) -> u64 {
        self.stack.0.get() as u64 + RUNTIME_STACK_BYTES as u64
    }

    /// The top of a stack of gates.
    pub fn gate_stack_top(&self, index: usize) -> u64 {
        self.stacks.0.get() as u64 + ((index + 1) * STACK_BYTES) as u64
    }
}

/// The words of the core that asks, which is at ring 0 and has its `gs`.
pub fn words() -> &'static Words {
    let own: u64;
    // SAFETY: the base of `gs` is that of the core's words, whose own address stands in them.
    unsafe {
        asm!("mov {}, gs:[{own}]", out(reg) own, own = const offset_of!(Words, own), options(nostack, preserves_flags, readonly))
    };
    // SAFETY: as above; areas are never given back.
    unsafe { &*(own as *const Words) }
}
