//! Copies and fills that are fast where Gyre runs, and the `mem*` functions of the kernel.
//!
//! An emulator runs each turn of a string instruction by itself, so moves of eight bytes in an unrolled loop win there (32 KiB in
//! QEMU 7.2: 7.4 us against 9.8); real processors, and an emulator whose clock counts instructions, prefer string instructions.
//! Moves of 32 bytes through registers of AVX, which are the program's and are saved first, may beat both.
//! [`choose`] measures them at boot, unless the command line says which ([`keep`]). `rep movsb` is never used: the emulator moves one byte a turn.
//!
//! Everything may call this, at any time but in an NMI. The two settings are stored before other cores run long
//! copies. Vector registers hold a program's values; each user saves those that it takes and puts them back.

use crate::copy_way::CopyWay;
use crate::extended::has_avx;
use crate::instructions::rdtsc;
use core::arch::asm;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Whether long copies and fills use string instructions.
static STRINGS: AtomicBool = AtomicBool::new(false);
/// Whether longer ones go through vector registers.
static VECTORS: AtomicBool = AtomicBool::new(false);
/// From this length on the choice matters.
const LONG: usize = 256;
/// Times that each way of copying is measured.
const ROUNDS: usize = 40;
/// From this length on saving vector registers pays.
const VECTOR_LONG: usize = 512;

/// Returns whether this processor has a way.
pub(crate) fn is_there(way: CopyWay) -> bool {
    way != CopyWay::Vectors || has_avx()
}

/// Makes long copies in this way from now on, which this processor has. Boot core.
pub(crate) fn keep(way: CopyWay) {
    STRINGS.store(way != CopyWay::Loops, Relaxed);
    VECTORS.store(way == CopyWay::Vectors, Relaxed);
}

/// Measures the ways with `scratch` (at least 16 KiB) and keeps the best: each in turn, many times, so that what else the host does meanwhile
/// counts for none. Some 0.5 ms. Boot core.
pub(crate) fn choose(scratch: &mut [u8]) {
    let (from, into) = scratch.split_at_mut(scratch.len() / 2);
    let count = into.len().min(from.len());
    let mut time = |way: CopyWay| {
        keep(way);
        let start = rdtsc();
        into[..count].copy_from_slice(&from[..count]);
        rdtsc() - start
    };
    let mut best = [u64::MAX; CopyWay::ALL.len()];
    for _ in 0..ROUNDS {
        for (way, best) in CopyWay::ALL.into_iter().zip(&mut best).filter(|(way, _)| is_there(*way)) {
            *best = time(way).min(*best);
        }
    }
    let [loops, strings, vectors] = best;
    STRINGS.store(strings < loops, Relaxed);
    VECTORS.store(vectors < loops.min(strings), Relaxed);
}

/// How long copies are made, for people.
pub(crate) fn way() -> &'static str {
    match (STRINGS.load(Relaxed), VECTORS.load(Relaxed)) {
        (_, true) => "vectors",
        (true, _) => "string instructions",
        _ => "loops",
    }
}

/// Saves eight registers of AVX, which hold a program's values, runs the lines given, and puts them back. Nothing interrupts the kernel
/// meanwhile.
macro_rules! with_vectors {
    ([$($lines:literal,)*] $($operands:tt)*) => {
        asm!(
            "sub rsp, 256",
            "vmovdqu [rsp], ymm0",
            "vmovdqu [rsp + 32], ymm1",
            "vmovdqu [rsp + 64], ymm2",
            "vmovdqu [rsp + 96], ymm3",
            "vmovdqu [rsp + 128], ymm4",
            "vmovdqu [rsp + 160], ymm5",
            "vmovdqu [rsp + 192], ymm6",
            "vmovdqu [rsp + 224], ymm7",
            $($lines,)*
            "vmovdqu ymm0, [rsp]",
            "vmovdqu ymm1, [rsp + 32]",
            "vmovdqu ymm2, [rsp + 64]",
            "vmovdqu ymm3, [rsp + 96]",
            "vmovdqu ymm4, [rsp + 128]",
            "vmovdqu ymm5, [rsp + 160]",
            "vmovdqu ymm6, [rsp + 192]",
            "vmovdqu ymm7, [rsp + 224]",
            "add rsp, 256",
            $($operands)*
        )
    };
}

/// Moves blocks of 256 bytes and returns what is left of `count`.
///
/// # Safety
/// As for `copy_forward`; this core has AVX enabled.
#[inline(never)]
unsafe fn copy_vectors(into: &mut *mut u8, from: &mut *const u8, count: usize) -> usize {
    // SAFETY: as the caller says; the registers are as before at the end. Reads of a block come before its writes.
    unsafe {
        with_vectors!(
            [
                "2:",
                "vmovdqu ymm0, [{from}]",
                "vmovdqu ymm1, [{from} + 32]",
                "vmovdqu ymm2, [{from} + 64]",
                "vmovdqu ymm3, [{from} + 96]",
                "vmovdqu ymm4, [{from} + 128]",
                "vmovdqu ymm5, [{from} + 160]",
                "vmovdqu ymm6, [{from} + 192]",
                "vmovdqu ymm7, [{from} + 224]",
                "vmovdqu [{into}], ymm0",
                "vmovdqu [{into} + 32], ymm1",
                "vmovdqu [{into} + 64], ymm2",
                "vmovdqu [{into} + 96], ymm3",
                "vmovdqu [{into} + 128], ymm4",
                "vmovdqu [{into} + 160], ymm5",
                "vmovdqu [{into} + 192], ymm6",
                "vmovdqu [{into} + 224], ymm7",
                "add {from}, 256",
                "add {into}, 256",
                "dec {blocks}",
                "jnz 2b",
            ]
            from = inout(reg) *from,
            into = inout(reg) *into,
            blocks = inout(reg) count / 256 => _,
        );
    }
    count % 256
}

