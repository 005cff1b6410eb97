//! How much a piece of work may do before it gives its core back: a count of turns and a time, of each core.
//!
//! A piece of work is one poll of a task by the loop of a core, or what a program's thread does in the kernel from one trap to the next
//! entry of the program. Whatever is waited for takes a turn when it is ready at once; who is refused says that it is not ready, and has
//! its task queued again. So no loop of waits that are ready at once keeps a core, whoever wrote it.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Turns of a piece of work.
pub const TURNS: u32 = 1000;
/// Time of a piece of work after which it is given no turn, ms.
pub const TIME_MS: u64 = 1;

/// Stands for the turns of what is done apart.
const APART: u32 = u32::MAX;

/// What is left to the piece of work with a mark.
struct Left {
    mark: AtomicU64,
    turns: AtomicU32,
}

impl Left {
    const fn new() -> Left {
        Left { mark: AtomicU64::new(0), turns: AtomicU32::new(0) }
    }

    /// What is left to the work in hand.
    #[inline]
    fn turns_of(&self, mark: u64) -> u32 {
        if self.mark.load(Ordering::Relaxed) != mark {
            self.begin(mark);
        }
        self.turns.load(Ordering::Relaxed)
    }

    #[inline]
    fn begin(&self, mark: u64) {
        self.mark.store(mark, Ordering::Relaxed);
        self.turns.store(TURNS, Ordering::Relaxed);
    }
}

#[cfg(target_os = "none")]
mod place {
    use super::Left;
    /// One line of cache per core, so that no core disturbs another.
    #[repr(align(64))]
    struct PerCore(Left);
    static LEFT: [PerCore; gyre_machine::CORES_MAX] = [const { PerCore(Left::new()) }; gyre_machine::CORES_MAX];

    #[inline]
    pub(super) fn with<T>(look: impl FnOnce(&Left) -> T) -> T {
        look(&LEFT[gyre_machine::core_index()].0)
    }
}

#[cfg(not(target_os = "none"))]
mod place {
    use super::Left;
    std::thread_local! {
        // Each piece of work has a mark of its own, whichever core the thread plays.
        static LEFT: Left = const { Left::new() };
    }

    #[inline]
    pub(super) fn with<T>(look: impl FnOnce(&Left) -> T) -> T {
        LEFT.with(look)
    }
}

/// A piece of work begins on this core.
#[inline]
pub fn begin(now_cycles: u64) {
    gyre_machine::mark_work(now_cycles);
    place::with(|left| left.begin(now_cycles));
}

/// Takes a turn of the piece of work in hand; false where it has none left, and must give the core back. A work that nobody marked
/// (a test's own loop) has no end of turns.
#[inline]
pub fn take_turn() -> bool {
    take(|_| true)
}

/// The same, and false where the work has had its time at `now_cycles`.
#[inline]
pub fn take_turn_at(now_cycles: u64) -> bool {
    take(|mark| now_cycles.saturating_sub(mark) < TIME_MS.saturating_mul(gyre_machine::cycles_per_ms()))
}

#[inline]
fn take(is_in_time: impl FnOnce(u64) -> bool) -> bool {
    gyre_machine::safe_point();
    let mark = gyre_machine::work_mark();
    place::with(|left| match left.turns_of(mark) {
        APART => true,
        0 => mark == 0,
        turns => {
            left.turns.store(turns.saturating_sub(1), Ordering::Relaxed);
            mark == 0 || is_in_time(mark)
        }
    })
}

/// True where the work in hand has had its time: who does much in one piece gives the core back then.
#[inline]
pub fn is_spent() -> bool {
    !take_turn_at(gyre_machine::now())
}

/// Does a short work that takes no turn of the work in hand, because it is somebody else's.
#[inline]
pub fn apart<T>(work: impl FnOnce() -> T) -> T {
    let turns = place::with(|left| left.turns_of(gyre_machine::work_mark()));
    place::with(|left| left.turns.store(APART, Ordering::Relaxed));
    let result = work();
    place::with(|left| left.turns.store(turns, Ordering::Relaxed));
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_work_has_so_many_turns_and_the_next_one_as_many() {
        gyre_machine::set_virtual_time(0);
        for work in 1..=2 {
            gyre_machine::mark_work(work);
            assert!((0..TURNS).all(|_| take_turn()));
            assert!(!take_turn());
            assert!(!take_turn_at(work));
        }
    }

    #[test]
    fn a_work_that_has_had_its_time_gets_no_turn() {
        gyre_machine::mark_work(5);
        assert!(take_turn_at(5 + TIME_MS * gyre_machine::cycles_per_ms() - 1));
        assert!(!take_turn_at(5 + TIME_MS * gyre_machine::cycles_per_ms()));
    }

    #[test]
    fn what_is_done_apart_takes_no_turn_and_is_not_refused() {
        gyre_machine::mark_work(1);
        while take_turn() {}
        assert!(apart(|| take_turn() && take_turn_at(u64::MAX)));
        assert!(!take_turn());
    }
}
