//! The address space of a new process: everything shared until written.

use crate::region::{Options, Region};
use crate::space::{Shrunk, State};
use crate::{AddressSpace, SpaceError};
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_machine::{MapFlags, Va};

impl AddressSpace {
    /// A copy for a new process (fork). Private pages become copy-on-write in both; other cores have forgotten the right to
    /// write them when this returns.
    ///
    /// # Errors
    /// [`SpaceError::NoMemory`]; the space is as it was, but for faults that pages will meet again.
    pub async fn duplicate(&self) -> Result<Arc<AddressSpace>, SpaceError> {
        let limits = self.state.lock().limits;
        let child = AddressSpace::with_layout(self.flush, limits, self.layout)?;
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
        for (start, region) in regions {
            child.regions.insert(start, region.clone());
            if !region.options.contains(Options::WIPED) {
                self.copy_pages(child, start, &region, shrunk)?;
            }
        }
        Ok(())
    }

    fn copy_pages(
        &mut self,
        child: &mut State,
        start: u64,
        region: &Region,
        shrunk: &mut Shrunk,
    ) -> Result<(), SpaceError> {
        let addresses: Vec<u64> = self.pages.addresses(start, region.end).collect();
        for address in addresses {
            let Some(page) = self.pages.get(address).cloned() else {
                continue;
            };
            child.install(address, page, region).map_err(|_| SpaceError::NoMemory)?;
            if !region.is_shared() {
                self.forbid_writing(address, shrunk);
            }
        }
        Ok(())
    }

    fn forbid_writing(&mut self, address: u64, shrunk: &mut Shrunk) {
        let Some(mapping) = self.table.query(Va(address)) else {
            return;
        };
        if mapping.flags.contains(MapFlags::WRITE) {
            self.table.protect(Va(address), mapping.flags - MapFlags::WRITE);
            shrunk.stale.push(address);
        }
    }
}
