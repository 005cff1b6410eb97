//! The cell's side of the call lines of a core.

use core::sync::atomic::{AtomicU32, Ordering};

use gyre_cell_abi::{CallLine, LINES_MAX, state};

use crate::fiber::{Call, FiberId};

/// The lines by address; the kernel writes them too.
#[derive(Clone, Copy, Debug)]
pub struct Lines {
    first: *mut CallLine,
    count: usize,
}

impl Lines {
    /// Names the lines.
    ///
    /// # Safety
    /// So many lines lie there for as long as the cell lives, and the cell uses them by this value alone.
    pub unsafe fn at(first: *mut CallLine, count: u32) -> Self {
        Self { first, count: count.min(LINES_MAX) as usize }
    }

    /// Makes lines that nobody else has.
    #[cfg(test)]
    pub fn leaked(count: u32) -> Self {
        let lines: Vec<_> = (0..count).map(|_| CallLine::default()).collect();
        // SAFETY: they live to the end of the tests.
        unsafe { Self::at(Box::leak(lines.into_boxed_slice()).as_mut_ptr(), count) }
    }

    /// How many there are.
    pub fn count(self) -> usize {
        self.count
    }

    fn state(&self, index: usize) -> &AtomicU32 {
        debug_assert!(index < self.count);
        // SAFETY: the line is there; its first word is touched by atomic operations alone.
        unsafe { &(*self.first.add(index)).state }
    }

    /// Writes a call into a free line; `false` if it is none.
    fn ask(self, index: usize, call: &Call) -> bool {
        if self.state(index).load(Ordering::Relaxed) != state::FREE {
            return false;
        }
        // SAFETY: a free line is the cell's, and `call` reads nothing but the state of others.
        unsafe {
            let line = self.first.add(index);
            (&raw mut (*line).number).write_volatile(call.number);
            (&raw mut (*line).arguments).write_volatile(call.arguments);
        }
        self.state(index).store(state::ASKED, Ordering::Release);
        true
    }

    /// Writes a call of the runtime's own into a line that is free, if there is one: from `first` on, or any other one.
    pub fn ask_any(self, call: &Call, first: usize) -> Option<usize> {
        (first..self.count).chain(0..first.min(self.count)).find(|index| self.ask(*index, call))
    }

    /// Does not wait for a line any longer.
    fn give_up(self, index: usize) -> Withdrawal {
        let change =
            |from, to| self.state(index).compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        match change(state::ASKED, state::FREE) {
            true => Withdrawal::TakenBack,
            false if change(state::TAKEN, state::GIVEN_UP) => Withdrawal::Asked,
            false => Withdrawal::Late,
        }
    }

    /// Takes the answer of a line, if it is there; the line is free then.
    pub fn take(self, index: usize) -> Option<i64> {
        if self.state(index).load(Ordering::Acquire) != state::ANSWERED {
            return None;
        }
        // SAFETY: an answered line is the cell's.
        let result = unsafe { (&raw const (*self.first.add(index)).result).read_volatile() };
        self.state(index).store(state::FREE, Ordering::Release);
        Some(result)
    }
}

/// The calls that are under way.
#[derive(Debug)]
pub struct Calls {
    lines: Lines,
    waiting: [Option<FiberId>; LINES_MAX as usize],
    under_way: usize,
}

impl Calls {
    /// None yet.
    pub fn new(lines: Lines) -> Self {
        Self { lines, waiting: [None; LINES_MAX as usize], under_way: 0 }
    }

    /// Sends a fiber's call by a line from `first` on, the core's own, or by another one; answers it, or `None` if all are in use.
    pub fn send(&mut self, fiber: FiberId, call: &Call, first: usize) -> Option<usize> {
        let count = self.lines.count();
        let places = self.waiting.get_mut(..count)?;
        let mut free = (first..count).chain(0..first.min(count)).filter(|index| places[*index].is_none());
        let index = free.find(|index| self.lines.ask(*index, call))?;
        places[index] = Some(fiber);
        self.under_way += 1;
        Some(index)
    }

    /// Does not wait for a line any longer that [`Calls::send`] has answered.
    pub fn give_up(&mut self, line: usize) -> Withdrawal {
        let withdrawal = self.lines.give_up(line);
        if withdrawal == Withdrawal::TakenBack && self.waiting[line].take().is_some() {
            self.under_way -= 1;
        }
        withdrawal
    }

    /// Returns whether a line was given up already.
    pub fn is_given_up(&self, line: usize) -> bool {
        self.lines.state(line).load(Ordering::Relaxed) == state::GIVEN_UP
    }

    /// Takes one answer: who waited for it, and the result.
    pub fn take(&mut self) -> Option<Answer> {
        let mut seen = 0;
        for (index, place) in self.waiting.iter_mut().enumerate() {
            if seen == self.under_way {
                break;
            }
            let Some(fiber) = *place else {
                continue;
            };
            seen += 1;
            if let Some(result) = self.lines.take(index) {
                *place = None;
                self.under_way -= 1;
                return Some(Answer { fiber, result });
            }
        }
        None
    }
}

/// The fate of a call that the cell does not want to wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Withdrawal {
    /// It was not begun, and the line is free.
    TakenBack,
    /// The kernel is asked to end it, and is to be told so by the bell; its answer comes.
    Asked,
    /// It is answered already, or was given up before.
    Late,
}

/// An answer of the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    /// The fiber that asked.
    pub fiber: FiberId,
    /// The result of the call.
    pub result: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fiber_gets_its_own_answer_in_the_order_of_answering() {
        let mut calls = Calls::new(Lines::leaked(8));
        let first = calls.lines.first;
        let places: Vec<_> = (0..8).map(|fiber| calls.send(fiber, &Call::default(), 3).unwrap()).collect();
        assert_eq!(calls.send(8, &Call::default(), 3), None);
        assert_eq!(calls.take(), None);
        for fiber in [5, 2] {
            // SAFETY: the test plays the kernel, which writes answers.
            unsafe { (*first.add(places[fiber])).result = fiber as i64 };
            calls.lines.state(places[fiber]).store(state::ANSWERED, Ordering::Release);
            assert_eq!(calls.take(), Some(Answer { fiber, result: fiber as i64 }));
        }
        assert_eq!(calls.send(8, &Call::default(), 3), Some(places[2]));
    }

    #[test]
    fn a_line_that_is_given_up_is_free_at_once_only_if_nobody_works_on_it() {
        let mut calls = Calls::new(Lines::leaked(8));
        let [first, second] = [1, 2].map(|fiber| calls.send(fiber, &Call::default(), 0).unwrap());
        calls.lines.state(second).store(state::TAKEN, Ordering::Release);
        assert_eq!(calls.give_up(first), Withdrawal::TakenBack);
        assert_eq!((calls.give_up(second), calls.give_up(second)), (Withdrawal::Asked, Withdrawal::Late));
        assert!(calls.is_given_up(second) && calls.take().is_none());
        assert_eq!(calls.send(3, &Call::default(), 0), Some(first));
        calls.lines.state(second).store(state::ANSWERED, Ordering::Release);
        assert_eq!(calls.take().map(|answer| answer.fiber), Some(2));
        assert_eq!(calls.give_up(second), Withdrawal::Late);
    }
}
