//! Copies and fills that are fast where Gyre runs, and the `mem*` functions of the kernel.
//!
//! An emulator runs each turn of a string instruction by itself, so moves of eight bytes in an unrolled loop win there (32 KiB in
//! QEMU 7.2: 7.4 us against 9.8); real processors, and an emulator whose clock counts instructions, prefer string instructions.
//! [`choose`] measures both at boot. `rep movsb` is never used: the emulator moves one byte a turn.

use crate::instructions::rdtsc;
use core::arch::asm;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Whether long copies and fills use string instructions.
static STRINGS: AtomicBool = AtomicBool::new(false);
/// From this length on the choice matters.
const LONG: usize = 256;

/// Measures both ways with `scratch` (at least 16 KiB) and keeps the better. Boot core.
pub(crate) fn choose(scratch: &mut [u8]) {
    let (from, into) = scratch.split_at_mut(scratch.len() / 2);
    let count = into.len().min(from.len());
    let mut time = |strings: bool| {
        STRINGS.store(strings, Relaxed);
        let run = |_| {
            let start = rdtsc();
            into[..count].copy_from_slice(&from[..count]);
            rdtsc() - start
        };
        (0..5).map(run).min()
    };
    let (loops, strings) = (time(false), time(true));
    STRINGS.store(strings < loops, Relaxed);
}

/// Moves whole words by a string instruction and returns what is left of `count`.
///
/// # Safety
/// As for `copy_forward`.
#[inline(always)]
unsafe fn copy_words(into: &mut *mut u8, from: &mut *const u8, count: usize) -> usize {
    // SAFETY: as the caller says.
    unsafe {
        asm!("rep movsq", inout("rcx") count / 8 => _, inout("rdi") *into, inout("rsi") *from, options(nostack, preserves_flags));
    }
    count % 8
}

/// Fills whole words and returns what is left of `count`.
///
/// # Safety
/// As for `fill`.
#[inline(always)]
unsafe fn fill_words(into: &mut *mut u8, word: u64, count: usize) -> usize {
    // SAFETY: as the caller says.
    unsafe {
        asm!("rep stosq", inout("rcx") count / 8 => _, inout("rdi") *into, in("rax") word, options(nostack, preserves_flags));
    }
    count % 8
}

/// Copies between memory that others may change at the same time; assembly, so that the compiler assumes nothing of it.
///
/// # Safety
/// Both sides must be mapped and not overlap.
#[inline]
pub(crate) unsafe fn copy_shared(into: *mut u8, from: *const u8, count: usize) {
    // SAFETY: as the caller says.
    unsafe { copy_forward(into, from, count) };
}

/// # Safety
/// `into` and `from` mapped for `count` bytes; overlapping only where `into` is below `from`.
#[inline(always)]
unsafe fn copy_forward(mut into: *mut u8, mut from: *const u8, mut count: usize) {
    if count >= LONG && STRINGS.load(Relaxed) {
        // SAFETY: as the caller says.
        count = unsafe { copy_words(&mut into, &mut from, count) };
    }
    // SAFETY: blocks of 32, then words, then bytes, `count` in all; reads come before the writes of the same block.
    unsafe {
        asm!(
            "mov {blocks}, {count}",
            "shr {blocks}, 5",
            "jz 3f",
            "2:",
            "mov {a}, [{from}]",
            "mov {b}, [{from} + 8]",
            "mov {c}, [{from} + 16]",
            "mov {d}, [{from} + 24]",
            "mov [{into}], {a}",
            "mov [{into} + 8], {b}",
            "mov [{into} + 16], {c}",
            "mov [{into} + 24], {d}",
            "add {from}, 32",
            "add {into}, 32",
            "dec {blocks}",
            "jnz 2b",
            "3:",
            "and {count}, 31",
            "jz 7f",
            "sub {count}, 8",
            "jb 5f",
            "4:",
            "mov {a}, [{from}]",
            "mov [{into}], {a}",
            "add {from}, 8",
            "add {into}, 8",
            "sub {count}, 8",
            "jae 4b",
            "5:",
            "add {count}, 8",
            "jz 7f",
            "6:",
            "mov {a:l}, [{from}]",
            "mov [{into}], {a:l}",
            "inc {from}",
            "inc {into}",
            "dec {count}",
            "jnz 6b",
            "7:",
            count = inout(reg) count => _,
            from = inout(reg) from => _,
            into = inout(reg) into => _,
            blocks = out(reg) _,
            a = out(reg_abcd) _,
            b = out(reg) _,
            c = out(reg) _,
            d = out(reg) _,
            options(nostack),
        );
    }
}

