//! Dependency labels (V8): requests of one activity with the same label start in the order in which they were made, and the next
//! one only when the one before has finished. All else may be reordered.
//!
//! A request gets a ticket when it is sent and goes to the core that has the label's requests; one that is not next parks there.
//! Tickets count out in order, also those of requests that were dropped.

use crate::map::Map;
use alloc::vec::Vec;

/// The task of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) core: usize,
    pub(crate) task: u32,
}

struct Label {
    core: usize,
    next_ticket: u64,
    serving: u64,
    /// Requests that wait for their turn: ticket and task.
    parked: Vec<(u64, Place)>,
    /// Tickets whose requests ended before their turn came.
    gone: Vec<u64>,
}

/// The labels of a resource that have requests on their way.
pub(crate) struct LabelTable {
    labels: Map<(u32, u64), Label>,
}

impl LabelTable {
    pub(crate) fn new() -> LabelTable {
        LabelTable { labels: Map::default() }
    }

    /// Returns a ticket for a new request, and the core it must go to: `core` if the label is new, or the one that it had takes no new work.
    /// `None` without memory.
    pub(crate) fn enter(&mut self, activity: u32, label: u64, core: usize, online: u64) -> Option<(u64, usize)> {
        self.labels.try_reserve(1).ok()?;
        let entry = self.labels.entry((activity, label)).or_insert_with(|| Label {
            core,
            next_ticket: 0,
            serving: 0,
            parked: Vec::new(),
            gone: Vec::new(),
        });
        if online >> entry.core & 1 == 0 {
            entry.core = core;
        }
        // Room for every request to park, or to be gone, at once, so that neither takes memory later.
        let waiting = (entry.next_ticket - entry.serving) as usize + 1;
        entry.parked.try_reserve(waiting.saturating_sub(entry.parked.len())).ok()?;
        entry.gone.try_reserve(waiting.saturating_sub(entry.gone.len())).ok()?;
        let ticket = entry.next_ticket;
        entry.next_ticket += 1;
        Some((ticket, entry.core))
    }

    /// Returns true if the request may be queued now; else it parks.
    pub(crate) fn arrive(&mut self, activity: u32, label: u64, ticket: u64, place: Place) -> bool {
        let Some(entry) = self.labels.get_mut(&(activity, label)) else {
            return true;
        };
        if entry.serving == ticket {
            return true;
        }
        entry.parked.push((ticket, place));
        false
    }

    /// A request has ended, started or not. Returns the parked task that is next.
    pub(crate) fn leave(&mut self, activity: u32, label: u64, ticket: u64) -> Option<Place> {
        let entry = self.labels.get_mut(&(activity, label))?;
        entry.parked.retain(|parked| parked.0 != ticket);
        if entry.serving != ticket {
            entry.gone.push(ticket);
            return None;
        }
        entry.serving += 1;
        while let Some(at) = entry.gone.iter().position(|&gone| gone == entry.serving) {
            entry.gone.swap_remove(at);
            entry.serving += 1;
        }
        if entry.serving == entry.next_ticket {
            self.labels.remove(&(activity, label));
            return None;
        }
        let serving = entry.serving;
        let at = entry.parked.iter().position(|parked| parked.0 == serving)?;
        Some(entry.parked.swap_remove(at).1)
    }

    pub(crate) fn len(&self) -> usize {
        self.labels.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_go_in_the_order_of_their_tickets_whatever_order_they_arrive_in() {
        let mut table = LabelTable::new();
        let tickets: Vec<u64> = (0..4).map(|_| table.enter(1, 9, 2, 0xff).unwrap().0).collect();
        assert!(!table.arrive(1, 9, tickets[2], Place { core: 2, task: 102 }));
        assert!(table.arrive(1, 9, tickets[0], Place { core: 2, task: 100 }));
        assert_eq!(table.leave(1, 9, tickets[0]), None, "the next has not arrived");
        assert!(table.arrive(1, 9, tickets[1], Place { core: 2, task: 101 }));
        // The last is killed before its turn.
        assert_eq!(table.leave(1, 9, tickets[3]), None);
        assert_eq!(table.leave(1, 9, tickets[1]), Some(Place { core: 2, task: 102 }));
        assert_eq!(table.leave(1, 9, tickets[2]), None);
        assert_eq!(table.len(), 0);
    }

    #[test]
    fn a_label_stays_on_the_core_of_its_first_request_while_any_is_on_its_way() {
        let mut table = LabelTable::new();
        assert_eq!(table.enter(1, 9, 2, 0xff), Some((0, 2)));
        assert_eq!(table.enter(1, 9, 3, 0xff), Some((1, 2)));
        assert_eq!(table.enter(2, 9, 3, 0xff), Some((0, 3)), "another activity's label is another one");
    }

    #[test]
    fn a_label_moves_on_while_its_core_takes_no_new_work_and_keeps_its_order() {
        let mut table = LabelTable::new();
        let (first, core) = table.enter(1, 9, 2, 0xff).unwrap();
        assert!(table.arrive(1, 9, first, Place { core: core, task: 100 }));
        let (second, core) = table.enter(1, 9, 0, 0xff & !(1 << 2)).unwrap();
        assert_eq!(core, 0);
        assert!(!table.arrive(1, 9, second, Place { core: core, task: 200 }));
        assert_eq!(table.leave(1, 9, first), Some(Place { core: 0, task: 200 }), "the next waits on another core");
        assert_eq!(table.leave(1, 9, second), None);
    }
}
