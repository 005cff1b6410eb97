//! The layer above's note of the work in hand: one word of the core's block.

use crate::core_local::offset;
use core::arch::asm;

/// This core's note; null at first.
#[inline(always)]
pub fn noted() -> *mut u8 {
    let note;
    // SAFETY: reads a word that is this core's own.
    unsafe { asm!("mov {}, gs:[{}]", out(reg) note, const offset::NOTE, options(readonly, nostack, preserves_flags)) };
    note
}

/// Notes something else.
#[inline(always)]
pub fn note(note: *mut u8) {
    // SAFETY: the word is this core's own.
    unsafe { asm!("mov gs:[{}], {}", const offset::NOTE, in(reg) note, options(nostack, preserves_flags)) };
}
