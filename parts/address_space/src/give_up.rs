//! Pages that a program says it does not need for now (madvise(2), MADV_COLD and MADV_PAGEOUT; Linux: mm/madvise.c).

use crate::advise::checked;
use crate::give_back::Forgotten;
use crate::given::{Given, Rest, file_of};
use crate::region::{Options, Region};
use crate::space::{State, Withdrawn};
use crate::{AddressSpace, SpaceError};
use alloc::vec::Vec;
use core::ops::Range;
use gyre_machine::{MapFlags, Va};

/// The fate of the pages of a range that its program names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unneeded {
    /// They are the first to go if memory is short (MADV_COLD).
    Later,
    /// They go now (MADV_PAGEOUT).
    Now,
}

impl AddressSpace {
    /// Notes that the program needs no pages of a range for now. Only those of files can go, as on Linux without swap.
    ///
    /// # Errors
    /// [`SpaceError::Invalid`] for locked pages; nothing is done then. [`SpaceError::NotMapped`] for a hole; the parts before and behind it are
    /// done.
    pub async fn give_up(&self, address: u64, bytes: u64, when: Unneeded) -> Result<(), SpaceError> {
        let (start, end) = checked(address, bytes)?;
        let is_locked = |(_, _, region): &(u64, u64, Region)| region.options.contains(Options::LOCKED);
        if self.state.lock().regions.parts(start, end).iter().any(is_locked) {
            return Err(SpaceError::Invalid);
        }
        let mut at = start;
        while at < end {
            let next = self.state.lock().pages.end_of_piece(at, end).unwrap_or(end);
            let (mut given, mut withdrawn) = (Given::default(), Withdrawn::default());
            self.state.lock().give_up(at..next, when, &mut given, &mut withdrawn);
            self.flush_and_free(withdrawn).await;
            given.drop_unused().await;
            gyre_message::yield_now().await;
            at = next;
        }
        let covered = self.state.lock().regions.covers(start, end);
        covered.then_some(()).ok_or(SpaceError::NotMapped)
    }
}

impl State {
    fn give_up(&mut self, range: Range<u64>, when: Unneeded, given: &mut Given, withdrawn: &mut Withdrawn) {
        for (start, region) in self.regions.cut(range.start, range.end) {
            let Some(file) = file_of(&region).filter(|_| self.view.is_none()) else { continue };
            let rest = Rest { start, end: region.end, file, first: region.first_index };
            let addresses: Vec<u64> = self.pages.addresses(start, region.end).collect();
            for address in addresses {
                self.note_unused(address);
                if when == Unneeded::Now && self.forget_unused(address, withdrawn) == Forgotten::FilesToo {
                    given.note(&rest.file, rest.index_of(address));
                }
            }
        }
    }

    /// Takes the mark of use from a page.
    fn note_unused(&mut self, address: u64) {
        if let Some(mapping) = self.table.query(Va(address)).filter(|found| found.flags.contains(MapFlags::ACCESSED)) {
            self.table.protect(Va(address), mapping.flags.difference(MapFlags::ACCESSED));
        }
    }
}
