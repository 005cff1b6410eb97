//! The extended state of programs: FPU, SSE, AVX (SDM vol. 1, chapter 13).
//!
//! It stays in a core's registers after its thread has stopped there, and is saved when another thread enters that core or when the
//! thread is parked. A core knows the owner of its registers by the address of the owner's save area.
//!
//! States of an [`Extended`]: in its area alone, or live (a core's registers are newer than the area).
//! [`Extended::load`] makes it live here, [`Extended::park`] writes it back. A thread parks before another core may
//! load it.
//!
//! Bytes that a program gives (signal frames, contexts) are cleaned by [`Extended::write`], so XRSTOR never faults.

use crate::core_local::{block_of, core_index, this_core};
use crate::instructions::{cpuid, xsetbv0};
use alloc::alloc::{alloc_zeroed, dealloc};
use core::alloc::Layout;
use core::arch::asm;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use gyre_platform::OutOfMemory;

/// Components that programs may use: x87, SSE, AVX, AVX-512. Not protection keys: CR4.PKE is off.
const COMPONENTS: u64 = 0b1110_0111;
const LEGACY_BYTES: usize = 512;
const HEADER_END: usize = 576;
const MXCSR: usize = 24;
const MXCSR_MASK: usize = 28;
const XSTATE_BV: usize = 512;
const CONTROL_WORD_RESET: u16 = 0x37f;
const MXCSR_RESET: u32 = 0x1f80;

/// Enabled components; 0 if the processor has FXSAVE only.
static MASK: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicUsize = AtomicUsize::new(LEGACY_BYTES);
static MXCSR_VALID: AtomicU32 = AtomicU32::new(0xffbf);

/// Enables the components on this core.
pub(crate) fn start() {
    // SAFETY: the FPU is on.
    unsafe { asm!("fninit", options(nomem, nostack)) };
    if cpuid(1, 0)[2] >> 26 & 1 == 1 {
        let leaf = cpuid(13, 0);
        let mask = COMPONENTS & (u64::from(leaf[3]) << 32 | u64::from(leaf[0]));
        // AVX-512's three parts come together or not at all.
        let mask = if mask & 0xe0 == 0xe0 { mask } else { mask & !0xe0 };
        turn_on(mask);
        MASK.store(mask, Ordering::Relaxed);
        BYTES.store(cpuid(13, 0)[1] as usize, Ordering::Relaxed);
    }
    #[repr(align(64))]
    struct Area([u8; LEGACY_BYTES]);
    let mut area = Area([0; LEGACY_BYTES]);
    // SAFETY: the area is aligned and large enough for FXSAVE.
    unsafe { asm!("fxsave64 [{}]", in(reg) &raw mut area.0, options(nostack)) };
    let valid = u32::from_le_bytes([
        area.0[MXCSR_MASK],
        area.0[MXCSR_MASK + 1],
        area.0[MXCSR_MASK + 2],
        area.0[MXCSR_MASK + 3],
    ]);
    MXCSR_VALID.store(if valid == 0 { 0xffbf } else { valid }, Ordering::Relaxed);
}

/// Turns on, on a core that comes from the parking loop and has set OSXSAVE, the components that are on in this kernel: without them this
/// kernel's own copies through registers of AVX fault there.
pub(crate) fn turn_on_as_elsewhere() {
    if components() != 0 {
        turn_on(components());
    }
}

/// Sets XCR0 of this core, whose OSXSAVE is set, to a checked part of what the processor offers.
pub(crate) fn turn_on(components: u64) {
    // SAFETY: each core sets OSXSAVE before, and nobody has other components than the processor's.
    unsafe { xsetbv0(components) };
}

/// True if the kernel may use the registers of AVX, after having saved what is in them.
pub(crate) fn has_avx() -> bool {
    MASK.load(Ordering::Relaxed) & 4 != 0
}

/// Components that are on in this kernel; 0 if the processor has no XSAVE.
pub(crate) fn components() -> u64 {
    MASK.load(Ordering::Relaxed)
}

fn layout() -> Layout {
    // XSAVE wants 64 bytes of alignment. The size is not zero and small.
    Layout::from_size_align(BYTES.load(Ordering::Relaxed).max(LEGACY_BYTES), 64).unwrap_or(Layout::new::<[u64; 64]>())
}

/// Saves the state in this core's registers to its owner's area, so that the owner may go on at another core.
pub(crate) fn park_registers() {
    let owner = &this_core().extended_owner;
    let tag = owner.load(Ordering::Relaxed);
    if tag != 0 {
        save_owner(tag);
        owner.store(0, Ordering::Release);
    }
}

/// Saves the registers to the area of their owner.
#[inline]
fn save_owner(tag: u64) {
    // SAFETY: an owner's area lives until the owner is dropped, which clears the tag.
    unsafe { save(tag) };
}

/// A thread's extended state.
pub(crate) struct Extended {
    area: NonNull<u8>,
    /// The core whose registers may hold it; meaningful while that core says so too.
    core: usize,
}

// SAFETY: the area is owned like a Box; a core's registers hold the state only for contexts not parked, which `load` checks.
unsafe impl Send for Extended {}

impl Extended {
    /// State as after reset.
    pub(crate) fn new() -> Result<Extended, OutOfMemory> {
        // SAFETY: the layout's size is not zero.
        let area = NonNull::new(unsafe { alloc_zeroed(layout()) }).ok_or(OutOfMemory)?;
        let mut fresh = Extended { area, core: 0 };
        fresh.reset();
        Ok(fresh)
    }

