//! Descriptors of a process: small numbers for open files.
//!
//! The table is shared by contexts of CLONE_FILES, which count themselves ([`DescriptorTable::join`],
//! [`DescriptorTable::leave`]), and stays with its only one over execve. It owns the POSIX locks that they take. A new descriptor is the lowest free one (open(2)); its bound is the process's
//! RLIMIT_NOFILE. Files that leave the table are answered to the caller, which drops them without the table's lock,
//! many of them in pieces ([`Abandoned`]).
//!
//! * Every function takes the lock once and never waits. [`DescriptorTable::remove_if`] decides under the lock, so
//!   that a call at once never closes a file that must wait.
//! * A table of many descriptors is copied, marked and given up in pieces ([`super::slots`], [`super::remains`]). While
//!   it is copied, others may change what was not reached yet.

use super::locks::{LockTable, Owner};
use super::open_file::OpenFile;
use super::pace::Pace;
use super::slots::{Chunk, Slot, Slots};
use crate::Errno;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::num::NonZero;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use gyre_object::ObjectLock;

/// Most descriptors of a process, under any limit (Linux: nr_open).
pub const DESCRIPTORS_MAX: usize = 1 << 20;

/// Chunks of a table that are copied under one lock.
const CHUNKS_AT_ONCE: usize = 1;
/// Descriptors that are marked or looked at under one lock.
const DESCRIPTORS_AT_ONCE: usize = 1024;

/// A table of descriptors, shared by threads and CLONE_FILES.
pub struct DescriptorTable {
    slots: ObjectLock<Slots>,
    /// Contexts that use it; the last to leave closes everything.
    users: AtomicUsize,
    /// Its number as an owner of POSIX locks, 0 while it has taken none.
    lock_owner: AtomicU64,
}

impl Default for DescriptorTable {
    fn default() -> DescriptorTable {
        DescriptorTable::of(Slots::default())
    }
}

/// Descriptors out of use, to be closed one by one.
#[derive(Default)]
pub struct Abandoned(Vec<Option<Box<Chunk>>>);

impl Abandoned {
    /// Returns whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Iterator for Abandoned {
    type Item = Arc<OpenFile>;

    fn next(&mut self) -> Option<Arc<OpenFile>> {
        while let Some(chunk) = self.0.last_mut() {
            if let Some(slot) = chunk.as_mut().and_then(|chunk| chunk.pop()) {
                return Some(slot.file().clone());
            }
            self.0.pop();
        }
        None
    }
}

fn index_of(descriptor: i32) -> Result<usize, Errno> {
    usize::try_from(descriptor).map_err(|_| Errno::EBADF)
}

impl DescriptorTable {
    fn of(slots: Slots) -> DescriptorTable {
        let (slots, users, lock_owner) = (ObjectLock::new(slots), AtomicUsize::new(1), AtomicU64::new(0));
        DescriptorTable { slots, users, lock_owner }
    }

    /// Returns the open file of a descriptor.
    ///
    /// # Errors
    /// EBADF.
    pub fn get(&self, descriptor: i32) -> Result<Arc<OpenFile>, Errno> {
        let index = index_of(descriptor)?;
        self.slots.lock().get(index).map(|slot| slot.file().clone()).ok_or(Errno::EBADF)
    }

    /// Looks whether a number below `limit` is free.
    ///
    /// # Errors
    /// EMFILE.
    pub fn check_room(&self, limit: u64) -> Result<(), Errno> {
        let limit = usize::try_from(limit).unwrap_or(DESCRIPTORS_MAX).min(DESCRIPTORS_MAX);
        if self.slots.lock().free_from(0) < limit { Ok(()) } else { Err(Errno::EMFILE) }
    }

