//! Descriptors of a process: small numbers for open files.

use super::open_file::OpenFile;
use crate::Errno;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};
use gyre_object::ObjectLock;

/// Descriptors of a process, whatever its limit says (Linux: nr_open).
pub const DESCRIPTORS_MAX: usize = 1 << 20;

#[derive(Clone)]
struct Slot {
    file: Arc<OpenFile>,
    close_on_exec: bool,
}

/// A table of descriptors, shared by threads and CLONE_FILES.
pub struct DescriptorTable {
    slots: ObjectLock<Vec<Option<Slot>>>,
    /// Contexts that use it; the last to leave closes everything.
    users: AtomicUsize,
}

impl Default for DescriptorTable {
    fn default() -> DescriptorTable {
        DescriptorTable { slots: ObjectLock::default(), users: AtomicUsize::new(1) }
    }
}

/// Descriptors that nobody uses any more, to be closed one by one.
#[derive(Default)]
pub struct Abandoned(Vec<Option<Slot>>);

impl Abandoned {
    /// True where nothing is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Iterator for Abandoned {
    type Item = Arc<OpenFile>;

    fn next(&mut self) -> Option<Arc<OpenFile>> {
        while let Some(slot) = self.0.pop() {
            if let Some(slot) = slot {
                return Some(slot.file);
            }
        }
        None
    }
}

fn index_of(descriptor: i32) -> Result<usize, Errno> {
    usize::try_from(descriptor).map_err(|_| Errno::EBADF)
}

impl DescriptorTable {
    /// The open file of a descriptor.
    ///
    /// # Errors
    /// EBADF.
    pub fn get(&self, descriptor: i32) -> Result<Arc<OpenFile>, Errno> {
        let index = index_of(descriptor)?;
        match self.slots.lock().get(index) {
            Some(Some(slot)) => Ok(slot.file.clone()),
            _ => Err(Errno::EBADF),
        }
    }

    /// Gives an open file the lowest free number from `lowest` on and below `limit`.
    ///
    /// # Errors
    /// EMFILE.
    pub fn install(&self, file: Arc<OpenFile>, close_on_exec: bool, lowest: usize, limit: u64) -> Result<i32, Errno> {
        let limit = usize::try_from(limit).unwrap_or(DESCRIPTORS_MAX).min(DESCRIPTORS_MAX);
        let mut slots = self.slots.lock();
        let free = slots.iter().skip(lowest).position(Option::is_none);
        let index = free.map_or(slots.len().max(lowest), |offset| lowest.saturating_add(offset));
        if index >= limit {
            // The file is dropped by the caller's frame, after this lock.
            drop(slots);
            return Err(Errno::EMFILE);
        }
        if index >= slots.len() {
            slots.resize(index.saturating_add(1), None);
        }
        if let Some(slot) = slots.get_mut(index) {
            *slot = Some(Slot { file, close_on_exec });
        }
        i32::try_from(index).map_err(|_| Errno::EMFILE)
    }

    /// Gives an open file a certain number; answers what had it before.
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
        let mut slots = self.slots.lock();
        if index >= slots.len() {
            slots.resize(index.saturating_add(1), None);
        }
        let slot = slots.get_mut(index).ok_or(Errno::EBADF)?;
        let before = slot.replace(Slot { file, close_on_exec });
        Ok(before.map(|slot| slot.file))
    }

    /// Takes a descriptor out of the table.
    ///
    /// # Errors
    /// EBADF.
    pub fn remove(&self, descriptor: i32) -> Result<Arc<OpenFile>, Errno> {
        let index = index_of(descriptor)?;
        let mut slots = self.slots.lock();
        let slot = slots.get_mut(index).and_then(Option::take);
        slot.map(|slot| slot.file).ok_or(Errno::EBADF)
    }

    /// Takes a descriptor out of the table where `may` says so; `None`, and nothing done, where it is not there or may not.
    pub fn remove_if(&self, descriptor: i32, may: impl FnOnce(&OpenFile) -> bool) -> Option<Arc<OpenFile>> {
        let index = index_of(descriptor).ok()?;
        let mut slots = self.slots.lock();
        let slot = slots.get_mut(index)?;
        slot.take_if(|slot| may(&slot.file)).map(|slot| slot.file)
    }

    /// Takes the lowest descriptor from `first` to `last` out of the table, and answers it with its file.
    pub fn remove_first(&self, first: u32, last: u32) -> Option<(u32, Arc<OpenFile>)> {
        let mut slots = self.slots.lock();
        let end = slots.len().min((last as usize).saturating_add(1));
        let start = (first as usize).min(end);
        let range = slots.get_mut(start..end).unwrap_or_default();
        let (index, slot) = range.iter_mut().enumerate().find(|(_, slot)| slot.is_some())?;
        let file = slot.take()?.file;
        Some((u32::try_from(start.saturating_add(index)).ok()?, file))
    }

    /// Marks all descriptors from `first` to `last` close-on-exec.
    pub fn mark_range(&self, first: u32, last: u32) {
        let mut slots = self.slots.lock();
        let end = slots.len().min((last as usize).saturating_add(1));
        let range = slots.get_mut((first as usize).min(end)..end).unwrap_or_default();
        range.iter_mut().flatten().for_each(|slot| slot.close_on_exec = true);
    }

    /// True where execve closes it.
    ///
    /// # Errors
    /// EBADF.
    pub fn closes_on_exec(&self, descriptor: i32) -> Result<bool, Errno> {
        let index = index_of(descriptor)?;
        match self.slots.lock().get(index) {
            Some(Some(slot)) => Ok(slot.close_on_exec),
            _ => Err(Errno::EBADF),
        }
    }

    /// Sets whether execve closes it.
    ///
    /// # Errors
    /// EBADF.
    pub fn set_close_on_exec(&self, descriptor: i32, close: bool) -> Result<(), Errno> {
        let index = index_of(descriptor)?;
        match self.slots.lock().get_mut(index) {
            Some(Some(slot)) => {
                slot.close_on_exec = close;
                Ok(())
            }
            _ => Err(Errno::EBADF),
        }
    }

    /// A copy, as fork makes it.
    pub fn copy(&self) -> DescriptorTable {
        DescriptorTable { slots: ObjectLock::new(self.slots.lock().clone()), users: AtomicUsize::new(1) }
    }

    /// Takes out what execve closes.
    pub fn remove_for_exec(&self) -> Abandoned {
        let mut slots = self.slots.lock();
        let closing = slots.iter_mut().filter(|slot| slot.as_ref().is_some_and(|slot| slot.close_on_exec));
        Abandoned(closing.map(Option::take).collect())
    }

    /// One more context uses it.
    pub(super) fn join(&self) {
        self.users.fetch_add(1, Ordering::AcqRel);
    }

    /// A context uses it no more; answers what the last one leaves behind.
    pub(super) fn leave(&self) -> Abandoned {
        match self.users.fetch_sub(1, Ordering::AcqRel) {
            1 => Abandoned(core::mem::take(&mut *self.slots.lock())),
            _ => Abandoned::default(),
        }
    }

    /// All descriptors in use.
    pub fn all(&self) -> Vec<(i32, Arc<OpenFile>)> {
        let slots = self.slots.lock();
        let used = slots.iter().enumerate().filter_map(|(index, slot)| {
            let slot = slot.as_ref()?;
            Some((i32::try_from(index).ok()?, slot.file.clone()))
        });
        used.collect()
    }
}
