//! Numbers and keys of the objects of one kind (Linux: ipc/util.c).
//!
//! A number is an index, its lowest 15 bits, and a sequence: a new object at the index of a former one has another
//! number. SEM_STAT and the like take the index alone. A key leads to one object until that is removed.

use super::permission::Permission;
use super::{CREATE, EXCLUSIVE};
use crate::Errno;
use crate::file::permission::Asker;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;

/// Bits of an index.
const INDEX_BITS: u32 = 15;
/// Sequences there are.
const SEQUENCES: u32 = 1 << 16;

/// An object with its key and rights.
pub struct Entry<T> {
    /// Its rights.
    pub permission: Permission,
    /// The object.
    pub item: T,
    number: u32,
}

impl<T> Entry<T> {
    /// Returns its number.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns the sequence in its number.
    pub fn sequence(&self) -> u32 {
        self.number >> INDEX_BITS
    }
}

/// The objects of one kind.
pub struct Ids<T> {
    entries: BTreeMap<u32, Entry<T>>,
    keys: BTreeMap<u32, u32>,
    /// Indexes that were used, the one that is free for longest first.
    free: VecDeque<u32>,
    /// The first index that was never used.
    next: u32,
    sequence: u32,
}

impl<T> Default for Ids<T> {
    fn default() -> Ids<T> {
        Ids { entries: BTreeMap::new(), keys: BTreeMap::new(), free: VecDeque::new(), next: 0, sequence: 0 }
    }
}

/// The arguments of an xxxget call.
pub struct Request<'a> {
    /// The caller.
    pub asker: &'a Asker,
    /// The key; 0 makes an object without one.
    pub key: u32,
    /// IPC_CREAT, IPC_EXCL and the mode.
    pub flags: u32,
    /// The most objects of this kind.
    pub most: usize,
}

fn index_of(number: u32) -> u32 {
    number & ((1 << INDEX_BITS) - 1)
}

impl<T> Ids<T> {
    /// Returns the number of the object with this key, or makes one (semget(2), msgget(2), shmget(2)).
    ///
    /// # Errors
    /// ENOENT; EEXIST; EACCES; ENOSPC; those of `fits`, which looks at the object that there is, and of `make`.
    pub fn get(
        &mut self,
        request: &Request<'_>,
        fits: impl FnOnce(&T) -> Result<(), Errno>,
        make: impl FnOnce() -> Result<T, Errno>,
    ) -> Result<u32, Errno> {
        let known = self.keys.get(&request.key).filter(|_| request.key != 0);
        if let Some(entry) = known.and_then(|index| self.entries.get(index)) {
            if request.flags & (CREATE | EXCLUSIVE) == CREATE | EXCLUSIVE {
                return Err(Errno::EEXIST);
            }
            fits(&entry.item)?;
            entry.permission.check(request.asker, Permission::wanted(request.flags))?;
            return Ok(entry.number);
        }
        match request.key != 0 && request.flags & CREATE == 0 {
            true => Err(Errno::ENOENT),
            false => self.add(request, make),
        }
    }

    fn add(&mut self, request: &Request<'_>, make: impl FnOnce() -> Result<T, Errno>) -> Result<u32, Errno> {
        if self.entries.len() >= request.most.min(1 << INDEX_BITS) {
            return Err(Errno::ENOSPC);
        }
        let item = make()?;
        let index = self.free.pop_front().unwrap_or_else(|| {
            let next = self.next;
            self.next = next.saturating_add(1);
            next
        });
        let number = self.sequence << INDEX_BITS | index;
        self.sequence = self.sequence.wrapping_add(1) % SEQUENCES;
        let permission = Permission::new(request.asker, request.key, request.flags);
        self.entries.insert(index, Entry { permission, item, number });
        if request.key != 0 {
            self.keys.insert(request.key, index);
        }
        Ok(number)
    }

    /// Returns the object with this number.
    ///
    /// # Errors
    /// EINVAL.
    pub fn find(&mut self, number: u32) -> Result<&mut Entry<T>, Errno> {
        let entry = self.entries.get_mut(&index_of(number)).filter(|entry| entry.number == number);
        entry.ok_or(Errno::EINVAL)
    }

    /// Returns the object at an index, whatever the sequence (SEM_STAT).
    ///
    /// # Errors
    /// EINVAL.
    pub fn at(&mut self, index: u32) -> Result<&mut Entry<T>, Errno> {
        self.entries.get_mut(&index_of(index)).ok_or(Errno::EINVAL)
    }

    /// Takes the key from an object, which keeps its number: another one may have the key.
    pub fn forget_key(&mut self, number: u32) {
        if let Ok(entry) = self.find(number) {
            let key = core::mem::take(&mut entry.permission.key);
            self.keys.remove(&key);
        }
    }

    /// Takes an object out.
    pub fn remove(&mut self, number: u32) -> Option<Entry<T>> {
        self.forget_key(number);
        let index = self.find(number).ok().map(|_| index_of(number))?;
        self.free.push_back(index);
        self.entries.remove(&index)
    }

    /// Takes any object out, to take all of them apart: its index is not used again.
    pub fn pop(&mut self) -> Option<T> {
        self.entries.pop_first().map(|(_, entry)| entry.item)
    }

    /// Returns how many there are.
    pub fn count(&self) -> usize {
        self.entries.len()
    }

    /// Returns the highest index in use, 0 if there is none: the answer of IPC_INFO.
    pub fn highest(&self) -> u64 {
        self.entries.last_key_value().map_or(0, |(index, _)| u64::from(*index))
    }

    /// Returns objects from an index on, at most `most`, each with its line and its index: for lists that are long.
    pub fn lines(&self, first: u32, most: usize, line: impl Fn(&Entry<T>) -> String) -> Vec<(u32, String)> {
        self.entries.range(first..).take(most).map(|(index, entry)| (*index, line(entry))).collect()
    }

    /// Returns all objects, by index.
    pub fn iter(&self) -> impl Iterator<Item = &Entry<T>> {
        self.entries.values()
    }

    /// Returns all objects, to be changed.
    pub fn items_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.entries.values_mut().map(|entry| &mut entry.item)
    }
}
