//! How many turns are left to the piece of work in hand: a word of the core's block, from which each wait takes one.
//!
//! A piece of work has [`WORK_TURNS`](gyre_platform::WORK_TURNS) turns from its beginning on: the entry code gives them at each trap,
//! [`mark_work`](crate::mark_work) everywhere else.

use crate::core_local::{offset, this_core};
use core::arch::asm;

/// Takes a turn of the piece of work in hand; false if none is left. A work that nobody marked has no end of turns.
#[inline(always)]
pub fn take_turn() -> bool {
    // SAFETY: the word is this core's own.
    unsafe {
        asm!("sub dword ptr gs:[{}], 1", "jb {}", const offset::TURNS, label { return refuse_turn() }, options(nostack));
    }
    true
}

#[cold]
#[inline(never)]
fn refuse_turn() -> bool {
    this_core().turns.set(0);
    crate::watch::safe_point();
    crate::watch::work_mark() == 0
}

/// How many turns are left.
pub fn turns_left() -> u32 {
    this_core().turns.get()
}

/// Sets how many turns are left; answers how many were.
#[inline]
pub fn replace_turns(turns: u32) -> u32 {
    this_core().turns.replace(turns)
}
