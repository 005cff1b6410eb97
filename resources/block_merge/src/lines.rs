//! Lines of batches, one for each activity: what waits in one can still be joined, and only so many of each activity are under way.

use crate::waiting::Ticket;
use alloc::collections::{BTreeMap, VecDeque};
use gyre_account::ActivityId;
use gyre_object::SpinLock;

#[derive(Default)]
struct Line {
    under_way: usize,
    waiting: VecDeque<Ticket>,
}

/// The lines before one disk. Lives as long as the instance.
///
/// For who makes something else of a batch before it waits at the disk's own scheduler: what is made there can be joined no more, so no more of
/// it is made than keeps that scheduler busy with everybody.
pub struct Lines {
    most: usize,
    /// Those with something under way.
    lines: SpinLock<BTreeMap<ActivityId, Line>>,
}

/// A place among those of an activity that are under way. Who holds it does one batch after the other.
pub struct Place {
    lines: &'static Lines,
    activity: ActivityId,
    is_left: bool,
}

impl Lines {
    /// Lines of which each has at most so many batches under way, at least one.
    pub const fn new(most: usize) -> Lines {
        Lines { most: if most == 0 { 1 } else { most }, lines: SpinLock::new(BTreeMap::new()) }
    }

    /// Puts a batch into the line of an activity. Where few of that are under way it is its turn: answers it again, with a place.
    pub fn enter(&'static self, activity: ActivityId, ticket: Ticket) -> Option<(Ticket, Place)> {
        let mut lines = self.lines.lock();
        let line = lines.entry(activity).or_default();
        if line.under_way >= self.most {
            line.waiting.push_back(ticket);
            return None;
        }
        line.under_way = line.under_way.saturating_add(1);
        Some((ticket, Place { lines: self, activity, is_left: false }))
    }

    /// The next in a line; where there is none, its place is given up in the same step, so that nobody comes to a line that no one serves.
    fn next(&self, activity: ActivityId) -> Option<Ticket> {
        let mut lines = self.lines.lock();
        let line = lines.get_mut(&activity)?;
        let next = line.waiting.pop_front();
        if next.is_none() {
            drop(give_up(&mut lines, activity));
        }
        next
    }

    /// Activities that have something under way.
    pub fn len(&self) -> usize {
        self.lines.lock().len()
    }

    /// True where nothing is under way.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// One fewer is under way; what still waits where it was the last.
fn give_up(lines: &mut BTreeMap<ActivityId, Line>, activity: ActivityId) -> Option<VecDeque<Ticket>> {
    let line = lines.get_mut(&activity)?;
    line.under_way = line.under_way.saturating_sub(1);
    if line.under_way > 0 {
        return None;
    }
    lines.remove(&activity).map(|line| line.waiting)
}

impl Place {
    /// The next batch in the line; after `None` the place is nobody's any more.
    pub fn next(&mut self) -> Option<Ticket> {
        if self.is_left {
            return None;
        }
        let next = self.lines.next(self.activity);
        self.is_left = next.is_none();
        next
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.is_left {
            return;
        }
        // Who served the line was ended. Answered outside of the lock: nobody else will serve what waits.
        let waiting = give_up(&mut self.lines.lines.lock(), self.activity);
        drop(waiting);
    }
}

#[cfg(test)]
mod tests;
