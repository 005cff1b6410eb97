//! Lines of batches, one for each activity: a batch in a line can still be joined, and only so many of each activity
//! are under way.

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
/// They are for users that turn a batch into something else before it waits at the disk's own scheduler. Its product
/// can be joined no more, so only as many are made as keep that scheduler busy with every activity.
pub struct Lines {
    most: usize,
    /// Those with something under way.
    lines: SpinLock<BTreeMap<ActivityId, Line>>,
}

/// A place among those of an activity that are under way. Its holder does one batch after the other.
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

    /// Puts a batch into the line of an activity. If few of that are under way, returns it again, with a place.
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

    /// Returns the next in a line; if there is none, its place is given up in the same step, so that no batch comes
    /// to a line that is not served.
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

    /// Returns whether nothing is under way.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Counts one fewer under way; returns the rest of the line if it was the last.
fn give_up(lines: &mut BTreeMap<ActivityId, Line>, activity: ActivityId) -> Option<VecDeque<Ticket>> {
    let line = lines.get_mut(&activity)?;
    line.under_way = line.under_way.saturating_sub(1);
    if line.under_way > 0 {
        return None;
    }
    lines.remove(&activity).map(|line| line.waiting)
}

impl Place {
    /// Returns the next batch in the line; after `None` the place is given up.
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
        // The line's server was ended. The batches are answered outside of the lock: they will not be served.
        let waiting = give_up(&mut self.lines.lines.lock(), self.activity);
        drop(waiting);
    }
}

#[cfg(test)]
mod tests;