    /// Length of the state in bytes.
    pub(crate) fn bytes() -> usize {
        layout().size()
    }

    fn tag(&self) -> u64 {
        self.area.as_ptr() as u64
    }

    /// True while a core's registers hold the newest state.
    fn is_live(&self) -> bool {
        block_of(self.core).extended_owner.load(Ordering::Acquire) == self.tag()
    }

    /// Puts the state into this core's registers, if it is not there. The former owner's is saved first.
    ///
    /// # Panics
    /// If the thread left its last core without being parked: a bug of the kernel.
    #[inline]
    pub(crate) fn load(&mut self) {
        let owner = &this_core().extended_owner;
        let before = owner.load(Ordering::Relaxed);
        if before == self.tag() {
            return;
        }
        assert!(!self.is_live(), "a thread left core {} without being parked", self.core);
        if before != 0 {
            save_owner(before);
        }
        self.core = core_index();
        // SAFETY: the area is valid: reset, saved by hardware, or sanitised.
        unsafe { restore(self.tag()) };
        owner.store(self.tag(), Ordering::Release);
    }

    /// Saves the state if this core's registers hold it.
    pub(crate) fn park(&mut self) {
        let owner = &this_core().extended_owner;
        if owner.load(Ordering::Relaxed) == self.tag() {
            save_owner(self.tag());
            owner.store(0, Ordering::Release);
        }
    }

    fn area(&mut self) -> &mut [u8] {
        // SAFETY: owned and of this length.
        unsafe { core::slice::from_raw_parts_mut(self.area.as_ptr(), Self::bytes()) }
    }

    /// Sets the state of reset.
    pub(crate) fn reset(&mut self) {
        self.park();
        let area = self.area();
        area.fill(0);
        area[..2].copy_from_slice(&CONTROL_WORD_RESET.to_le_bytes());
        area[MXCSR..MXCSR + 4].copy_from_slice(&MXCSR_RESET.to_le_bytes());
    }

    /// A copy. The state may stay in the registers: it is saved straight into the copy's area.
    pub(crate) fn duplicate(&self) -> Result<Extended, OutOfMemory> {
        let copy = Extended::new()?;
        if this_core().extended_owner.load(Ordering::Relaxed) == self.tag() {
            // SAFETY: a save area of the full length.
            unsafe { save(copy.tag()) };
        } else {
            // SAFETY: two areas of the same length.
            unsafe {
                core::ptr::copy_nonoverlapping(self.area.as_ptr(), copy.area.as_ptr(), Self::bytes());
            };
        }
        Ok(copy)
    }

    /// Copies the state out.
    pub(crate) fn read(&mut self, into: &mut [u8]) {
        self.park();
        let area = self.area();
        let count = into.len().min(area.len());
        into[..count].copy_from_slice(&area[..count]);
    }

    /// Replaces the state by any bytes: what they cannot say is left at reset, what they may not say is cleared.
    pub(crate) fn write(&mut self, from: &[u8]) {
        self.reset();
        if from.len() < LEGACY_BYTES {
            return;
        }
        let area = self.area();
        let count = from.len().min(area.len());
        area[..count].copy_from_slice(&from[..count]);
        let mxcsr = u32::from_le_bytes([from[MXCSR], from[MXCSR + 1], from[MXCSR + 2], from[MXCSR + 3]]);
        area[MXCSR..MXCSR + 4].copy_from_slice(&(mxcsr & MXCSR_VALID.load(Ordering::Relaxed)).to_le_bytes());
        if area.len() < HEADER_END {
            return;
        }
        let given = if from.len() < HEADER_END { 3 } else { u64::from(from[XSTATE_BV]) };
        let whole = if from.len() < area.len() { 3 } else { u64::MAX };
        let components = given & whole & MASK.load(Ordering::Relaxed);
        area[XSTATE_BV..HEADER_END].fill(0);
        area[XSTATE_BV..XSTATE_BV + 8].copy_from_slice(&components.to_le_bytes());
    }
}

impl Drop for Extended {
    fn drop(&mut self) {
        if self.is_live() {
            if self.core != core_index() {
                // The other core will still save into the area: it stays. Only a thread dropped without parking comes here.
                log::warn!(target: "platform", "a thread's extended state was dropped on another core; {} bytes lost", Self::bytes());
                return;
            }
            this_core().extended_owner.store(0, Ordering::Release);
        }
        // SAFETY: allocated with this layout; no core refers to it.
        unsafe { dealloc(self.area.as_ptr(), layout()) };
    }
}

/// # Safety
/// `area` must be a save area of the full length.
unsafe fn save(area: u64) {
    let mask = MASK.load(Ordering::Relaxed);
    if mask == 0 {
        // SAFETY: as the caller says.
        unsafe { asm!("fxsave64 [{}]", in(reg) area, options(nostack)) };
    } else {
        // SAFETY: as the caller says.
        unsafe {
            asm!("xsave64 [{}]", in(reg) area, in("eax") mask as u32, in("edx") (mask >> 32) as u32, options(nostack))
        };
    }
}

/// # Safety
/// `area` must hold a valid state.
unsafe fn restore(area: u64) {
    let mask = MASK.load(Ordering::Relaxed);
    if mask == 0 {
        // SAFETY: as the caller says.
        unsafe { asm!("fxrstor64 [{}]", in(reg) area, options(nostack)) };
    } else {
        // SAFETY: as the caller says.
        unsafe {
            asm!("xrstor64 [{}]", in(reg) area, in("eax") mask as u32, in("edx") (mask >> 32) as u32, options(nostack))
        };
    }
}
