//! The ledger: per core a flat table of cells, `[activity][resource]`. A core writes its own table only, with plain loads and
//! stores; everybody may read.

use crate::limits::RESOURCES_MAX;
use crate::storage::StorageTable;
use crate::{ActivityId, ResourceId};
use alloc::boxed::Box;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A count of a cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum Column {
    /// Cycles spent.
    Cycles = 0,
    /// Messages handled: starts and resumptions, queued or inline.
    Messages = 1,
    /// Bytes moved, as the resource reports them.
    Bytes = 2,
    /// Nanoseconds a device was busy, as the resource reports them.
    DeviceNs = 3,
    /// Nanoseconds that messages waited in queues.
    QueueNs = 4,
    /// Longest such wait, ns.
    QueueNsMax = 5,
    /// Longest span without a stamp, cycles: the longest message, or a batch of them.
    SpanCyclesMax = 6,
    /// Of the messages, those started inline, without having been queued.
    Inline = 7,
}

/// Columns of a cell.
pub const COLUMNS: usize = 8;

impl Column {
    const fn is_maximum(column: usize) -> bool {
        column == Column::QueueNsMax as usize || column == Column::SpanCyclesMax as usize
    }
}

/// The figures of one activity at one resource on one core: a line of cache.
#[repr(align(64))]
#[derive(Default)]
pub struct Cell([AtomicU64; COLUMNS]);

impl Cell {
    /// Adds to a column. Only the cell's core may do so.
    #[inline]
    pub fn add(&self, column: Column, amount: u64) {
        let cell = &self.0[column as usize];
        cell.store(cell.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
    }

    /// Raises a column to a value. Only the cell's core may do so.
    #[inline]
    pub fn raise(&self, column: Column, value: u64) {
        let cell = &self.0[column as usize];
        if value > cell.load(Ordering::Relaxed) {
            cell.store(value, Ordering::Relaxed);
        }
    }

    /// Reads a column.
    #[inline]
    pub fn get(&self, column: Column) -> u64 {
        self.0[column as usize].load(Ordering::Relaxed)
    }

    /// Reads all columns, in the order of [`Column`].
    pub fn read(&self) -> [u64; COLUMNS] {
        core::array::from_fn(|column| self.0[column].load(Ordering::Relaxed))
    }

    /// Adds the figures to `into` and forgets them.
    fn pour_into(&self, into: &Cell) {
        for (column, from) in self.0.iter().enumerate() {
            let value = from.swap(0, Ordering::Relaxed);
            let to = &into.0[column];
            let before = to.load(Ordering::Relaxed);
            to.store(add(column, before, value), Ordering::Relaxed);
        }
    }
}

fn add(column: usize, one: u64, other: u64) -> u64 {
    if Column::is_maximum(column) { one.max(other) } else { one.wrapping_add(other) }
}

/// Returns the figures of two cells as one: counts added, maxima compared.
pub fn sum(one: [u64; COLUMNS], other: [u64; COLUMNS]) -> [u64; COLUMNS] {
    core::array::from_fn(|column| add(column, one[column], other[column]))
}

/// The cells of one core.
pub struct Table {
    cells: Box<[Cell]>,
    /// Requests that found no place, by cell: too rare for a place in its line of cache.
    dropped: Box<[AtomicU32]>,
    storage: StorageTable,
}

impl Table {
    /// Makes an empty table for `activities` activities.
    pub fn new(activities: usize) -> Table {
        let count = activities * RESOURCES_MAX;
        Table {
            cells: (0..count).map(|_| Cell::default()).collect(),
            dropped: (0..count).map(|_| AtomicU32::new(0)).collect(),
            storage: StorageTable::new(activities),
        }
    }

    /// Returns the number of a cell; wild ids share the last cell of the table, which belongs to no activity.
    #[inline]
    pub(crate) fn index(&self, activity: ActivityId, resource: ResourceId) -> usize {
        (activity.index() * RESOURCES_MAX + resource.index() % RESOURCES_MAX).min(self.cells.len() - 1)
    }

    /// Returns the cell of an activity at a resource.
    #[inline]
    pub fn cell(&self, activity: ActivityId, resource: ResourceId) -> &Cell {
        &self.cells[self.index(activity, resource)]
    }

    /// Returns the cell of a number that [`Table::index`] gave.
    #[inline]
    pub(crate) fn at_known(&self, index: usize) -> &Cell {
        &self.cells[index]
    }

    #[inline]
    pub(crate) fn at(&self, index: usize) -> Option<&Cell> {
        self.cells.get(index)
    }

    /// Returns the bytes of disks and files, by activity.
    #[inline]
    pub fn storage(&self) -> &StorageTable {
        &self.storage
    }

    /// Adds all figures of `from` to those of `into`: at the end of an activity. Only this table's core may do so.
    pub fn merge(&self, from: ActivityId, into: ActivityId) {
        for resource in 0..RESOURCES_MAX {
            let resource = ResourceId(resource as u8);
            self.cell(from, resource).pour_into(self.cell(into, resource));
            let dropped = self.dropped[self.index(from, resource)].swap(0, Ordering::Relaxed);
            self.dropped[self.index(into, resource)].fetch_add(dropped, Ordering::Relaxed);
        }
        self.storage.merge(from, into);
    }

    /// Counts a request that found no place and was dropped.
    pub fn count_dropped(&self, activity: ActivityId, resource: ResourceId) {
        self.dropped[self.index(activity, resource)].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how many requests found no place, modulo 2^32.
    pub fn dropped(&self, activity: ActivityId, resource: ResourceId) -> u32 {
        self.dropped[self.index(activity, resource)].load(Ordering::Relaxed)
    }

    /// Returns the sum of a column over all cells.
    pub fn sum(&self, column: Column) -> u64 {
        self.cells.iter().fold(0, |sum, cell| sum.wrapping_add(cell.get(column)))
    }
}
