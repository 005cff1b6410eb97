//! The address space and its lock.

use crate::FaultError;
use crate::flush::Flush;
use crate::pages::PageMap;
use gyre_machine::{Access, MapFlags, PageTable, Va};
use gyre_object::{Page, SpinLock};

/// What one lock protects: no suspension while it is held.
pub(crate) struct State {
    pub(crate) table: PageTable,
    pub(crate) pages: PageMap,
}

/// The memory of a program.
pub struct AddressSpace {
    pub(crate) state: SpinLock<State>,
    pub(crate) flush: &'static dyn Flush,
}

impl AddressSpace {
    /// Works on the page that holds `address`, under the lock, where it is present with this right. `work` also learns whether
    /// the program may write the page; it must be short.
    pub(crate) fn with_present<T>(
        &self,
        address: u64,
        access: Access,
        work: impl FnOnce(&Page, bool) -> T,
    ) -> Option<T> {
        let state = self.state.lock();
        let mapping = state.table.query(Va(address))?;
        let writable = mapping.flags.contains(MapFlags::WRITE);
        if access == Access::Write && !writable {
            return None;
        }
        state.pages.get(address).map(|page| work(page, writable))
    }

    /// Makes the page that holds `address` resident with the right that `access` needs.
    ///
    /// # Errors
    /// [`FaultError`].
    pub async fn fault(&self, _address: u64, _access: Access) -> Result<(), FaultError> {
        Err(FaultError::NotMapped)
    }
}
