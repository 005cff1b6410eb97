//! Locks on files: POSIX record locks, open file description locks and flock (fcntl(2), flock(2)). One table per tenant.
//!
//! * An [`Owner`] is a table of descriptors, an open file description, or one for flock. The first two see each other;
//!   flock sees itself alone. A table has the locks that its processes take: they stay when one of those ends, or executes
//!   another program with the same table.
//! * Protocol of use: [`LockTable::try_lock`] never waits. [`LockTable::lock`] waits until no lock is in the way, and
//!   answers EDEADLK if processes would wait in a circle of at most [`CHAIN_MAX`].
//! * A lock replaces its owner's locks in its range; a cut may leave a part on each side. A file has at most
//!   [`LOCKS_MAX`].
//! * Locks of a table go with any close of the file and with the table's last user, then file by file
//!   ([`LockTable::release_piece`]); those of a description go when that is dropped.
//!
//! A waiting call stands in `wanted`; dropping its future takes it out.

use super::open_file::OpenFile;
use crate::Errno;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use gyre_interface::files::NodeId;
use gyre_message::WaitQueue;
use gyre_object::TenantLock;

/// Locks of one file.
const LOCKS_MAX: usize = 4096;

/// The owner of a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Owner {
    /// A table of descriptors, by its number as an owner (F_SETLK).
    Table(u64),
    /// An open file description (F_OFD_SETLK), by address.
    Description(usize),
    /// An open file description, for flock, which does not see the others.
    Whole(usize),
}

impl Owner {
    /// Returns a description as owner of record locks.
    pub fn of_description(file: &OpenFile) -> Owner {
        Owner::Description(core::ptr::from_ref(file) as usize)
    }

    /// Returns whether locks of both are compared at all.
    fn sees(self, other: Owner) -> bool {
        matches!(self, Owner::Whole(_)) == matches!(other, Owner::Whole(_))
    }
}

/// Shared or exclusive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Many readers.
    Read,
    /// One writer.
    Write,
}

/// A lock on the bytes from `start` to before `end`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lock {
    /// The owner, or the one that wants it.
    pub owner: Owner,
    /// Shared or exclusive.
    pub kind: Kind,
    /// First byte.
    pub start: u64,
    /// One behind the last byte; `u64::MAX` is to the end.
    pub end: u64,
    /// The process that has taken it, for those that ask; -1 for a lock of a description.
    pub process: i32,
}

impl Lock {
    fn conflicts(&self, other: &Lock) -> bool {
        self.owner != other.owner
            && self.owner.sees(other.owner)
            && (self.kind == Kind::Write || other.kind == Kind::Write)
            && self.start < other.end
            && other.start < self.end
    }
}

type File = (u32, NodeId);

#[derive(Default)]
struct Held {
    files: BTreeMap<File, Vec<Lock>>,
    /// The files on which tables of descriptors hold locks.
    of_tables: BTreeSet<(u64, File)>,
}

impl Held {
    /// Notes whether a table holds a lock on a file.
    fn note(&mut self, owner: Owner, file: File) {
        let Owner::Table(table) = owner else { return };
        match self.files.get(&file).is_some_and(|locks| locks.iter().any(|lock| lock.owner == owner)) {
            true => self.of_tables.insert((table, file)),
            false => self.of_tables.remove(&(table, file)),
        };
    }

    /// Removes a range from the locks of `owner`; returns whether something changed.
    fn cut(&mut self, file: File, owner: Owner, start: u64, end: u64) -> bool {
        let Some(locks) = self.files.get_mut(&file) else { return false };
        let changed = cut(locks, owner, start, end);
        if locks.is_empty() {
            self.files.remove(&file);
        }
        self.note(owner, file);
        changed
    }

    fn first_of(&self, table: u64) -> Option<File> {
        const FIRST: File = (0, NodeId(0));
        let first = self.of_tables.range((table, FIRST)..).next();
        first.filter(|(holder, _)| *holder == table).map(|(_, file)| *file)
    }
}

/// All locks of a tenant.
#[derive(Default)]
pub struct LockTable {
    held: TenantLock<Held>,
    /// The locks that processes wait for.
    wanted: TenantLock<Vec<(File, Lock)>>,
    released: WaitQueue,
    /// Numbers of tables so far.
    tables: AtomicU64,
}

/// The longest chain of waiting processes that is followed, as on Linux: a longer circle waits until a signal.
const CHAIN_MAX: usize = 10;

/// An entry of the locks that are waited for; dropping it takes it out.
struct Wanted<'a>(&'a LockTable, File, Lock);

impl Drop for Wanted<'_> {
    fn drop(&mut self) {
        let mut wanted = self.0.wanted.lock();
        if let Some(index) = wanted.iter().position(|entry| *entry == (self.1, self.2)) {
            wanted.swap_remove(index);
        }
    }
}

impl LockTable {
    /// Returns a number for a table of descriptors that owns locks: none is given twice, and none is 0.
    pub fn new_owner(&self) -> u64 {
        self.tables.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
    }

    /// Returns the first lock in the way of `wanted` (F_GETLK).
    pub fn conflict(&self, file: File, wanted: &Lock) -> Option<Lock> {
        let held = self.held.lock();
        let mut locks = held.files.get(&file)?.iter();
        locks.find(|lock| lock.conflicts(wanted)).copied()
    }

