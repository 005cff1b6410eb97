//! The state of a set, behind its lock: values, amounts to be taken back, and the lines of those who wait.
//!
//! * [`State::attempt`] does all operations of a call or none; [`State::note_done`] then says which lines may go on.
//! * [`State::walk`] looks at calls of those lines, at most [`LOOKS_AT_ONCE`] operations in one turn, and answers those
//!   that are done. Their waiters are told without the lock.
//! * A semaphore counts the calls that wait for it; a call waits for one semaphore at a time, its first obstacle.
//! * SETVAL begins a new generation of a semaphore: amounts of an older one are void.
//!
//! No function here waits. [`super::set`] takes the lock and tells.

use super::super::now_s;
use super::super::waiting::Waiter;
use super::VALUE_MAX;
use super::lines::{Line, Lines, Obstacle, Operation, Place, Waiting, Wish};
use super::undo::{Adjustment, Adjustments};
use crate::Errno;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// The operations that one turn of a walk looks at.
const LOOKS_AT_ONCE: usize = 512;
/// sem_flg: no wait; take back at the end.
const NO_WAIT: u16 = 0o4000;
pub(super) const UNDO: u16 = 0x1000;

/// A semaphore.
#[derive(Clone, Copy, Default)]
pub(super) struct Semaphore {
    pub(super) value: u16,
    /// The process that changed it last.
    pub(super) process: i32,
    /// Counts SETVAL and SETALL, which make what was to be taken back before them void.
    pub(super) generation: u32,
    /// Calls that wait for a larger value, and for zero.
    pub(super) takers: u32,
    pub(super) zeroes: u32,
}

/// Times of a set, seconds since 1970; 0 if never.
#[derive(Clone, Copy, Default)]
pub(crate) struct Times {
    /// The last operation.
    pub(crate) operated_s: u64,
    /// The last change by semctl.
    pub(crate) changed_s: u64,
}

/// The state of a set.
pub(super) struct State {
    pub(super) semaphores: Vec<Semaphore>,
    pub(super) times: Times,
    pub(super) adjustments: Adjustments,
    pub(super) lines: Lines,
    pub(super) is_removed: bool,
    /// True while a task goes on with a walk.
    pub(super) is_walked: bool,
}

/// Why operations are not done.
pub(super) enum Stop {
    Waits(Obstacle),
    Fails(Errno),
}

/// A call that was done, and its answer.
pub(super) type Done = (Arc<Waiter<()>>, Result<(), Errno>);

impl State {
    /// Makes the state of a set.
    pub(super) fn new(semaphores: Vec<Semaphore>) -> State {
        State {
            semaphores,
            times: Times { operated_s: 0, changed_s: now_s() },
            adjustments: Adjustments::default(),
            lines: Lines::default(),
            is_removed: false,
            is_walked: false,
        }
    }

    /// Returns a semaphore.
    ///
    /// # Errors
    /// EINVAL.
    pub(super) fn semaphore(&mut self, index: i32) -> Result<&mut Semaphore, Errno> {
        usize::try_from(index).ok().and_then(|index| self.semaphores.get_mut(index)).ok_or(Errno::EINVAL)
    }

    /// Does all operations of a call, or none.
    pub(super) fn attempt(&mut self, wish: &Wish) -> Result<(), Stop> {
        for (at, operation) in wish.operations.iter().enumerate() {
            if let Err(stop) = self.step(operation, wish.undo) {
                let done = wish.operations.get(..at).unwrap_or_default();
                done.iter().rev().for_each(|operation| self.step_back(operation, wish.undo));
                return Err(stop);
            }
        }
        Ok(())
    }

    fn step(&mut self, operation: &Operation, undo: u64) -> Result<(), Stop> {
        let Operation { semaphore: index, change, flags } = *operation;
        let semaphore = self.semaphores.get_mut(usize::from(index)).ok_or(Stop::Fails(Errno::EFBIG))?;
        let next = i32::from(semaphore.value).saturating_add(i32::from(change));
        let obstacle = match change {
            0 if semaphore.value != 0 => Some(Obstacle::NotZero(index)),
            _ if next < 0 => Some(Obstacle::TooSmall(index)),
            _ => None,
        };
        if let Some(obstacle) = obstacle {
            return Err(if flags & NO_WAIT != 0 { Stop::Fails(Errno::EAGAIN) } else { Stop::Waits(obstacle) });
        }
        if next > VALUE_MAX {
            return Err(Stop::Fails(Errno::ERANGE));
        }
        if flags & UNDO != 0 {
            let back = i32::from(change).saturating_neg();
            self.adjustments.add(undo, index, semaphore.generation, back).map_err(Stop::Fails)?;
        }
        semaphore.value = u16::try_from(next).unwrap_or(0);
        Ok(())
    }

    fn step_back(&mut self, operation: &Operation, undo: u64) {
        let Operation { semaphore: index, change, flags } = *operation;
        let Some(semaphore) = self.semaphores.get_mut(usize::from(index)) else { return };
        let before = i32::from(semaphore.value).saturating_sub(i32::from(change));
        semaphore.value = u16::try_from(before).unwrap_or(0);
        if flags & UNDO != 0 {
            let _ = self.adjustments.add(undo, index, semaphore.generation, i32::from(change));
        }
    }