/// # Safety
/// `into` and `from` mapped for `count` bytes; overlapping only where `into` is above `from`.
unsafe fn copy_backward(into: *mut u8, from: *const u8, count: usize) {
    // SAFETY: from the end down: words, then bytes.
    unsafe {
        asm!(
            "sub {count}, 8",
            "jb 3f",
            "2:",
            "mov {a}, [{from} + {count}]",
            "mov [{into} + {count}], {a}",
            "sub {count}, 8",
            "jae 2b",
            "3:",
            "add {count}, 8",
            "jz 5f",
            "4:",
            "mov {a:l}, [{from} + {count} - 1]",
            "mov [{into} + {count} - 1], {a:l}",
            "dec {count}",
            "jnz 4b",
            "5:",
            count = inout(reg) count => _,
            from = in(reg) from,
            into = in(reg) into,
            a = out(reg_abcd) _,
            options(nostack),
        );
    }
}

/// # Safety
/// `into` mapped for `count` bytes.
#[inline(always)]
unsafe fn fill(mut into: *mut u8, value: u8, mut count: usize) {
    if count >= LONG && STRINGS.load(Relaxed) {
        // SAFETY: as the caller says.
        count = unsafe { fill_words(&mut into, u64::from(value) * 0x0101_0101_0101_0101, count) };
    }
    // SAFETY: blocks of 64, then words, then bytes, `count` in all.
    unsafe {
        asm!(
            "mov {blocks}, {count}",
            "shr {blocks}, 6",
            "jz 3f",
            "2:",
            "mov [{into}], {a}",
            "mov [{into} + 8], {a}",
            "mov [{into} + 16], {a}",
            "mov [{into} + 24], {a}",
            "mov [{into} + 32], {a}",
            "mov [{into} + 40], {a}",
            "mov [{into} + 48], {a}",
            "mov [{into} + 56], {a}",
            "add {into}, 64",
            "dec {blocks}",
            "jnz 2b",
            "3:",
            "and {count}, 63",
            "jz 7f",
            "sub {count}, 8",
            "jb 5f",
            "4:",
            "mov [{into}], {a}",
            "add {into}, 8",
            "sub {count}, 8",
            "jae 4b",
            "5:",
            "add {count}, 8",
            "jz 7f",
            "6:",
            "mov [{into}], {a:l}",
            "inc {into}",
            "dec {count}",
            "jnz 6b",
            "7:",
            count = inout(reg) count => _,
            into = inout(reg) into => _,
            a = in(reg_abcd) u64::from(value) * 0x0101_0101_0101_0101,
            blocks = out(reg) _,
            options(nostack),
        );
    }
}

/// Zeroes whole pages.
///
/// # Safety
/// They must be mapped and nobody else's.
#[inline]
pub(crate) unsafe fn zero_pages(start: *mut u8, bytes: usize) {
    // SAFETY: as the caller says.
    unsafe { fill(start, 0, bytes) };
}

/// C's `memcpy`.
///
/// # Safety
/// As C says.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(into: *mut u8, from: *const u8, count: usize) -> *mut u8 {
    // SAFETY: C's contract.
    unsafe { copy_forward(into, from, count) };
    into
}

/// C's `memmove`.
///
/// # Safety
/// As C says.
#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(into: *mut u8, from: *const u8, count: usize) -> *mut u8 {
    if (into as usize).wrapping_sub(from as usize) >= count {
        // SAFETY: the target does not begin inside the source.
        unsafe { copy_forward(into, from, count) };
    } else {
        // SAFETY: the target is above the source.
        unsafe { copy_backward(into, from, count) };
    }
    into
}

/// C's `memset`.
///
/// # Safety
/// As C says.
#[unsafe(no_mangle)]
unsafe extern "C" fn memset(into: *mut u8, value: i32, count: usize) -> *mut u8 {
    // SAFETY: C's contract.
    unsafe { fill(into, value as u8, count) };
    into
}