    /// Gives an open file the lowest free number from `lowest` on and below `limit`.
    ///
    /// # Errors
    /// EMFILE.
    pub fn install(&self, file: Arc<OpenFile>, close_on_exec: bool, lowest: usize, limit: u64) -> Result<i32, Errno> {
        let limit = usize::try_from(limit).unwrap_or(DESCRIPTORS_MAX).min(DESCRIPTORS_MAX);
        let mut slots = self.slots.lock();
        let index = slots.free_from(lowest);
        if index >= limit {
            // The file is dropped by the caller's frame, after this lock.
            drop(slots);
            return Err(Errno::EMFILE);
        }
        let mut slot = Slot::new(file);
        slot.close_on_exec = close_on_exec;
        slots.put(index, slot);
        i32::try_from(index).map_err(|_| Errno::EMFILE)
    }

    /// Gives an open file a certain number; returns the file that had it before.
    ///
    /// # Errors
    /// EBADF beyond `limit`.
    pub fn replace(
        &self,
        file: Arc<OpenFile>,
        close_on_exec: bool,
        descriptor: i32,
        limit: u64,
    ) -> Result<Option<Arc<OpenFile>>, Errno> {
        let index = index_of(descriptor)?;
        if index as u64 >= limit || index >= DESCRIPTORS_MAX {
            return Err(Errno::EBADF);
        }
        let mut slot = Slot::new(file);
        slot.close_on_exec = close_on_exec;
        let before = self.slots.lock().put(index, slot);
        Ok(before.map(|slot| slot.file().clone()))
    }

    /// Takes a descriptor out of the table.
    ///
    /// # Errors
    /// EBADF.
    pub fn remove(&self, descriptor: i32) -> Result<Arc<OpenFile>, Errno> {
        let index = index_of(descriptor)?;
        let slot = self.slots.lock().take(index);
        slot.map(|slot| slot.file().clone()).ok_or(Errno::EBADF)
    }

    /// Takes a descriptor out of the table if `may` allows it; else, or if it is not there, `None`.
    pub fn remove_if(&self, descriptor: i32, may: impl FnOnce(&OpenFile) -> bool) -> Option<Arc<OpenFile>> {
        let index = index_of(descriptor).ok()?;
        let mut slots = self.slots.lock();
        let may_go = slots.get(index).is_some_and(|slot| may(slot.file()));
        may_go.then(|| slots.take(index))?.map(|slot| slot.file().clone())
    }

    /// Takes the lowest descriptor from `first` to `last` out of the table, and answers it with its file.
    pub fn remove_first(&self, first: u32, last: u32) -> Option<(u32, Arc<OpenFile>)> {
        let mut slots = self.slots.lock();
        let index = slots.next_taken(first as usize, (last as usize).saturating_add(1))?;
        let file = slots.take(index)?.file().clone();
        Some((u32::try_from(index).ok()?, file))
    }

    /// Marks descriptors from `first` to `last` close-on-exec, in pieces.
    pub async fn mark_range(&self, first: u32, last: u32) {
        let (mut at, end) = (first as usize, (last as usize).saturating_add(1));
        let mut pace = Pace::new();
        while let Some(next) = self.mark_piece(at, end) {
            at = next;
            pace.step().await;
        }
    }

    fn mark_piece(&self, first: usize, end: usize) -> Option<usize> {
        let mut slots = self.slots.lock();
        let index = slots.next_taken(first, end)?;
        slots.get_mut(index)?.close_on_exec = true;
        index.checked_add(1)
    }

    /// Returns whether execve closes it.
    ///
    /// # Errors
    /// EBADF.
    pub fn closes_on_exec(&self, descriptor: i32) -> Result<bool, Errno> {
        let index = index_of(descriptor)?;
        self.slots.lock().get(index).map(|slot| slot.close_on_exec).ok_or(Errno::EBADF)
    }

    /// Sets whether execve closes it.
    ///
    /// # Errors
    /// EBADF.
    pub fn set_close_on_exec(&self, descriptor: i32, close: bool) -> Result<(), Errno> {
        let index = index_of(descriptor)?;
        self.slots.lock().get_mut(index).map(|slot| slot.close_on_exec = close).ok_or(Errno::EBADF)
    }

