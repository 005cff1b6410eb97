//! Loans of present memory within a call that does not wait: views in a row, without a list of their addresses.

use crate::AddressSpace;
use crate::lend::Lent;
use alloc::vec::Vec;
use gyre_machine::{Access, OutOfMemory, PAGE_BYTES, USER_END};
use gyre_object::Bytes;
use smallvec::SmallVec;

/// A program's memory at a device.
pub struct Loan {
    address: u64,
    /// How many pages had gone away in the address space when the first view was taken.
    removals: u64,
    views: Views,
}

/// A page's worth lies in place.
type Views = SmallVec<[Bytes; 1]>;

impl AddressSpace {
    /// Lends present memory as [`AddressSpace::lend`] does, without waiting and without stand-ins; `None` if not all
    /// of it is present.
    pub fn lend_at_once(&self, address: u64, bytes: usize, access: Access) -> Option<Loan> {
        address.checked_add(bytes as u64).filter(|end| *end <= USER_END)?;
        let offset = address as usize % PAGE_BYTES;
        let mut views = Views::with_capacity(offset.saturating_add(bytes).div_ceil(PAGE_BYTES));
        let removals = self.state.lock().pages.removals();
        let (mut done, mut is_whole) = (0, true);
        while done < bytes {
            let push = |lent: Lent| {
                is_whole &= !lent.is_stand_in;
                views.push(lent.view);
            };
            match self.lend_present(address.saturating_add(done as u64), bytes.saturating_sub(done), access, push) {
                Ok(0) | Err(OutOfMemory) => return None,
                Ok(taken) => done = done.saturating_add(taken),
            }
        }
        is_whole.then_some(Loan { address, removals, views })
    }

    /// Returns whether all lent memory lies where it was, so that [`AddressSpace::land`] has nothing to do.
    pub fn has_landed(&self, loan: &Loan) -> bool {
        let removals = self.state.lock().pages.removals();
        // No page went away since, wherever: mostly so.
        removals == loan.removals || self.count_there(&loan.pieces()) == loan.views.len()
    }
}

impl Loan {
    /// Returns the memory, in the order of its addresses.
    pub fn views(&self) -> &[Bytes] {
        &self.views
    }

    /// Returns the views with the address of each.
    pub fn pieces(&self) -> Vec<Lent> {
        let mut address = self.address;
        let place = |view: &Bytes| {
            let at = address;
            address = address.saturating_add(view.len() as u64);
            Lent { address: at, view: view.clone(), is_stand_in: false }
        };
        self.views.iter().map(place).collect()
    }
}
