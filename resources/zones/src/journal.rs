//! The log: every adjustment is recorded (R9). The last records are kept, each cut to a bounded size: owners and zones choose texts in them.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use gyre_contract::zones::{LOG_RECORDS_MAX, Record};

/// The records of changes.
#[derive(Default)]
pub(crate) struct Journal {
    kept: VecDeque<Record>,
    next: u64,
}

impl Journal {
    /// Adds a record and gives it its number.
    pub(crate) fn add(&mut self, record: Record) {
        if self.kept.len() >= LOG_RECORDS_MAX {
            self.kept.pop_front();
        }
        self.kept.push_back(Record { number: self.next, ..record.bounded() });
        self.next = self.next.wrapping_add(1);
    }

    /// Records so far.
    pub(crate) fn count(&self) -> u64 {
        self.next
    }

    /// Returns up to `room` records from a number on.
    pub(crate) fn read(&self, number: u64, room: usize) -> Vec<Record> {
        self.kept.iter().filter(|record| record.number >= number).take(room).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gyre_contract::zones::{Deed, NAME_BYTES_MAX};

    fn record() -> Record {
        Record {
            number: 0,
            at_ns: 0,
            deed: Deed::Give,
            cores: Vec::new(),
            memory_bytes: 0,
            devices: Vec::new(),
            from: "free".into(),
            to: "search".into(),
            by: "owner".into(),
            took_ns: 0,
            result: Ok(()),
            last_words: None,
        }
    }

    #[test]
    fn the_last_records_are_kept_under_their_numbers() {
        let mut journal = Journal::default();
        (0..LOG_RECORDS_MAX + 5).for_each(|_| journal.add(record()));
        assert_eq!(journal.count(), LOG_RECORDS_MAX as u64 + 5);
        let numbers: Vec<u64> = journal.read(0, 2).iter().map(|record| record.number).collect();
        assert_eq!(numbers, [5, 6]);
        assert_eq!(journal.read(LOG_RECORDS_MAX as u64 + 4, 9).len(), 1);
        assert!(journal.read(u64::MAX, 9).is_empty());
    }

    #[test]
    fn a_name_that_somebody_asked_for_is_not_kept_whole() {
        let mut journal = Journal::default();
        journal.add(Record { to: "x".repeat(1 << 16), ..record() });
        assert_eq!(journal.read(0, 1)[0].to.len(), NAME_BYTES_MAX);
    }
}
