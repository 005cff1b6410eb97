//! Hardware addresses of neighbours (ARP, RFC 826): a bounded table, which believes only answers to its questions and
//! known neighbours.

use crate::limits::NEIGHBOURS_MAX;
use crate::wire::{Ip, Mac};
use alloc::collections::BTreeMap;
use gyre_message::WaitQueue;
use gyre_object::SpinLock;

/// How long an answer is believed, ns.
const BELIEVED_NS: u64 = 600_000_000_000;
/// Time between questions (RFC 1122 section 2.3.2.1: at most one a second), ns.
pub(crate) const ASK_EVERY_NS: u64 = 1_000_000_000;
/// Questions before the neighbour counts as absent.
const QUESTIONS_MAX: u32 = 3;

/// The knowledge about one neighbour.
#[derive(Clone, Copy, Debug)]
enum Entry {
    Known { mac: Mac, until_ns: u64 },
    Asked { at_ns: u64, questions: u32, waiters: usize },
}

/// The step to take with a packet for a neighbour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// Send it there.
    Send(Mac),
    /// Ask the neighbour, then wait.
    Ask,
    /// Wait for the answer to a question that another packet has asked.
    Wait,
    /// Give up.
    Absent,
}

/// The standing of a caller with a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Caller {
    /// It has just come.
    New,
    /// It is among the waiters already.
    Waits,
}

/// The question to which a neighbour's address comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Asked {
    /// One for an address of ours.
    OfUs,
    /// Another one, or none.
    OfOthers,
}

/// The table. Its state is pure: the time is given.
#[derive(Default)]
pub(crate) struct Table(BTreeMap<Ip, Entry>);

impl Table {
    /// Returns the step to take with a packet for `ip`. A caller that is new becomes a waiter only if there are fewer
    /// than `waiters_max`.
    pub(crate) fn step(&mut self, ip: Ip, caller: Caller, waiters_max: usize, now_ns: u64) -> Step {
        let waits = caller == Caller::Waits;
        match self.0.get_mut(&ip) {
            Some(Entry::Known { mac, until_ns }) if now_ns < *until_ns => return Step::Send(*mac),
            Some(Entry::Asked { at_ns, questions, waiters }) => {
                if !waits && *waiters >= waiters_max {
                    return Step::Absent;
                }
                *waiters = waiters.saturating_add(usize::from(!waits));
                if now_ns.saturating_sub(*at_ns) < ASK_EVERY_NS {
                    return Step::Wait;
                }
                if *questions < QUESTIONS_MAX {
                    (*at_ns, *questions) = (now_ns, questions.saturating_add(1));
                    return Step::Ask;
                }
                self.0.remove(&ip);
                return Step::Absent;
            }
            _ if waits => return Step::Absent,
            _ => {}
        }
        if !self.make_room(now_ns) {
            return Step::Absent;
        }
        self.0.insert(ip, Entry::Asked { at_ns: now_ns, questions: 1, waiters: 1 });
        Step::Ask
    }

    /// Returns the numbers of neighbours, and of packets that wait for one.
    #[cfg(test)]
    pub(crate) fn sizes(&self) -> (usize, usize) {
        let waiters = |entry: &Entry| if let Entry::Asked { waiters, .. } = entry { *waiters } else { 0 };
        (self.0.len(), self.0.values().map(waiters).sum())
    }

    /// Returns the hardware address of a neighbour, if it is known.
    pub(crate) fn known(&self, ip: Ip, now_ns: u64) -> Option<Mac> {
        match self.0.get(&ip) {
            Some(Entry::Known { mac, until_ns }) if now_ns < *until_ns => Some(*mac),
            _ => None,
        }
    }

    /// Forgets all hardware addresses: another segment has others. Those that are asked for still are.
    pub(crate) fn forget(&mut self) {
        self.0.retain(|_, entry| matches!(entry, Entry::Asked { .. }));
    }

