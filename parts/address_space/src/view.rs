//! A program that edits its page table itself: the kernel finds its memory by that table, not by its own.
//!
//! While a [`View`] is set, copies from and to the program's memory go through it alone, and a page that it does not show is an address that
//! cannot be reached: the program brings it and asks again. The space's own mappings stay and change as before; [`AddressSpace::fault_own`]
//! makes a page of them present, [`AddressSpace::shown`] and [`AddressSpace::shown_from`] tell what is there.
//!
//! Pages of a view are lent to devices by stand-ins: the program may take them away at any time.
//!
//! Called by the kernel for cells.

use crate::region::PAGE;
use crate::space::State;
use crate::{AddressSpace, FaultError};
use alloc::sync::Arc;
use gyre_machine::{Access, MapFlags, USER_END, Va};
use gyre_object::Page;

/// A place in memory, as a view shows it.
pub struct Seen {
    /// The page; it may be longer than 4 KiB.
    pub page: Page,
    /// The place in it, bytes.
    pub offset: usize,
    /// Bytes of the page from there on that lie one after another for the program too, with these rights.
    pub bytes: usize,
    /// The rights of the program: [`MapFlags::WRITE`] and [`MapFlags::EXECUTE`].
    pub rights: MapFlags,
}

impl Seen {
    /// Returns true if the program may write it.
    pub fn is_writable(&self) -> bool {
        self.rights.contains(MapFlags::WRITE)
    }
}

/// Bytes that are worked on under the lock at once.
const RUN_BYTES_MAX: usize = 32 << 10;

/// How far work on a page may go.
#[derive(Clone, Copy)]
pub(crate) struct Reach {
    /// Bytes from the address on that lie one after another in the page.
    pub(crate) bytes: usize,
    /// The program may write it.
    pub(crate) is_writable: bool,
}

/// The program's own idea of its memory.
pub trait View: Send + Sync {
    /// Returns what lies at an address at this moment; `None` if the program may not reach it. It is short, and takes no lock of a space.
    fn find(&self, address: u64) -> Option<Seen>;
}

/// A page of a space, with its rights at this moment.
pub struct Shown {
    /// The address of its first byte.
    pub address: u64,
    /// The page, of 4 KiB or 2 MiB.
    pub page: Page,
    /// Its rights.
    pub rights: MapFlags,
}

impl AddressSpace {
    /// Sets the program's own view of its memory, or takes it away.
    pub fn set_view(&self, view: Option<Arc<dyn View>>) {
        let before = core::mem::replace(&mut self.state.lock().view, view);
        // Outside of the lock: it may hold memory.
        drop(before);
    }

    /// Makes a page of the space's own mappings present, whatever the view.
    ///
    /// # Errors
    /// [`FaultError`].
    pub async fn fault_own(&self, address: u64, access: Access) -> Result<(), FaultError> {
        self.fault_of(address, access, Mappings::Own).await
    }

    /// Returns the page of the space's own mappings that holds an address, if it is present.
    pub fn shown(&self, address: u64) -> Option<Shown> {
        self.state.lock().shown(Va(address).page_start().0)
    }

    /// Tells of the pages that begin in a range of addresses and are present. `each` runs under the space's lock.
    pub fn shown_in(&self, range: core::ops::Range<u64>, mut each: impl FnMut(Shown)) {
        let state = self.state.lock();
        let present = range
            .step_by(PAGE as usize)
            .filter_map(|address| state.shown(address).filter(|shown| shown.address == address));
        present.for_each(&mut each);
    }

    /// Tells of the present pages from an address on, about `count` of them, in the order of addresses; returns where to go on, or `None` at
    /// the end. `each` runs under the space's lock.
    pub fn shown_from(&self, start: u64, count: usize, mut each: impl FnMut(Shown)) -> Option<u64> {
        let state = self.state.lock();
        let mut left = count;
        let mut at = start;
        while let Some(address) = state.pages.next_from(at).filter(|address| *address < USER_END) {
            if left == 0 {
                return Some(address);
            }
            left = left.saturating_sub(1);
            let shown = state.shown(address);
            let end = |shown: &Shown| shown.address.saturating_add(shown.page.len() as u64);
            at = shown.as_ref().map_or(address.saturating_add(PAGE), end);
            shown.into_iter().for_each(&mut each);
        }
        None
    }
}

/// The mappings that a fault is about.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mappings {
    /// Those that the program sees: none of the space's if it has a view.
    Seen,
    /// Those of the space.
    Own,
}

impl State {
    /// Works on what the view shows at an address with this right; `None` if there is no view.
    pub(crate) fn with_view<T>(
        &self,
        address: u64,
        access: Access,
        work: impl FnOnce(&Page, usize, Reach) -> T,
    ) -> Option<Option<T>> {
        let view = self.view.as_ref()?;
        let seen = view.find(address).filter(|seen| access != Access::Write || seen.is_writable());
        // The page that follows may lie anywhere; and the program may write this whatever it shows.
        let reach = |seen: &Seen| Reach { bytes: seen.bytes.min(RUN_BYTES_MAX), is_writable: true };
        Some(seen.map(|seen| work(&seen.page, seen.offset, reach(&seen))))
    }

    /// Returns the page whose first byte has this address, single or huge, with its rights in the table.
    fn shown(&self, address: u64) -> Option<Shown> {
        let rights = self.table.query(Va(address))?.flags;
        self.pages.with(address, |page, offset| {
            let address = address.saturating_sub(offset as u64);
            Shown { address, page: page.clone(), rights }
        })
    }
}
