//! The right to change the contents of a file: either programs write to it, or programs run from it (Linux: i_writecount). So nobody changes
//! what a running program is made of.

use super::mount::Place;
use crate::Errno;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use gyre_interface::files::NodeId;
use gyre_object::TenantLock;

/// A file of the tenant.
type Key = (u32, NodeId);

/// The use of a file, and its count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Use {
    Written(u32),
    Run(u32),
}

/// The files of a tenant that are written to or run from.
#[derive(Default)]
pub struct Contents(TenantLock<BTreeMap<Key, Use>>);

/// One use of a file, until dropped.
pub struct Used {
    of: Arc<Contents>,
    key: Key,
}

impl Contents {
    /// Somebody opens the file for writing, or cuts it.
    ///
    /// # Errors
    /// ETXTBSY if programs run from it.
    pub fn write(self: &Arc<Self>, place: &Place) -> Result<Used, Errno> {
        self.begin(place.key(), Use::Written(1))
    }

    /// A program is to run from it.
    ///
    /// # Errors
    /// ETXTBSY if somebody may write to it.
    pub fn run(self: &Arc<Self>, place: &Place) -> Result<Used, Errno> {
        self.begin(place.key(), Use::Run(1))
    }

    fn begin(self: &Arc<Self>, key: Key, first: Use) -> Result<Used, Errno> {
        let mut uses = self.0.lock();
        let next = match (uses.get(&key), first) {
            (None, first) => first,
            (Some(Use::Written(count)), Use::Written(_)) => Use::Written(count.checked_add(1).ok_or(Errno::ENFILE)?),
            (Some(Use::Run(count)), Use::Run(_)) => Use::Run(count.checked_add(1).ok_or(Errno::ENFILE)?),
            _ => return Err(Errno::ETXTBSY),
        };
        uses.insert(key, next);
        drop(uses);
        Ok(Used { of: self.clone(), key })
    }
}

impl Drop for Used {
    fn drop(&mut self) {
        let mut uses = self.of.0.lock();
        match uses.get_mut(&self.key) {
            Some(Use::Written(count) | Use::Run(count)) if *count > 1 => *count = count.saturating_sub(1),
            _ => _ = uses.remove(&self.key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: Key = (1, NodeId(7));

    #[test]
    fn a_file_is_written_to_or_run_from() {
        let contents = Arc::<Contents>::default();
        let written = [contents.begin(FILE, Use::Written(1)), contents.begin(FILE, Use::Written(1))];
        assert_eq!(contents.begin(FILE, Use::Run(1)).err(), Some(Errno::ETXTBSY));
        assert!(contents.begin((1, NodeId(8)), Use::Run(1)).is_ok(), "another file");
        drop(written);
        let run = [contents.begin(FILE, Use::Run(1)), contents.begin(FILE, Use::Run(1))];
        assert_eq!(contents.begin(FILE, Use::Written(1)).err(), Some(Errno::ETXTBSY));
        drop(run);
        assert!(contents.begin(FILE, Use::Written(1)).is_ok());
        assert!(contents.0.lock().is_empty());
    }
}
