//! Locks on files: POSIX record locks, open file description locks and flock (fcntl(2), flock(2)). One table per tenant.

use super::open_file::OpenFile;
use crate::Errno;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use gyre_interface::files::NodeId;
use gyre_message::WaitQueue;
use gyre_object::TenantLock;

/// Locks of one file.
const LOCKS_MAX: usize = 4096;

/// Who holds a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Owner {
    /// A process (F_SETLK).
    Process(i32),
    /// An open file description (F_OFD_SETLK), by address.
    Description(usize),
    /// An open file description, for flock, which does not see the others.
    Whole(usize),
}

impl Owner {
    /// A description as owner of record locks.
    pub fn of_description(file: &OpenFile) -> Owner {
        Owner::Description(core::ptr::from_ref(file) as usize)
    }

    /// True where locks of both are compared at all.
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
    /// Who holds or wants it.
    pub owner: Owner,
    /// Shared or exclusive.
    pub kind: Kind,
    /// First byte.
    pub start: u64,
    /// One behind the last byte; `u64::MAX` is to the end.
    pub end: u64,
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

/// All locks of a tenant.
#[derive(Default)]
pub struct LockTable {
    files: TenantLock<BTreeMap<File, Vec<Lock>>>,
    released: WaitQueue,
}

impl LockTable {
    /// The first lock in the way of `wanted` (F_GETLK).
    pub fn conflict(&self, file: File, wanted: &Lock) -> Option<Lock> {
        let files = self.files.lock();
        let mut locks = files.get(&file)?.iter();
        locks.find(|lock| lock.conflicts(wanted)).copied()
    }

    /// Takes a lock if nobody is in the way; it replaces what its owner held there.
    ///
    /// # Errors
    /// EAGAIN; ENOLCK beyond the limit.
    pub fn try_lock(&self, file: File, wanted: Lock) -> Result<(), Errno> {
        let mut files = self.files.lock();
        let locks = files.entry(file).or_default();
        if locks.iter().any(|lock| lock.conflicts(&wanted)) {
            return Err(Errno::EAGAIN);
        }
        if locks.len() > LOCKS_MAX - 2 {
            return Err(Errno::ENOLCK);
        }
        let downgraded = cut(locks, wanted.owner, wanted.start, wanted.end);
        locks.push(wanted);
        drop(files);
        if downgraded {
            self.released.wake_all();
        }
        Ok(())
    }

    /// Waits until the lock can be taken.
    ///
    /// # Errors
    /// ENOLCK beyond the limit.
    pub async fn lock(&self, file: File, wanted: Lock) -> Result<(), Errno> {
        self.released
            .until(|| match self.try_lock(file, wanted) {
                Err(Errno::EAGAIN) => None,
                answer => Some(answer),
            })
            .await
    }

    /// Gives up what `owner` holds between `start` and `end`.
    pub fn unlock(&self, file: File, owner: Owner, start: u64, end: u64) {
        let mut files = self.files.lock();
        let Some(locks) = files.get_mut(&file) else {
            return;
        };
        let changed = cut(locks, owner, start, end);
        if locks.is_empty() {
            files.remove(&file);
        }
        drop(files);
        if changed {
            self.released.wake_all();
        }
    }

    /// Gives up everything that a process holds.
    pub fn release_process(&self, process: i32) {
        self.files.lock().retain(|_, locks| {
            locks.retain(|lock| lock.owner != Owner::Process(process));
            !locks.is_empty()
        });
        self.released.wake_all();
    }

    /// Gives up everything that a description holds on a file, in both name spaces.
    pub fn release_owner(&self, file: File, owner: Owner) {
        self.unlock(file, owner, 0, u64::MAX);
        if let Owner::Description(address) = owner {
            self.unlock(file, Owner::Whole(address), 0, u64::MAX);
        }
    }
}

/// Removes a range from what `owner` holds; true where something changed.
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
