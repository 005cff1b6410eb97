//! Names that were looked up lately, present or absent, bounded per activity.

use alloc::boxed::Box;
use core::hash::Hash;
use gyre_account::ActivityId;
use gyre_file_cache::{Shelf, ShelfOptions};
use gyre_interface::files::NodeId;
use gyre_object::Counted;
use hashbrown::Equivalent;

#[derive(PartialEq, Eq, Hash)]
struct Key {
    directory: NodeId,
    name: Box<[u8]>,
}

#[derive(Hash)]
struct KeyRef<'a> {
    directory: NodeId,
    name: &'a [u8],
}

impl Equivalent<Key> for KeyRef<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        self.directory == key.directory && *self.name == *key.name
    }
}

/// The known target of a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Known {
    /// It leads to this node.
    Node(u64),
    /// There is no such name.
    Absent,
}

/// The cache. Only a task that holds the directory's lock changes it, so that it never disagrees with the directory.
pub(crate) struct Names(Shelf<Key, Known>);

impl Names {
    pub(crate) fn new(options: ShelfOptions) -> Names {
        Names(Shelf::new(options))
    }

    /// Returns how many are known.
    pub(crate) fn counted(&self) -> &dyn Counted {
        &self.0
    }

    pub(crate) fn get(&self, directory: NodeId, name: &[u8]) -> Option<Known> {
        self.0.get(&KeyRef { directory, name })
    }

    pub(crate) fn set(&self, directory: NodeId, name: &[u8], known: Known) {
        // Removed first: if there is no room for the new fact, the old one must not stay.
        self.0.remove_if(&KeyRef { directory, name }, |_, _| true);
        self.0.set(Key { directory, name: name.into() }, known);
    }

    /// Forgets names that an activity paid for until about `bytes` are back; answers how many.
    pub(crate) fn reclaim(&self, activity: ActivityId, bytes: u64) -> u64 {
        // The boxed name and the places in the table and in the list of entries.
        const NAME_BYTES: u64 = (size_of::<Key>() + size_of::<Known>() + 64) as u64;
        let count = (0..bytes.div_ceil(NAME_BYTES)).take_while(|_| self.0.evict(activity, &|_| true)).count();
        (count as u64).saturating_mul(NAME_BYTES)
    }

    /// Forgets all.
    pub(crate) fn forget_all(&self) {
        self.0.remove_all(|_, _| true);
    }

    /// Forgets everything about a directory that is removed.
    pub(crate) fn forget_directory(&self, directory: NodeId) {
        self.0.remove_all(|key, _| key.directory == directory);
    }
}