    /// Notes operations that are done, and which lines are due by them.
    pub(super) fn note_done(&mut self, wish: &Wish) {
        self.times.operated_s = now_s();
        for operation in &wish.operations {
            if let Some(semaphore) = self.semaphores.get_mut(usize::from(operation.semaphore)) {
                semaphore.process = wish.process;
            }
            match operation.change {
                0 => {}
                change => self.note_change(operation.semaphore, change > 0),
            }
        }
    }

    /// Makes the lines due for which a changed semaphore gives hope.
    fn note_change(&mut self, index: u16, is_larger: bool) {
        if self.note_own_lines(index, is_larger) {
            self.lines.make_due(Line::Several, 0);
        }
    }

    /// Makes the lines of a changed semaphore due, and returns whether there is hope. Without waiters it looks nowhere else.
    fn note_own_lines(&mut self, index: u16, is_larger: bool) -> bool {
        let Some(semaphore) = self.semaphores.get(usize::from(index)) else { return false };
        match *semaphore {
            Semaphore { value: 0, zeroes: 0, .. } => {}
            Semaphore { value: 0, .. } => self.lines.make_due(Line::Zero(index), 0),
            _ if !is_larger => return false,
            Semaphore { takers: 0, .. } => {}
            _ => self.lines.make_due(Line::Taking(index), 0),
        }
        true
    }

    /// Sets values from a semaphore on (SETVAL, SETALL): nothing that was done to them before is taken back.
    pub(super) fn set_values(&mut self, first: u16, values: &[u16], process: i32) {
        for (index, value) in (first..).zip(values) {
            let Some(semaphore) = self.semaphores.get_mut(usize::from(index)) else { return };
            semaphore.generation = semaphore.generation.wrapping_add(1);
            (semaphore.value, semaphore.process) = (*value, process);
            self.note_own_lines(index, true);
        }
        self.lines.make_due(Line::Several, 0);
    }

    /// Takes back what a process has done: the value stays between 0 and the largest one.
    pub(super) fn take_back(&mut self, index: u16, adjustment: Adjustment, process: i32) {
        let Some(semaphore) = self.semaphores.get_mut(usize::from(index)) else { return };
        if adjustment.generation != semaphore.generation || adjustment.change == 0 {
            return;
        }
        let value = i32::from(semaphore.value).saturating_add(adjustment.change).clamp(0, VALUE_MAX);
        (semaphore.value, semaphore.process) = (u16::try_from(value).unwrap_or(0), process);
        self.times.operated_s = now_s();
        self.note_change(index, adjustment.change > 0);
    }

    /// Returns whether a walk is to go on; nobody is served any more once the set is removed.
    pub(super) fn is_due(&self) -> bool {
        self.lines.is_due() && !self.is_removed
    }

    /// Looks at some of the calls that wait in lines that are due, and does those that can be done.
    pub(super) fn walk(&mut self) -> Vec<Done> {
        let (mut done, mut looks) = (Vec::new(), 0usize);
        while looks < LOOKS_AT_ONCE && !self.is_removed {
            let values = &self.semaphores;
            let value = |index: u16| values.get(usize::from(index)).map_or(0, |semaphore| semaphore.value);
            let has_hope = |line| match line {
                Line::Taking(index) => value(index) > 0,
                Line::Zero(index) => value(index) == 0,
                Line::Several => true,
            };
            let Some((place, waiting)) = self.lines.next_due(has_hope) else { break };
            looks = looks.saturating_add(waiting.wish.operations.len());
            done.extend(self.look(place, waiting));
        }
        done
    }

    /// Does the operations of a call that waits, or puts it back.
    fn look(&mut self, place: Place, mut waiting: Waiting) -> Option<Done> {
        self.lines.make_due(place.0, place.1.saturating_add(1));
        self.count_out(waiting.obstacle);
        let answer = match self.attempt(&waiting.wish) {
            Ok(()) => {
                self.note_done(&waiting.wish);
                Ok(())
            }
            Err(Stop::Fails(errno)) => Err(errno),
            Err(Stop::Waits(obstacle)) => {
                self.count_in(obstacle);
                waiting.obstacle = obstacle;
                self.lines.put_back(place, waiting);
                return None;
            }
        };
        Some((waiting.waiter, answer))
    }

    pub(super) fn count_in(&mut self, obstacle: Obstacle) {
        if let Some(count) = self.counter(obstacle) {
            *count = count.saturating_add(1);
        }
    }

    pub(super) fn count_out(&mut self, obstacle: Obstacle) {
        if let Some(count) = self.counter(obstacle) {
            *count = count.saturating_sub(1);
        }
    }

    fn counter(&mut self, obstacle: Obstacle) -> Option<&mut u32> {
        match obstacle {
            Obstacle::TooSmall(index) => self.semaphores.get_mut(usize::from(index)).map(|one| &mut one.takers),
            Obstacle::NotZero(index) => self.semaphores.get_mut(usize::from(index)).map(|one| &mut one.zeroes),
        }
    }
}
