//! Locked memory: mlock and its family, within RLIMIT_MEMLOCK.

use crate::advise::checked;
use crate::populate::Populate;
use crate::region::{Options, Region};
use crate::space::{LockFuture, State};
use crate::{AddressSpace, SpaceError};
use alloc::vec::Vec;

impl AddressSpace {
    /// Locks a range, if no more than `most` bytes are locked then; what is locked already counts once.
    ///
    /// # Errors
    /// [`SpaceError::NoMemory`] beyond that, [`SpaceError::NotMapped`] for a hole.
    pub fn lock(&self, address: u64, bytes: u64, most: u64) -> Result<(), SpaceError> {
        let (start, end) = checked(address, bytes)?;
        let mut state = self.state.lock();
        if most != u64::MAX && state.locked_bytes_with(start, end) > most {
            return Err(SpaceError::NoMemory);
        }
        state.set_options(start, end, |options| options.union(Options::LOCKED))
    }

    /// Returns the bytes of mappings that are locked (mlock(2)).
    pub fn locked_bytes(&self) -> u64 {
        self.state.lock().regions.bytes(is_locked)
    }

    /// Locks what is mapped now, if that is no more than `most` bytes, and makes it resident as far as it can be (mlockall).
    ///
    /// # Errors
    /// [`SpaceError::NoMemory`] beyond that.
    pub async fn lock_all(&self, lock: LockFuture, most: u64) -> Result<(), SpaceError> {
        let ranges = self.state.lock().lock_all(most)?;
        for (start, end) in ranges.into_iter().filter(|_| lock == LockFuture::Resident) {
            // Memory that a program may not read cannot be had: it stays locked, as on Linux.
            let _ = self.populate(start, end.saturating_sub(start), Populate::Own).await;
        }
        Ok(())
    }

    /// Lets all go again (munlockall).
    pub fn unlock_all(&self) {
        let mut state = self.state.lock();
        state.lock_future = LockFuture::No;
        state.regions.change_all(|region| region.options.remove(Options::LOCKED));
    }

    /// The fate of all that is mapped from now on (mlockall with MCL_FUTURE); a new process (fork) does not inherit it.
    pub fn lock_future(&self, lock: LockFuture) {
        self.state.lock().lock_future = lock;
    }
}

fn is_locked(region: &Region) -> bool {
    region.options.contains(Options::LOCKED)
}

impl State {
    /// Refuses `bytes` more of locked memory beyond the limit. Looks at all regions if there is one.
    pub(crate) fn check_locked(&self, bytes: u64) -> Result<(), SpaceError> {
        let most = self.limits.locked_bytes;
        match most != u64::MAX && self.regions.bytes(is_locked).saturating_add(bytes) > most {
            true => Err(SpaceError::LockedTooMuch),
            false => Ok(()),
        }
    }

    /// Locked ranges that meet the range, too.
    fn locked_bytes_with(&self, start: u64, end: u64) -> u64 {
        let parts = self.regions.parts(start, end);
        let twice: u64 = parts.iter().filter(|part| is_locked(&part.2)).map(|part| part.1.saturating_sub(part.0)).sum();
        let locked = self.regions.bytes(is_locked).saturating_sub(twice);
        locked.saturating_add(end.saturating_sub(start))
    }

    fn lock_all(&mut self, most: u64) -> Result<Vec<(u64, u64)>, SpaceError> {
        if self.regions.mapped_bytes() > most {
            return Err(SpaceError::NoMemory);
        }
        let ranges = self.regions.iter().map(|(start, region)| (start, region.end)).collect();
        self.regions.change_all(|region| region.options.insert(Options::LOCKED));
        Ok(ranges)
    }
}