    /// Takes a lock if no other one conflicts; it replaces its owner's locks in that range.
    ///
    /// # Errors
    /// EAGAIN; ENOLCK beyond the limit.
    pub fn try_lock(&self, file: File, wanted: Lock) -> Result<(), Errno> {
        let mut held = self.held.lock();
        let locks = held.files.entry(file).or_default();
        if locks.iter().any(|lock| lock.conflicts(&wanted)) {
            return Err(Errno::EAGAIN);
        }
        if locks.len() > LOCKS_MAX - 2 {
            return Err(Errno::ENOLCK);
        }
        let downgraded = cut(locks, wanted.owner, wanted.start, wanted.end);
        locks.push(wanted);
        held.note(wanted.owner, file);
        drop(held);
        if downgraded {
            self.released.wake_all();
        }
        Ok(())
    }

    /// Waits until the lock can be taken.
    ///
    /// # Errors
    /// ENOLCK beyond the limit; EDEADLK for record locks of tables whose processes would wait for each other.
    pub async fn lock(&self, file: File, wanted: Lock) -> Result<(), Errno> {
        match self.try_lock(file, wanted) {
            Err(Errno::EAGAIN) => {}
            answer => return answer,
        }
        self.wanted.lock().push((file, wanted));
        let _entry = Wanted(self, file, wanted);
        if self.closes_circle(file, &wanted) {
            return Err(Errno::EDEADLK);
        }
        self.released
            .until(|| match self.try_lock(file, wanted) {
                Err(Errno::EAGAIN) => None,
                answer => Some(answer),
            })
            .await
    }

    /// Returns whether a process that is to wait for a lock is waited for, over others, by who has it.
    fn closes_circle(&self, file: File, lock: &Lock) -> bool {
        let own = lock.owner;
        let (mut file, mut lock) = (file, *lock);
        for _ in 0..CHAIN_MAX {
            let Some(Owner::Table(holder)) = self.conflict(file, &lock).map(|lock| lock.owner) else { return false };
            if Owner::Table(holder) == own {
                return true;
            }
            let waits = |(_, wanted): &&(File, Lock)| wanted.owner == Owner::Table(holder);
            let Some(next) = self.wanted.lock().iter().find(waits).copied() else { return false };
            (file, lock) = next;
        }
        false
    }

    /// Gives up the locks of `owner` between `start` and `end`.
    pub fn unlock(&self, file: File, owner: Owner, start: u64, end: u64) {
        let changed = self.held.lock().cut(file, owner, start, end);
        if changed {
            self.released.wake_all();
        }
    }

    /// Gives up what a table without users holds on one file; false if it holds nothing more. With the last file those who wait are woken.
    pub fn release_piece(&self, table: u64) -> bool {
        let mut held = self.held.lock();
        let Some(file) = held.first_of(table) else { return false };
        held.cut(file, Owner::Table(table), 0, u64::MAX);
        held.of_tables.remove(&(table, file));
        let is_last = held.first_of(table).is_none();
        drop(held);
        if is_last {
            self.released.wake_all();
        }
        !is_last
    }

    /// Gives up everything that a description holds on a file, in both name spaces.
    pub fn release_owner(&self, file: File, owner: Owner) {
        self.unlock(file, owner, 0, u64::MAX);
        if let Owner::Description(address) = owner {
            self.unlock(file, Owner::Whole(address), 0, u64::MAX);
        }
    }
}

/// Removes a range from the locks of `owner`; returns whether something changed.
fn cut(locks: &mut Vec<Lock>, owner: Owner, start: u64, end: u64) -> bool {
    let mut rest = Vec::new();
    let before = locks.len();
    locks.retain(|lock| {
        let hit = lock.owner == owner && lock.start < end && start < lock.end;
        if hit && lock.start < start {
            rest.push(Lock { end: start, ..*lock });
        }
        if hit && lock.end > end {
            rest.push(Lock { start: end, ..*lock });
        }
        !hit
    });
    let changed = locks.len() != before;
    locks.extend(rest);
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(table: u64, start: u64) -> Lock {
        Lock { owner: Owner::Table(table), kind: Kind::Write, start, end: start + 1, process: 1 }
    }

    #[test]
    fn the_locks_of_a_table_without_users_go_file_by_file() {
        let table = LockTable::default();
        for number in 0..1000 {
            for start in 0..3 {
                table.try_lock((0, NodeId(number)), lock(1, 2 * start)).unwrap();
            }
            table.try_lock((0, NodeId(number)), lock(2, 1)).unwrap();
        }
        let free = || (0..1000).filter(|file| table.conflict((0, NodeId(*file)), &lock(3, 0)).is_none()).count();
        for released in 1..1000 {
            assert!(table.release_piece(1));
            assert_eq!(free(), released);
        }
        assert!(!table.release_piece(1) && !table.release_piece(1));
        assert_eq!(free(), 1000);
        assert!(table.conflict((0, NodeId(5)), &lock(3, 1)).is_some(), "another one's locks stay");
    }

    #[test]
    fn a_table_that_gave_up_a_part_still_holds_the_rest() {
        let (table, file) = (LockTable::default(), (0, NodeId(7)));
        table.try_lock(file, Lock { end: 10, ..lock(1, 0) }).unwrap();
        table.unlock(file, Owner::Table(1), 3, 5);
        assert!(table.conflict(file, &lock(2, 3)).is_none() && table.conflict(file, &lock(2, 5)).is_some());
        assert!(!table.release_piece(1));
        assert!(table.conflict(file, &lock(2, 5)).is_none());
    }
}
