//! The lines of a set: calls that wait, and those lines that are to be walked because a semaphore has changed.
//!
//! Each semaphore has two lines of single operations, one that takes from it and one that waits for zero; the set has
//! one of several operations. Tickets order all of them by age. A walk looks at the oldest call of the lines that are
//! due, then at the next one; a line that a change makes possible is due from its start.

use super::super::waiting::Waiter;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;

/// One operation (`struct sembuf`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Operation {
    /// The semaphore.
    pub(super) semaphore: u16,
    /// The number that is added; 0 waits for zero.
    pub(super) change: i16,
    /// IPC_NOWAIT, SEM_UNDO.
    pub(super) flags: u16,
}

/// The operations of one call, and for whom they are done.
pub(super) struct Wish {
    pub(super) operations: Box<[Operation]>,
    /// The process that is shown as the last one.
    pub(super) process: i32,
    /// The number by which a set knows the changes with SEM_UNDO.
    pub(super) undo: u64,
}

/// The reason for which a call waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Obstacle {
    /// The value of this semaphore is too small.
    TooSmall(u16),
    /// The value of this semaphore is not zero.
    NotZero(u16),
}

/// A line.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Line {
    /// Single operations that take from a semaphore.
    Taking(u16),
    /// Single operations that wait for a semaphore to be zero.
    Zero(u16),
    /// Several operations in one call.
    Several,
}

/// A call that waits.
pub(super) struct Waiting {
    pub(super) wish: Wish,
    pub(super) obstacle: Obstacle,
    pub(super) waiter: Arc<Waiter<()>>,
}

/// The place of a call in a line: the line and a ticket.
pub(super) type Place = (Line, u64);

/// The lines of a set.
#[derive(Default)]
pub(super) struct Lines {
    waiting: BTreeMap<Place, Waiting>,
    next_ticket: u64,
    /// Lines to be walked: the ticket to begin with, and the line.
    due: BTreeSet<(u64, Line)>,
    due_from: BTreeMap<Line, u64>,
}

impl Wish {
    /// Returns the line in which it waits.
    pub(super) fn line(&self) -> Line {
        match *self.operations {
            [Operation { semaphore, change: 0, .. }] => Line::Zero(semaphore),
            [Operation { semaphore, .. }] => Line::Taking(semaphore),
            _ => Line::Several,
        }
    }
}

impl Lines {
    /// Puts a call at the end of its line.
    pub(super) fn join(&mut self, waiting: Waiting) -> Place {
        let place = (waiting.wish.line(), self.next_ticket);
        self.next_ticket = self.next_ticket.saturating_add(1);
        self.put_back(place, waiting);
        place
    }

    /// Puts a call back where it was.
    pub(super) fn put_back(&mut self, place: Place, waiting: Waiting) {
        self.waiting.insert(place, waiting);
    }

    /// Takes a call out.
    pub(super) fn leave(&mut self, place: Place) -> Option<Waiting> {
        self.waiting.remove(&place)
    }

    /// Makes a line due from the first call with this ticket or a later one.
    pub(super) fn make_due(&mut self, line: Line, ticket: u64) {
        let Some((&(_, first), _)) = self.waiting.range((line, ticket)..=(line, u64::MAX)).next() else { return };
        match self.due_from.get(&line) {
            Some(from) if *from <= first => {}
            before => {
                if let Some(from) = before {
                    self.due.remove(&(*from, line));
                }
                self.due.insert((first, line));
                self.due_from.insert(line, first);
            }
        }
    }

    /// Returns whether a line is due.
    pub(super) fn is_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// Takes the next call of a walk out of its line, if one is left; a line for which there is no hope is left alone.
    pub(super) fn next_due(&mut self, has_hope: impl Fn(Line) -> bool) -> Option<(Place, Waiting)> {
        while let Some((ticket, line)) = self.due.pop_first() {
            self.due_from.remove(&line);
            if !has_hope(line) {
                continue;
            }
            // Calls may have left since.
            match self.waiting.remove(&(line, ticket)) {
                Some(waiting) => return Some(((line, ticket), waiting)),
                None => self.make_due(line, ticket),
            }
        }
        None
    }

    /// Returns any call, out of its line: for the end of the set.
    pub(super) fn pop(&mut self) -> Option<Waiting> {
        self.waiting.pop_first().map(|(_, waiting)| waiting)
    }
}
