//! The files of a tenant that are mapped: if one becomes shorter or gets a hole, its mappings show nothing of before there.
//!
//! All mappings of a file share its size, and by that they are known. A file that nobody has mapped costs one look at the table; for others
//! each process' mappings are looked through, once.

use super::mount::Place;
use super::open_file::OpenFile;
use crate::Thread;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use core::any::Any;
use core::ops::Range;
use gyre_address_space::{MappedFile, MappedSize};
use gyre_interface::files::NodeId;
use gyre_object::TenantLock;

/// A file of the tenant: its mount and node.
type Key = (u32, NodeId);

/// Sizes of mapped files; those that nobody maps any more have no entry.
#[derive(Default)]
pub struct MappedFiles(TenantLock<BTreeMap<Key, Weak<MappedSize>>>);

/// A mapping's interest in the table, until dropped, which is after that of its size; keeps its file open, too.
pub struct Entry {
    of: Arc<MappedFiles>,
    key: Key,
    file: Option<Arc<dyn Any + Send + Sync>>,
}

impl MappedFiles {
    /// Enters a mapping of a file: answers the size that it shares with others, and what it must keep longer than that.
    pub fn enter(
        self: &Arc<Self>,
        place: &Place,
        file: Option<Arc<dyn Any + Send + Sync>>,
    ) -> (Arc<MappedSize>, Arc<Entry>) {
        let key = place.key();
        let entry = Arc::new(Entry { of: self.clone(), key, file });
        let mut sizes = self.0.lock();
        if let Some(size) = sizes.get(&key).and_then(Weak::upgrade) {
            return (size, entry);
        }
        let size = MappedSize::new(0);
        sizes.insert(key, Arc::downgrade(&size));
        (size, entry)
    }

    /// Forgets a file that nobody maps any more.
    fn tidy(&self, key: Key) {
        let mut sizes = self.0.lock();
        if sizes.get(&key).is_some_and(|size| size.strong_count() == 0) {
            sizes.remove(&key);
        }
    }

    fn of(&self, place: &Place) -> Option<Arc<MappedSize>> {
        self.0.lock().get(&place.key()).and_then(Weak::upgrade)
    }
}

impl Entry {
    /// Returns the open file that the mapping was made of.
    pub(super) fn file(&self) -> Option<&OpenFile> {
        self.file.as_deref().and_then(|file| (file as &dyn Any).downcast_ref())
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.of.tidy(self.key);
    }
}

/// Returns the description that a mapping was made of, and its place.
pub(crate) fn described(mapped: &MappedFile) -> Option<(&OpenFile, &Place)> {
    let entry = mapped.kept().and_then(|entry| entry.downcast_ref::<Entry>())?;
    let file = entry.file()?;
    Some((file, file.place()?))
}

/// A change of a file by which it may have lost pages.
enum Loss {
    /// It has another size, bytes.
    Size(u64),
    /// It has a hole, bytes from its start.
    Hole(Range<u64>),
}

/// A file has got another size: behind it no mapping shows anything.
pub(crate) async fn shortened(thread: &Thread, place: &Place, size_bytes: u64) {
    tell(thread, place, Loss::Size(size_bytes)).await;
}

/// A hole was made in a file: no mapping shows anything of before in it.
pub(crate) async fn punched(thread: &Thread, place: &Place, part: Range<u64>) {
    tell(thread, place, Loss::Hole(part)).await;
}

async fn tell(thread: &Thread, place: &Place, loss: Loss) {
    let mapped = thread.process().files().tenant().mapped.clone();
    if let Some(file) = mapped.of(place) {
        // Apart: the future of every call that opens a file would grow otherwise.
        Box::pin(forget(thread, &file, loss)).await;
        drop(file);
        mapped.tidy(place.key());
    }
}

async fn forget(thread: &Thread, file: &Arc<MappedSize>, loss: Loss) {
    if let Loss::Size(bytes) = loss {
        file.note(bytes);
    }
    let processes = thread.tenant().tree.lock().processes();
    for process in processes {
        match &loss {
            Loss::Size(bytes) => process.space().shorten(file, *bytes).await,
            Loss::Hole(part) => process.space().punch(file, part.clone()).await,
        }
    }
}