    /// Returns a copy, as fork makes it.
    pub async fn copy(&self) -> DescriptorTable {
        let (mut slots, mut at, mut pace) = (Slots::default(), 0, Pace::new());
        loop {
            let chunks = self.slots.lock().copy(at, CHUNKS_AT_ONCE);
            if chunks.is_empty() {
                return DescriptorTable::of(slots);
            }
            slots.append(chunks);
            at = usize::saturating_add(at, CHUNKS_AT_ONCE);
            pace.step().await;
        }
    }

    /// Takes the next descriptor from `first` on that execve closes out of the table; answers where to go on, if anything is left.
    pub(super) fn remove_for_exec(&self, first: usize) -> Option<(usize, Option<Arc<OpenFile>>)> {
        let mut slots = self.slots.lock();
        let mut at = first;
        for _ in 0..DESCRIPTORS_AT_ONCE {
            let index = slots.next_taken(at, DESCRIPTORS_MAX)?;
            at = index.saturating_add(1);
            if slots.get(index).is_some_and(|slot| slot.close_on_exec) {
                return Some((at, slots.take(index).map(|slot| slot.file().clone())));
            }
        }
        Some((at, None))
    }

    /// Adds one context that uses it.
    pub(super) fn join(&self) {
        self.users.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns whether more than one context uses it.
    pub(super) fn is_shared(&self) -> bool {
        self.users.load(Ordering::Acquire) > 1
    }

    /// Returns the owner of its POSIX locks, if it has taken any.
    pub(super) fn lock_owner(&self) -> Option<Owner> {
        NonZero::new(self.lock_owner.load(Ordering::Acquire)).map(|number| Owner::Table(number.get()))
    }

    /// Returns the owner of its POSIX locks, which it is about to take.
    pub(super) fn lock_owner_in(&self, locks: &LockTable) -> Owner {
        let chosen = || {
            let number = locks.new_owner();
            let chosen = self.lock_owner.compare_exchange(0, number, Ordering::AcqRel, Ordering::Acquire);
            Owner::Table(chosen.map_or_else(|other| other, |_| number))
        };
        self.lock_owner().unwrap_or_else(chosen)
    }

    /// Returns the number whose locks are to be given up, since no context uses the table any more.
    pub(super) fn left_locks(&self) -> Option<u64> {
        let number = self.lock_owner.load(Ordering::Acquire);
        (number != 0 && self.users.load(Ordering::Acquire) == 0).then_some(number)
    }

    /// Notes that somebody has given them up, or will do so.
    pub(super) fn forget_locks(&self) {
        self.lock_owner.store(0, Ordering::Release);
    }

    /// Ends the use by one context and returns the descriptors that the last one leaves behind.
    pub(super) fn leave(&self) -> Abandoned {
        match self.users.fetch_sub(1, Ordering::AcqRel) {
            1 => Abandoned(core::mem::take(&mut *self.slots.lock()).into_chunks()),
            _ => Abandoned::default(),
        }
    }

    /// Returns descriptors in use from `first` on, at most [`DESCRIPTORS_AT_ONCE`]; none if there are no more.
    pub fn some_from(&self, first: i32) -> Vec<(i32, Arc<OpenFile>)> {
        let slots = self.slots.lock();
        let next = |from: usize| slots.next_taken(from, DESCRIPTORS_MAX);
        let first = usize::try_from(first).ok().and_then(next);
        let taken = core::iter::successors(first, |last| next(last.saturating_add(1))).take(DESCRIPTORS_AT_ONCE);
        taken.filter_map(|index| Some((i32::try_from(index).ok()?, slots.get(index)?.file().clone()))).collect()
    }

    /// Returns all descriptors in use.
    #[cfg(test)]
    pub fn all(&self) -> Vec<(i32, Arc<OpenFile>)> {
        let after =
            |some: &Vec<(i32, Arc<OpenFile>)>| some.last().map(|(last, _)| self.some_from(last.saturating_add(1)));
        let pieces = core::iter::successors(Some(self.some_from(0)), |some| after(some));
        pieces.take_while(|some| !some.is_empty()).flatten().collect()
    }
}
