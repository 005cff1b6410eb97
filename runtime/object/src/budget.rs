//! How much a piece of work may do before it gives its core back: a count of turns and a time, of each core.
//!
//! A piece of work is one poll of a task by the loop of a core, or what a program's thread does in the kernel from one trap to the next
//! entry of the program. A wait takes a turn if it is ready at once; a refused one says that it is not ready, and has
//! its task queued again. So no loop of waits that are ready at once keeps a core, in any code.

/// Turns of a piece of work.
pub use gyre_machine::WORK_TURNS as TURNS;
/// Time of a piece of work after which it is given no turn, ms.
pub const TIME_MS: u64 = 1;

/// Stands for the turns of what is done apart: as good as without end.
const APART: u32 = u32::MAX;

/// A piece of work begins on this core.
#[inline]
pub fn begin(now_cycles: u64) {
    gyre_machine::mark_work(now_cycles);
}

/// Takes a turn of the piece of work in hand; false if it has none left, and must give the core back. A work without a mark
/// (a test's own loop) has no end of turns.
#[inline]
pub fn take_turn() -> bool {
    gyre_machine::take_turn()
}

/// Takes a turn like [`take_turn`], and answers false if the work has had its time at `now_cycles`.
#[inline]
pub fn take_turn_at(now_cycles: u64) -> bool {
    gyre_machine::take_turn() && is_in_time(now_cycles)
}

#[inline]
fn is_in_time(now_cycles: u64) -> bool {
    let mark = gyre_machine::work_mark();
    now_cycles.saturating_sub(mark) < TIME_MS.saturating_mul(gyre_machine::cycles_per_ms()) || has_no_end(mark)
}

/// True for a work without a mark, and for work that is done apart.
#[cold]
fn has_no_end(mark: u64) -> bool {
    mark == 0 || gyre_machine::turns_left() > TURNS
}

/// Returns true if the work in hand has had its time: a long piece of work gives the core back then.
#[inline]
pub fn is_spent() -> bool {
    !take_turn_at(gyre_machine::now())
}

/// Does a short work that takes no turn of the work in hand, because another activity pays for it.
#[inline]
pub fn apart<T>(work: impl FnOnce() -> T) -> T {
    let turns = gyre_machine::replace_turns(APART);
    let result = work();
    gyre_machine::replace_turns(turns);
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
