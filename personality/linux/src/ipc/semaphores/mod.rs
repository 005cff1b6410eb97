//! Sets of semaphores (semget(2), semop(2), semctl(2); Linux: ipc/sem.c).
//!
//! | module | holds |
//! |---|---|
//! | [`calls`] | semget, semop, semtimedop |
//! | [`control`] | semctl |
//! | [`set`], [`state`] | one set; its values, operations that are done or wait |
//! | [`lines`] | who waits for what, and in which order they are looked at |
//! | [`undo`] | what SEM_UNDO takes back when a process ends |
//!
//! The operations of one call are done together or not at all. Those that cannot be done wait in a line: of one
//! semaphore if there is one operation, of the set if there are more. A caller that changes a semaphore does the
//! operations that have become possible, the oldest first.
//!
//! Difference from Linux: SEM_UNDO belongs to a process, not to a thread made without CLONE_SYSVSEM (no C library makes
//! such ones).

pub mod calls;
pub mod control;
mod lines;
mod set;
mod state;
pub mod undo;

use super::LINES_AT_ONCE;
use super::ids::{Entry, Ids};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;
use gyre_object::TenantLock;
pub(crate) use set::Set;

/// Sets of a tenant (SEMMNI).
pub const SETS_MAX: usize = 32_000;
/// Semaphores of a set (SEMMSL).
pub const SET_SEMAPHORES_MAX: usize = 32_000;
/// Semaphores of a tenant (SEMMNS).
pub const SEMAPHORES_MAX: usize = 1_024_000_000;
/// Operations of one call (SEMOPM).
pub const OPERATIONS_MAX: usize = 500;
/// The largest value of a semaphore (SEMVMX), and of what is taken back (SEMAEM).
pub const VALUE_MAX: i32 = 32_767;

/// The sets by number, and how many semaphores they have together.
#[derive(Default)]
pub(super) struct Table {
    pub(super) sets: Ids<Arc<Set>>,
    pub(super) semaphores: usize,
}

/// The sets of a tenant.
#[derive(Default)]
pub(crate) struct Sets {
    table: TenantLock<Table>,
    /// The number of the next process that has something to take back.
    next_undo: AtomicU64,
}

/// The first line of /proc/sysvipc/sem.
pub(crate) const HEAD: &str = "       key      semid perms      nsems   uid   gid  cuid  cgid      otime      ctime\n";

impl Sets {
    /// Takes all sets out of the table.
    pub(super) fn take_all(&self) -> Ids<Arc<Set>> {
        core::mem::take(&mut *self.table.lock()).sets
    }

    /// Returns lines of /proc/sysvipc/sem (proc(5)) from an index on.
    pub(crate) fn lines(&self, first: u32) -> Vec<(u32, String)> {
        self.table.lock().sets.lines(first, LINES_AT_ONCE, line)
    }
}

fn line(entry: &Entry<Arc<Set>>) -> String {
    let (who, times) = (entry.permission, entry.item.times());
    format!(
        "{:10} {:10}  {:4o} {:10} {:5} {:5} {:5} {:5} {:10} {:10}\n",
        who.key.cast_signed(),
        entry.number(),
        who.mode,
        entry.item.count(),
        who.owner.0,
        who.owner.1,
        who.maker.0,
        who.maker.1,
        times.operated_s,
        times.changed_s,
    )
}
