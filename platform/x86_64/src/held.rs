//! Each core's notes of the runtime's locks: how many it holds, and the word that stands in those that it takes. They are words of the
//! core's block, so that a lock costs one instruction for each.

use crate::core_local::{block_of, core_index, offset, this_core};
use core::arch::asm;
use core::sync::atomic::Ordering;
use gyre_platform::{CORES_MAX, LockWeight};

/// The bit at which the generation begins in a lock's word, above the core's index.
const GENERATION: u32 = CORES_MAX as u32;

/// A core's first word: no generation is zero, so that no word is.
pub(crate) const fn first_word(index: usize) -> u32 {
    GENERATION | index as u32
}

/// Adds a lock to those that this core holds.
#[inline(always)]
pub fn count_held<W: LockWeight>() {
    // SAFETY: the word is this core's own.
    unsafe { asm!("add dword ptr gs:[{}], {}", const offset::HELD, const W::WEIGHT, options(nostack)) };
}

/// Takes a lock from those that this core holds.
#[inline(always)]
pub fn discount_held<W: LockWeight>() {
    // SAFETY: the word is this core's own.
    unsafe { asm!("sub dword ptr gs:[{}], {}", const offset::HELD, const W::WEIGHT, options(nostack)) };
}

/// The sum of the weights of the locks that this core holds.
#[inline]
pub fn held_locks() -> u32 {
    this_core().held.get()
}

/// Forgets the locks that this core holds.
#[inline]
pub fn clear_held_locks() {
    this_core().held.set(0);
}

/// The word of the locks that this core takes now; not zero.
#[inline(always)]
pub fn lock_word() -> u32 {
    let word: u32;
    // SAFETY: an aligned load of an atomic of this core's block.
    unsafe {
        asm!("mov {:e}, gs:[{}]", out(reg) word, const offset::LOCK_WORD, options(readonly, nostack, preserves_flags))
    };
    word
}

/// Does so for the core that took a lock with `word`.
pub fn lock_word_of(word: u32) -> u32 {
    block_of(word as usize & (CORES_MAX - 1)).lock_word.load(Ordering::Acquire)
}

/// From now on this core takes locks with another word.
pub fn change_lock_word() {
    let own = &this_core().lock_word;
    let next = own.load(Ordering::Relaxed).wrapping_add(GENERATION);
    own.store(if next < GENERATION { first_word(core_index()) } else { next }, Ordering::Release);
}
