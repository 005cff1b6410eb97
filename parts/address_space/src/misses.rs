//! The balance of misses and hits of a mapped file, which says whether pages around an absent one are worth reading.
//!
//! As on Linux (mm/filemap.c, `do_sync_mmap_readahead` and `do_async_mmap_readahead`, MMAP_LOTSAMISS): a miss is a touch
//! that must wait for the disk, a hit one whose page is in memory. While misses do not outweigh hits by more than
//! [`LOTS`], a miss brings what lies around it; above, only the page. The balance goes on below ten times that, so that
//! who misses much must hit much before more is read again.
//!
//! Threads count without a lock: a count that is lost among them changes nothing. Hits write only while there are
//! misses to make up for, so that processes that run from one cached file share no line of the cache.

use core::sync::atomic::{AtomicU32, Ordering};

/// Misses more than hits from which on only the needed page is read.
const LOTS: u32 = 100;
/// Most misses that are counted.
const MISSES_MAX: u32 = 10 * LOTS;

/// Misses that hits have not made up for.
#[derive(Default)]
pub(crate) struct Misses(AtomicU32);

impl Misses {
    /// Notes that a page was in memory.
    #[inline]
    pub(crate) fn note_hit(&self) {
        let misses = self.0.load(Ordering::Relaxed);
        if misses > 0 {
            self.0.store(misses.saturating_sub(1), Ordering::Relaxed);
        }
    }

    /// Notes that a page was not in memory; returns whether those around it are worth reading, too.
    pub(crate) fn note_miss(&self) -> bool {
        let misses = self.0.load(Ordering::Relaxed).saturating_add(1).min(MISSES_MAX);
        self.0.store(misses, Ordering::Relaxed);
        misses <= LOTS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misses_count_until_hits_make_up_for_them() {
        let misses = Misses::default();
        misses.note_hit();
        assert!((0..LOTS).all(|_| misses.note_miss()));
        assert!(!misses.note_miss(), "they outweigh");
        misses.note_hit();
        misses.note_hit();
        assert!(misses.note_miss(), "one hit more makes up for one miss more");
        assert!(!misses.note_miss());
        (0..2 * MISSES_MAX).for_each(|_| _ = misses.note_miss());
        (0..MISSES_MAX - LOTS).for_each(|_| misses.note_hit());
        assert!(!misses.note_miss(), "the balance is bounded, not reset");
        misses.note_hit();
        misses.note_hit();
        assert!(misses.note_miss());
    }
}
