//! Making the pages of a range resident before its program uses them (mlock, MAP_POPULATE, MADV_WILLNEED and its kin).
//!
//! Each page comes by a fault. Those of a file that a program will need (MADV_WILLNEED) are read by pieces before, and
//! nothing but them, whatever the program says of its way through the mapping.
//!
//! The range may change at each wait: it is looked up again for each page.

use crate::region::{MappedFile, PAGE, Provider, Region};
use crate::{AddressSpace, FaultError, advise::checked};
use alloc::sync::Arc;
use gyre_machine::Access;

/// Bytes that are made resident before other tasks may run.
const POPULATED_BETWEEN: u64 = 2 << 20;
/// Bytes of a file that are read at once, from a multiple of them on: 128 KiB, as for a fault.
const PIECE_BYTES: u64 = 32 * PAGE;

/// The pages to make resident.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Populate {
    /// All; those that the program may write privately are its own then (MAP_POPULATE, mlock).
    Own,
    /// All, as after a read (MADV_POPULATE_READ).
    Read,
    /// All, as after a write (MADV_POPULATE_WRITE).
    Write,
    /// Those of files, as after a read (MADV_WILLNEED).
    Files,
}

impl Populate {
    /// Returns the access by which a page of a region becomes resident; none if it need not be.
    fn of(self, region: &Region) -> Option<Access> {
        match self {
            Populate::Own if region.allows(Access::Write) && !region.is_shared() => Some(Access::Write),
            Populate::Own | Populate::Read => Some(Access::Read),
            Populate::Write => Some(Access::Write),
            Populate::Files => matches!(region.provider, Provider::File(_)).then_some(Access::Read),
        }
    }
}

/// A part of a mapped file that its program will need.
struct Piece {
    file: Arc<MappedFile>,
    offset: u64,
    bytes: u64,
}

impl Piece {
    /// Returns the one from an address on, until `end`, of a region that starts at `start`.
    fn from(at: u64, end: u64, start: u64, region: &Region) -> Option<Piece> {
        let Provider::File(file) = &region.provider else { return None };
        let border = (at | (PIECE_BYTES - 1)).saturating_add(1);
        let bytes = border.min(end).min(region.end).saturating_sub(at);
        Some(Piece { file: file.clone(), offset: region.index_of(start, at).offset_bytes(), bytes })
    }

    /// Has it in memory, if there is room for all of it.
    async fn read(self) {
        // The fault of each page meets an error again.
        let _ = self.file.client.read_random(self.file.node, self.offset, self.bytes as usize).await;
    }
}

impl AddressSpace {
    /// Makes the pages of a range resident, each as `want` says.
    ///
    /// # Errors
    /// [`FaultError`] of the first page that cannot be had.
    pub async fn populate(&self, address: u64, bytes: u64, want: Populate) -> Result<(), FaultError> {
        let (start, end) = checked(address, bytes).map_err(|_| FaultError::NotMapped)?;
        let (mut at, mut read_until) = (start, start);
        while at < end {
            let (wanted, next) = match self.state.lock().regions.find(at) {
                Some((_, region)) => (want.of(region), region.end),
                None => return Err(FaultError::NotMapped),
            };
            let Some(access) = wanted else {
                at = next;
                continue;
            };
            if want == Populate::Files
                && at >= read_until
                && let Some(piece) = self.absent_piece(at, end)
            {
                read_until = at.saturating_add(piece.bytes);
                piece.read().await;
            }
            self.fault(at, access).await?;
            at = at.saturating_add(PAGE);
            if at.is_multiple_of(POPULATED_BETWEEN) {
                gyre_message::yield_now().await;
            }
        }
        Ok(())
    }

    /// Returns the part of a file from an address on, if its first page is not shown here.
    fn absent_piece(&self, at: u64, end: u64) -> Option<Piece> {
        let state = self.state.lock();
        let (start, region) = state.regions.find(at).filter(|_| state.pages.get(at).is_none())?;
        Piece::from(at, end, start, region)
    }
}
