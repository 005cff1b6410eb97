//! Pages that a program removes for all who share them (madvise(2), MADV_REMOVE; Linux: mm/madvise.c, `madvise_remove`).
//!
//! The space says which parts of files and of shared memory a range shows and whether its program may remove them. Whoever asks makes the
//! holes and has all spaces forget the pages: files by their file system and [`AddressSpace::punch`], shared memory by
//! [`SharedMemory::remove`] and [`AddressSpace::forget_shared`].

use crate::advise::checked;
use crate::pages::PIECE_BYTES;
use crate::region::{MappedFile, Options, Provider, Region, Rights, SharedMemory};
use crate::space::State;
use crate::{AddressSpace, SpaceError};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::Ordering;

/// A part that a program removes, in bytes from the beginning.
pub enum Removal {
    /// Of a file.
    File(Arc<MappedFile>, Range<u64>),
    /// Of shared memory.
    Memory(Arc<SharedMemory>, Range<u64>),
}

/// The parts of a range up to the first that may not be removed.
pub struct Removals {
    /// In order.
    pub parts: Vec<Removal>,
    /// The answer once they are removed: [`SpaceError::Invalid`] for locked or private memory, [`SpaceError::Denied`] for a mapping that is
    /// private or may never be written, [`SpaceError::NotMapped`] for a hole, beside which all is removed.
    pub end: Result<(), SpaceError>,
}

impl AddressSpace {
    /// Returns the parts of a range that its program removes.
    ///
    /// # Errors
    /// [`SpaceError`] for a range that cannot be.
    pub fn removals(&self, address: u64, bytes: u64) -> Result<Removals, SpaceError> {
        let (start, end) = checked(address, bytes)?;
        let state = self.state.lock();
        let is_whole = state.regions.covers(start, end);
        let mut removals =
            Removals { parts: Vec::new(), end: if is_whole { Ok(()) } else { Err(SpaceError::NotMapped) } };
        for (from, to, region) in state.regions.parts(start, end) {
            match state.removal(from..to, &region) {
                Ok(part) => removals.parts.push(part),
                Err(error) => {
                    removals.end = Err(error);
                    break;
                }
            }
        }
        Ok(removals)
    }
}

impl State {
    fn removal(&self, addresses: Range<u64>, region: &Region) -> Result<Removal, SpaceError> {
        let from = self.index_at(addresses.start, region).offset_bytes();
        let part = from..from.saturating_add(addresses.end.saturating_sub(addresses.start));
        if region.options.contains(Options::LOCKED) {
            return Err(SpaceError::Invalid);
        }
        let may_remove = region.is_shared() && region.rights_max.contains(Rights::WRITE);
        match &region.provider {
            Provider::Anonymous => Err(SpaceError::Invalid),
            Provider::Memory(memory) if memory.is_the_kernels() => Err(SpaceError::Invalid),
            _ if !may_remove => Err(SpaceError::Denied),
            Provider::File(file) => Ok(Removal::File(file.clone(), part)),
            Provider::Memory(memory) => Ok(Removal::Memory(memory.clone(), part)),
        }
    }
}

impl SharedMemory {
    /// Forgets the pages of a part, bytes from its beginning, in pieces; who needs one afterwards gets zeroes. Mappings show the old ones until
    /// [`AddressSpace::forget_shared`].
    pub async fn remove(&self, part: Range<u64>) {
        let mut at = part.start;
        while at < part.end {
            let border = self.remove_piece(at..part.end);
            at = border.max(at.saturating_add(1));
            gyre_message::yield_now().await;
        }
    }

    /// Forgets the pages of the first piece of a part; returns its end.
    fn remove_piece(&self, part: Range<u64>) -> u64 {
        let mut gone = Vec::new();
        let border = {
            let mut pages = self.pages.lock();
            let border = match part.end.saturating_sub(part.start) > PIECE_BYTES {
                true => pages.end_of_piece(part.start, part.end).unwrap_or(part.end),
                false => part.end,
            };
            pages.take_range(part.start, border, &mut gone);
            border
        };
        if let Some(count) = self.count() {
            count.fetch_sub(gone.len() as u64, Ordering::Relaxed);
        }
        border
    }
}
