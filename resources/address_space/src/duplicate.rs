//! The address space of a new process: everything shared until written.

use crate::region::{Options, Region};
use crate::space::{Shrunk, State};
use crate::{AddressSpace, SpaceError};
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_account::ActivityId;
use gyre_machine::{Va, Viewing};

impl AddressSpace {
    /// A copy for a new process (fork), which is `viewer` and pays its part of the pages. Private pages become copy-on-write in both; other cores have forgotten the right to
    /// write them when this returns.
    ///
    /// # Errors
    /// [`SpaceError::NoMemory`]; the space is as it was, but for faults that pages will meet again.
    pub async fn duplicate(&self, viewer: ActivityId) -> Result<Arc<AddressSpace>, SpaceError> {
        let limits = self.state.lock().limits;
        let child = AddressSpace::with_layout(self.flush, limits, self.layout, viewer)?;
        let mut shrunk = Shrunk::default();
        let copied = {
            let mut guard = self.state.lock();
            let mut child = child.state.lock();
            guard.copy_to(&mut child, &mut shrunk)
        };
        self.settle(shrunk).await;
        copied.map(|()| child)
    }
}

impl State {
    fn copy_to(&mut self, child: &mut State, shrunk: &mut Shrunk) -> Result<(), SpaceError> {
        child.heap = self.heap;
        let regions: Vec<(u64, Region)> = self
            .regions
            .iter()
            .filter(|(_, region)| !region.options.contains(Options::NOT_INHERITED))
            .map(|(start, region)| (start, region.clone()))
            .collect();
        let mut viewing = child.pages.viewing();
        for (start, mut region) in regions {
            // Locks are not inherited (mlock(2)).
            region.options.remove(Options::LOCKED);
            if !region.options.contains(Options::WIPED) {
                self.copy_pages(child, (start, &region), &mut viewing, shrunk)?;
            }
            child.regions.insert(start, region);
        }
        Ok(())
    }

    fn copy_pages(
        &mut self,
        child: &mut State,
        (start, region): (u64, &Region),
        viewing: &mut Viewing,
        shrunk: &mut Shrunk,
    ) -> Result<(), SpaceError> {
        if region.is_shared() {
            return self.copy_shared_pages(child, start, region);
        }
        self.share_huge(child, (start, region.end), shrunk)?;
        for (from, to) in self.pages.spans(start, region.end) {
            let shared = self.table.share_range(&mut child.table, Va(from), Va(to), &mut |at| shrunk.stale.push(at.0));
            shared.map_err(|_| SpaceError::NoMemory)?;
        }
        self.pages.share_range(&mut child.pages, viewing, start, region.end);
        Ok(())
    }

    /// Pages that both may write from the start keep their rights; those of files become writable by a fault, as in any mapping.
    fn copy_shared_pages(&self, child: &mut State, start: u64, region: &Region) -> Result<(), SpaceError> {
        for address in self.pages.addresses(start, region.end) {
            if let Some(page) = self.pages.get(address).cloned() {
                child.install(address, page, region).map_err(|_| SpaceError::NoMemory)?;
            }
        }
        Ok(())
    }
}
