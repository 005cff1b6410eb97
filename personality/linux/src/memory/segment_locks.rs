//! SHM_LOCK and SHM_UNLOCK (shmctl(2); Linux: shmctl_do_lock in ipc/shm.c, user_shm_lock in mm/mlock.c).
//!
//! Memory of segments is never taken from its tenant, locked or not. So a lock is a mark that others see, and a part of what its user may lock:
//! RLIMIT_MEMLOCK bounds the sum over the segments that a user has locked, whichever of its processes did.

use super::PAGE;
use crate::credentials::{Capability, Credentials};
use crate::file::permission::Asker;
use crate::{Errno, Thread};
use alloc::collections::BTreeMap;
use linux_raw_sys::general as raw;

/// The pages of segments that each user of a tenant has locked.
#[derive(Default)]
pub(super) struct Locks(BTreeMap<u32, u64>);

/// The caller of SHM_LOCK or SHM_UNLOCK.
pub(super) struct Locker {
    /// Its effective identity, which counts for rights.
    pub(super) asker: Asker,
    /// Its real user, which is charged for the pages.
    pub(super) user: u32,
    /// Bytes that this user may lock.
    limit_bytes: u64,
}

impl Locker {
    /// Returns the identity and the limit of a thread.
    pub(super) fn of(thread: &Thread) -> Locker {
        let Credentials { user, .. } = thread.credentials();
        Locker { asker: Asker::effective(thread), user, limit_bytes: thread.process().limit(raw::RLIMIT_MEMLOCK) }
    }

    /// Checks that it may lock a segment that it owns, or any.
    ///
    /// # Errors
    /// EPERM.
    pub(super) fn check(&self, owns: impl FnOnce(&Asker) -> bool) -> Result<(), Errno> {
        if self.may_lock_all() || owns(&self.asker) { Ok(()) } else { Err(Errno::EPERM) }
    }

    /// Checks that it may lock anything.
    ///
    /// # Errors
    /// EPERM.
    pub(super) fn check_limit(&self) -> Result<(), Errno> {
        if self.may_lock_all() || self.limit_bytes != 0 { Ok(()) } else { Err(Errno::EPERM) }
    }

    fn may_lock_all(&self) -> bool {
        self.asker.has(Capability::IpcLock)
    }
}

impl Locks {
    /// Adds the pages of a segment to those of a user.
    ///
    /// # Errors
    /// ENOMEM if it may not lock so many.
    pub(super) fn add(&mut self, locker: &Locker, pages: u64) -> Result<(), Errno> {
        let sum = self.0.get(&locker.user).copied().unwrap_or(0).saturating_add(pages);
        if sum > locker.limit_bytes / PAGE && !locker.may_lock_all() {
            return Err(Errno::ENOMEM);
        }
        self.0.insert(locker.user, sum);
        Ok(())
    }

    /// Takes the pages of a segment from those of the user that locked it.
    pub(super) fn remove(&mut self, user: u32, pages: u64) {
        match self.0.get_mut(&user) {
            Some(sum) if *sum > pages => *sum = sum.saturating_sub(pages),
            _ => _ = self.0.remove(&user),
        }
    }
}
