//! The work of activities on disks and on pages of files, in bytes: the figures of /proc/PID/io.
//!
//! A core writes its own table only, with plain loads and stores; everybody may read. A cell lives as long as its activity; at the end its
//! figures are its heir's, as those of the ledger are.

use crate::ActivityId;
use alloc::boxed::Box;
use core::sync::atomic::{AtomicU64, Ordering};

/// A figure of a cell, bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum Storage {
    /// Asked from disks in its name.
    Read = 0,
    /// Sent to disks in its name. Pages that are written back are so in its tenant's name.
    Written = 1,
    /// Pages of files that it made dirty: they will be written.
    Dirtied = 2,
    /// Dirty pages that it dropped: they will not be written.
    Cancelled = 3,
}

/// Figures of a cell.
pub const FIGURES: usize = 4;

/// The figures of each activity on one core.
pub struct StorageTable(Box<[[AtomicU64; FIGURES]]>);

impl StorageTable {
    /// Makes an empty table for `activities` activities.
    pub(crate) fn new(activities: usize) -> StorageTable {
        StorageTable((0..activities).map(|_| Default::default()).collect())
    }

    /// Adds bytes to a figure of an activity; nothing for one that the table has no place for. Only the table's core may do so.
    pub fn add(&self, activity: ActivityId, figure: Storage, bytes: u64) {
        if let Some(cell) = self.0.get(activity.index()).and_then(|cells| cells.get(figure as usize)) {
            cell.store(cell.load(Ordering::Relaxed).wrapping_add(bytes), Ordering::Relaxed);
        }
    }

    /// Returns the figures of an activity, in the order of [`Storage`].
    pub fn read(&self, activity: ActivityId) -> [u64; FIGURES] {
        let cells = self.0.get(activity.index());
        cells.map_or([0; FIGURES], |cells| core::array::from_fn(|figure| cells[figure].load(Ordering::Relaxed)))
    }

    /// Adds the figures of `from` to those of `into` and forgets them.
    pub(crate) fn merge(&self, from: ActivityId, into: ActivityId) {
        let (Some(from), Some(into)) = (self.0.get(from.index()), self.0.get(into.index())) else { return };
        for (from, into) in from.iter().zip(into) {
            let bytes = from.swap(0, Ordering::Relaxed);
            into.store(into.load(Ordering::Relaxed).wrapping_add(bytes), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_activity_that_ends_leaves_its_bytes_to_its_heir() {
        let table = StorageTable::new(4);
        let (child, parent) = (ActivityId(2), ActivityId(1));
        table.add(child, Storage::Read, 512);
        table.add(child, Storage::Dirtied, 4096);
        table.add(parent, Storage::Read, 1024);
        table.add(ActivityId(3000), Storage::Read, 1);
        table.merge(child, parent);
        assert_eq!((table.read(child), table.read(parent)), ([0; FIGURES], [1536, 0, 4096, 0]));
        assert_eq!(table.read(ActivityId(3000)), [0; FIGURES], "it has no place");
    }
}