    /// Counts one waiter less.
    pub(crate) fn leave(&mut self, ip: Ip) {
        if let Some(Entry::Asked { waiters, .. }) = self.0.get_mut(&ip) {
            *waiters = waiters.saturating_sub(1);
        }
    }

    /// Learns the hardware address that a neighbour tells. It is believed if it was asked for, is known, or comes
    /// with a question for one of us (RFC 826). Returns whether frames may have waited for it.
    pub(crate) fn learn(&mut self, ip: Ip, mac: Mac, asked: Asked, now_ns: u64) -> bool {
        // group addresses are no stations
        if mac[0] & 1 == 1 || mac == [0; 6] {
            return false;
        }
        let known = self.0.get(&ip).copied();
        if known.is_none() && !(asked == Asked::OfUs && self.make_room(now_ns)) {
            return false;
        }
        self.0.insert(ip, Entry::Known { mac, until_ns: now_ns.saturating_add(BELIEVED_NS) });
        matches!(known, Some(Entry::Asked { .. }))
    }

    /// Makes room for an entry by forgetting the one that would be forgotten first; never one with waiters.
    fn make_room(&mut self, now_ns: u64) -> bool {
        if self.0.len() < NEIGHBOURS_MAX {
            return true;
        }
        let age = |entry: &Entry| match entry {
            Entry::Known { until_ns, .. } => Some(*until_ns),
            Entry::Asked { at_ns, waiters, .. } => {
                (*waiters == 0 || now_ns.saturating_sub(*at_ns) > 10 * ASK_EVERY_NS).then_some(0)
            }
        };
        let oldest = self.0.iter().filter_map(|(ip, entry)| age(entry).map(|age| (age, *ip))).min();
        oldest.is_some_and(|(_, ip)| self.0.remove(&ip).is_some())
    }
}

/// The table, shared, and the tasks that wait for answers.
#[derive(Default)]
pub(crate) struct Neighbours {
    pub table: SpinLock<Table>,
    pub answered: WaitQueue,
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const IP: Ip = [10, 0, 0, 9];
    const MAC: Mac = [2, 0, 0, 0, 0, 9];

    #[test]
    fn a_silent_neighbour_is_asked_three_times_and_then_absent() {
        let mut table = Table::default();
        assert_eq!(table.step(IP, Caller::New, 64, 0), Step::Ask);
        assert_eq!(table.step(IP, Caller::Waits, 64, 1), Step::Wait);
        assert_eq!(table.step(IP, Caller::Waits, 64, SECOND), Step::Ask);
        assert_eq!(table.step(IP, Caller::Waits, 64, 2 * SECOND), Step::Ask);
        assert_eq!(table.step(IP, Caller::Waits, 64, 3 * SECOND), Step::Absent);
    }

    #[test]
    fn an_answer_is_believed_only_where_it_was_asked_for() {
        let mut table = Table::default();
        assert!(!table.learn(IP, MAC, Asked::OfOthers, 0));
        assert_eq!(table.step(IP, Caller::New, 64, 0), Step::Ask);
        assert!(table.learn(IP, MAC, Asked::OfOthers, 1));
        assert_eq!(table.step(IP, Caller::New, 64, 2), Step::Send(MAC));
        assert_eq!(table.step(IP, Caller::New, 64, 601 * SECOND), Step::Ask, "answers age");
    }

    #[test]
    fn strangers_cannot_fill_the_table_for_good() {
        let mut table = Table::default();
        for index in 0..10_000u32 {
            table.learn(index.to_be_bytes(), MAC, Asked::OfUs, u64::from(index));
        }
        assert!(table.0.len() <= NEIGHBOURS_MAX);
        assert_eq!(table.step(IP, Caller::New, 64, 10_001), Step::Ask);
    }

    #[test]
    fn waiters_of_one_neighbour_are_bounded() {
        let mut table = Table::default();
        let waiting = (0..1000).filter(|_| table.step(IP, Caller::New, 64, 5) != Step::Absent).count();
        assert_eq!(waiting, 64);
    }
}
