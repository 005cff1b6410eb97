//! Writes of a debugger: also to pages that the program may only read or run, as breakpoints are.
//!
//! A page that the program may not write is made its own first, and keeps its rights: no file and no other program sees what is written. It counts as
//! written from then on, so that it is not brought anew from its file. Shared mappings are written only if the program may do so itself.
//!
//! Source: Linux mm/gup.c, FOLL_FORCE.

use crate::region::{PAGE, Region};
use crate::space::{State, Withdrawn};
use crate::user_memory::UserFault;
use crate::{AddressSpace, FaultError};
use gyre_machine::{Access, Va};

/// Rounds for one page before giving up: the program may unmap or protect it again and again.
const ROUNDS_MAX: usize = 64;

/// The outcome of one look at a page.
enum Done {
    /// The bytes are there.
    Written,
    /// To be flushed; then the next look.
    Flush(Withdrawn),
    /// The page is not there.
    Absent,
}

impl AddressSpace {
    /// Writes to a program's memory for its debugger.
    ///
    /// # Errors
    /// [`UserFault`]: nothing is mapped there, or it is shared and may not be written.
    pub async fn poke(&self, address: u64, from: &[u8]) -> Result<(), UserFault> {
        let mut done = 0;
        while let Some(rest) = from.get(done..).filter(|rest| !rest.is_empty()) {
            let failed = |error| UserFault { done, error };
            let place = address.checked_add(done as u64).ok_or(failed(FaultError::NotMapped))?;
            let room = PAGE.saturating_sub(Va(place).page_offset() as u64) as usize;
            let piece = rest.get(..room).unwrap_or(rest);
            self.poke_page(place, piece).await.map_err(failed)?;
            done = done.saturating_add(piece.len());
        }
        Ok(())
    }

    /// Writes to one page.
    async fn poke_page(&self, address: u64, bytes: &[u8]) -> Result<(), FaultError> {
        match self.copy_out(address, bytes).await {
            Err(UserFault { error: FaultError::Denied, .. }) => {}
            written => return Ok(written?),
        }
        for _ in 0..ROUNDS_MAX {
            let looked = self.state.lock().poke(address, bytes)?;
            match looked {
                Done::Written => return Ok(()),
                Done::Flush(withdrawn) => self.flush_and_free(withdrawn).await,
                Done::Absent => self.bring_for_poke(address).await?,
            }
        }
        Err(FaultError::NotMapped)
    }

    /// Makes a page resident with whatever right the program has to it.
    async fn bring_for_poke(&self, address: u64) -> Result<(), FaultError> {
        match self.fault(address, Access::Read).await {
            Err(FaultError::Denied) => self.fault(address, Access::Execute).await,
            brought => brought,
        }
    }
}

impl State {
    fn poke(&mut self, address: u64, bytes: &[u8]) -> Result<Done, FaultError> {
        let start = Va(address).page_start().0;
        let (_, region) = self.regions.find(address).ok_or(FaultError::NotMapped)?;
        let region = region.clone();
        if region.is_shared() || region.rights.is_empty() {
            return Err(FaultError::Denied);
        }
        if self.huge_allows(start, Access::Read).is_some() {
            let mut withdrawn = Withdrawn::default();
            self.split_range(start, start.saturating_add(PAGE), &mut withdrawn);
            return Ok(Done::Flush(withdrawn));
        }
        let Some(page) = self.pages.get(start).cloned() else { return Ok(Done::Absent) };
        // This function and the map of pages hold it; anybody else is another program, a cache or a view.
        if page.holders() > 2 {
            return self.make_own(start, &region);
        }
        page.note_own();
        page.write(Va(address).page_offset(), bytes);
        Ok(Done::Written)
    }

    /// Puts a copy of a page in its place, with the rights that it has.
    fn make_own(&mut self, start: u64, region: &Region) -> Result<Done, FaultError> {
        let copy = self.pages.get(start).ok_or(FaultError::NotMapped)?.copy()?;
        copy.note_own();
        let mut withdrawn = Withdrawn::default();
        self.evict(start, &mut withdrawn);
        self.install(start, copy, region)?;
        Ok(Done::Flush(withdrawn))
    }
}
