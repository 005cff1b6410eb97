//! Results that later calls use: slots of each kind, so that the choice of a slot does not depend on the answers.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::{kinds::Kind, sys};

/// Slots of each kind.
pub const SLOTS: usize = 16;
/// The first of them hold what was there before the first call; calls fill the others.
pub const FIRST_LOOSE: usize = 6;

static TABLE: [[AtomicU64; SLOTS]; Kind::COUNT] = [const { [const { AtomicU64::new(u64::MAX) }; SLOTS] }; Kind::COUNT];

fn slot(kind: usize, index: usize) -> Option<&'static AtomicU64> {
    TABLE.get(kind)?.get(index)
}

/// Returns the contents of a slot: all ones if it is empty.
pub fn get(kind: usize, index: usize) -> u64 {
    slot(kind, index).map_or(u64::MAX, |slot| slot.load(Relaxed))
}

/// Returns the contents of the next slot that holds something, all ones if there is none.
pub fn after(kind: usize, index: usize) -> u64 {
    (index..index + SLOTS).map(|index| get(kind, index % SLOTS)).find(|held| *held != u64::MAX).unwrap_or(u64::MAX)
}

/// Puts something in and closes the descriptor that was there.
pub fn put(kind: Kind, index: usize, value: u64) {
    let Some(slot) = slot(kind as usize, index) else { return };
    let old = slot.swap(value, Relaxed);
    if (kind as usize) < Kind::DESCRIPTORS && old != value && old > 2 && old != u64::MAX {
        sys::short(libc::SYS_close as u64, [old]);
    }
}

/// Puts something into the first empty slot; that there is none is no loss.
pub fn add(kind: Kind, value: i64) {
    let Ok(value) = u64::try_from(value) else { return };
    let empty = (0..SLOTS).find(|index| get(kind as usize, *index) == u64::MAX);
    empty.and_then(|index| slot(kind as usize, index)).into_iter().for_each(|slot| slot.store(value, Relaxed));
}
