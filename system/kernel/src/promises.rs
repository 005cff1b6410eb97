//! The promises and goals that hold now, the policies that keep promises, and the last changes of all of them.
//!
//! One change is made at a time: [`Promises::begin`] gives the right to make one, and who comes meanwhile is told so.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use gyre_assembly::admission::Table;
use gyre_contract::boot::{Goal, Machine};
use gyre_contract::promise::{RECORDS_MAX, Record, Together, WORDS_BYTES_MAX};
use gyre_linux::time::monotonic_ns;
use gyre_object::SpinLock;

/// See the module.
pub struct Promises {
    table: SpinLock<Table>,
    /// The goal of each tenant.
    goals: SpinLock<Vec<Option<Goal>>>,
    log: SpinLock<Log>,
    is_changing: AtomicBool,
}

/// The last changes, each in postcard form.
#[derive(Default)]
struct Log {
    epoch: u64,
    records: VecDeque<Vec<u8>>,
}

/// The right to make a change; given back when dropped.
pub struct Turn<'a>(&'a Promises);

impl Promises {
    /// Makes the promises of a description.
    pub fn new(machine: &'static Machine) -> Promises {
        Promises {
            table: SpinLock::new(Table::of(machine)),
            goals: SpinLock::new(machine.tenants.iter().map(|tenant| tenant.goal).collect()),
            log: SpinLock::default(),
            is_changing: AtomicBool::new(false),
        }
    }

    /// Takes the right to make a change; `None` while another one is made.
    pub fn begin(&self) -> Option<Turn<'_>> {
        (!self.is_changing.swap(true, Ordering::AcqRel)).then_some(Turn(self))
    }

    /// Returns the promises that hold now.
    pub fn table(&self) -> Table {
        self.table.lock().clone()
    }

    /// Returns the goal of a tenant, its index in the description.
    pub fn goal(&self, tenant: usize) -> Option<Goal> {
        self.goals.lock().get(tenant).copied().flatten()
    }

    /// Changes the goal of a tenant.
    pub fn set_goal(&self, tenant: usize, goal: Option<Goal>) {
        if let Some(place) = self.goals.lock().get_mut(tenant) {
            *place = goal;
        }
    }

    /// Returns the number of the last change; 0 before the first.
    pub fn epoch(&self) -> u64 {
        self.log.lock().epoch
    }

    /// Returns records from an epoch on, in postcard form, as many as fit into so many bytes.
    pub fn records(&self, from: u64, room: usize) -> Vec<Record> {
        let log = self.log.lock();
        let read = |bytes: &Vec<u8>| Some((bytes.len(), postcard::from_bytes::<Record>(bytes).ok()?));
        // The list's own length takes two bytes at most.
        let mut left = room.saturating_sub(2);
        let fits = |(bytes, record): (usize, Record)| {
            left = left.checked_sub(bytes)?;
            Some(record)
        };
        log.records.iter().filter_map(read).filter(|(_, record)| record.epoch >= from).map_while(fits).collect()
    }
}

impl Turn<'_> {
    /// Keeps what holds from now on.
    pub fn keep(&self, table: Table) {
        *self.0.table.lock() = table;
    }

    /// Records a change that was made; returns its epoch.
    pub fn record(&self, together: &Together) -> u64 {
        let mut log = self.0.log.lock();
        log.epoch = log.epoch.saturating_add(1);
        let record = Record {
            epoch: log.epoch,
            at_ns: monotonic_ns(),
            by: clipped(&together.by).into(),
            reason: clipped(&together.reason).into(),
            changes: together.changes.clone(),
        };
        // Without memory for it the change holds all the same, and the next record's number shows that one is missing.
        if let Ok(bytes) = postcard::to_allocvec(&record) {
            while log.records.len() >= RECORDS_MAX {
                log.records.pop_front();
            }
            log.records.push_back(bytes);
        }
        log.epoch
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.is_changing.store(false, Ordering::Release);
    }
}

fn clipped(text: &str) -> &str {
    let end = (0..=text.len().min(WORDS_BYTES_MAX)).rev().find(|at| text.is_char_boundary(*at));
    text.get(..end.unwrap_or(0)).unwrap_or_default()
}