/// Moves all of `count`, at least 256: the last block again covers what blocks from the start have left.
///
/// # Safety
/// `into` and `from` mapped for `count` bytes and apart; this core has AVX enabled.
#[inline(never)]
unsafe fn copy_vectors_apart(into: *mut u8, from: *const u8, count: usize) {
    let whole = count & !255;
    // SAFETY: as the caller says; the registers are as before at the end, and no block passes the end.
    unsafe {
        with_vectors!(
            [
                "2:",
                "vmovdqu ymm0, [{from} + {at}]",
                "vmovdqu ymm1, [{from} + {at} + 32]",
                "vmovdqu ymm2, [{from} + {at} + 64]",
                "vmovdqu ymm3, [{from} + {at} + 96]",
                "vmovdqu ymm4, [{from} + {at} + 128]",
                "vmovdqu ymm5, [{from} + {at} + 160]",
                "vmovdqu ymm6, [{from} + {at} + 192]",
                "vmovdqu ymm7, [{from} + {at} + 224]",
                "vmovdqu [{into} + {at}], ymm0",
                "vmovdqu [{into} + {at} + 32], ymm1",
                "vmovdqu [{into} + {at} + 64], ymm2",
                "vmovdqu [{into} + {at} + 96], ymm3",
                "vmovdqu [{into} + {at} + 128], ymm4",
                "vmovdqu [{into} + {at} + 160], ymm5",
                "vmovdqu [{into} + {at} + 192], ymm6",
                "vmovdqu [{into} + {at} + 224], ymm7",
                "add {at}, 256",
                "jnz 2b",
                "test {rest}, {rest}",
                "jz 3f",
                "vmovdqu ymm0, [{from_last}]",
                "vmovdqu ymm1, [{from_last} + 32]",
                "vmovdqu ymm2, [{from_last} + 64]",
                "vmovdqu ymm3, [{from_last} + 96]",
                "vmovdqu ymm4, [{from_last} + 128]",
                "vmovdqu ymm5, [{from_last} + 160]",
                "vmovdqu ymm6, [{from_last} + 192]",
                "vmovdqu ymm7, [{from_last} + 224]",
                "vmovdqu [{into_last}], ymm0",
                "vmovdqu [{into_last} + 32], ymm1",
                "vmovdqu [{into_last} + 64], ymm2",
                "vmovdqu [{into_last} + 96], ymm3",
                "vmovdqu [{into_last} + 128], ymm4",
                "vmovdqu [{into_last} + 160], ymm5",
                "vmovdqu [{into_last} + 192], ymm6",
                "vmovdqu [{into_last} + 224], ymm7",
                "3:",
            ]
            from = in(reg) from.add(whole),
            into = in(reg) into.add(whole),
            at = inout(reg) whole.wrapping_neg() => _,
            rest = in(reg) count - whole,
            from_last = in(reg) from.add(count - 256),
            into_last = in(reg) into.add(count - 256),
        );
    }
}

/// Zeroes blocks of 256 bytes through one register of AVX, as [`copy_vectors`] does, and returns what is left of `count`.
///
/// # Safety
/// As for `fill`; this core has AVX enabled.
#[inline(never)]
unsafe fn zero_vectors(into: &mut *mut u8, count: usize) -> usize {
    // SAFETY: as the caller says; the register is as before at the end.
    unsafe {
        asm!(
            "sub rsp, 32",
            "vmovdqu [rsp], ymm0",
            "vpxor xmm0, xmm0, xmm0",
            "2:",
            "vmovdqu [{into}], ymm0",
            "vmovdqu [{into} + 32], ymm0",
            "vmovdqu [{into} + 64], ymm0",
            "vmovdqu [{into} + 96], ymm0",
            "vmovdqu [{into} + 128], ymm0",
            "vmovdqu [{into} + 160], ymm0",
            "vmovdqu [{into} + 192], ymm0",
            "vmovdqu [{into} + 224], ymm0",
            "add {into}, 256",
            "dec {blocks}",
            "jnz 2b",
            "vmovdqu ymm0, [rsp]",
            "add rsp, 32",
            into = inout(reg) *into,
            blocks = inout(reg) count / 256 => _,
        );
    }
    count % 256
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
    unsafe { copy_forward::<true>(into, from, count) };
}

/// # Safety
/// `into` and `from` mapped for `count` bytes; overlapping only if `into` is below `from`, and not at all if they are `APART`.
#[inline(always)]
unsafe fn copy_forward<const APART: bool>(mut into: *mut u8, mut from: *const u8, mut count: usize) {
    if count >= VECTOR_LONG && VECTORS.load(Relaxed) {
        // SAFETY: as the caller says; set only if AVX is enabled on all cores before they run anything long.
        unsafe {
            if APART {
                return copy_vectors_apart(into, from, count);
            }
            count = copy_vectors(&mut into, &mut from, count);
        }
    } else if count >= LONG && STRINGS.load(Relaxed) {
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
/// `into` and `from` mapped for `count` bytes; overlapping only if `into` is above `from`.
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
    if count >= VECTOR_LONG && value == 0 && VECTORS.load(Relaxed) {
        // SAFETY: as the caller says; as in `copy_forward`.
        count = unsafe { zero_vectors(&mut into, count) };
    } else if count >= LONG && STRINGS.load(Relaxed) {
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
    unsafe { copy_forward::<true>(into, from, count) };
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
        unsafe { copy_forward::<false>(into, from, count) };
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
