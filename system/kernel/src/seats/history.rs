//! The log of cells: each grant, entry, exit and revocation. The last records are kept.

use super::owner::Owner;
use super::seat::Seat;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use gyre_contract::seats::{By, Deed, RECORDS_MAX, Record};
use gyre_engine::Engine;
use gyre_object::SpinLock;

/// Something that has happened.
pub struct Event {
    /// Its kind.
    pub deed: Deed,
    /// Cores that moved.
    pub cores: Vec<u32>,
    /// Memory that moved, bytes.
    pub memory_bytes: u64,
    /// By whose order.
    pub by: By,
    /// The cycle at which it began.
    pub began: u64,
    /// The result in words.
    pub result: String,
}

#[derive(Default)]
struct State {
    /// The number of the next record.
    next: u64,
    records: VecDeque<Record>,
}

/// The log.
pub struct History {
    engine: &'static Engine,
    state: SpinLock<State>,
}

impl History {
    /// Makes an empty log.
    pub fn new(engine: &'static Engine) -> History {
        History { engine, state: SpinLock::new(State::default()) }
    }

    /// Notes what has happened to a cell.
    pub fn note(&self, seat: &Seat, event: Event) {
        self.note_of(Some(seat.number), &seat.owner, event);
    }

    /// Notes what has happened to a process that is no cell.
    pub fn note_refused(&self, owner: &Owner, event: Event) {
        self.note_of(None, owner, event);
    }

    fn note_of(&self, cell: Option<u16>, owner: &Owner, event: Event) {
        let now = gyre_x86_64::now();
        let record = Record {
            number: 0,
            at_ns: self.engine.ns(now),
            cell,
            tenant: owner.tenant.clone(),
            process: owner.process,
            deed: event.deed,
            cores: event.cores,
            memory_bytes: event.memory_bytes,
            by: event.by,
            took_ns: self.engine.ns(now.saturating_sub(event.began)),
            result: event.result,
        };
        let mut state = self.state.lock();
        let number = state.next;
        state.next = number.saturating_add(1);
        let oldest = if state.records.len() >= RECORDS_MAX { state.records.pop_front() } else { None };
        state.records.push_back(Record { number, ..record });
        drop(state);
        drop(oldest);
    }

    /// Returns the records from a number on.
    pub fn since(&self, number: u64) -> Vec<Record> {
        self.state.lock().records.iter().filter(|record| record.number >= number).cloned().collect()
    }
}
