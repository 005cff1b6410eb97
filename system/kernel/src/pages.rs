//! How many pages of figures a tenant may have kept up to date.

use alloc::vec::Vec;
use gyre_account::ActivityId;
use gyre_object::SpinLock;

/// Mapped pages that a tenant may have at once: each is a task and a timer.
const PAGES_MAX: usize = 64;

/// Whose pages are kept up to date, an entry for each.
#[derive(Default)]
pub struct Pages(SpinLock<Vec<ActivityId>>);

impl Pages {
    /// Takes a place for one more page of a tenant. `None` if the tenant has as many as it may, or memory is at its end.
    pub fn take_place(&'static self, tenant: ActivityId) -> Option<Kept> {
        let mut pages = self.0.lock();
        let own = pages.iter().filter(|&&other| other == tenant).count();
        pages.try_reserve(1).ok()?;
        (own < PAGES_MAX).then(|| {
            pages.push(tenant);
            Kept { pages: self, tenant }
        })
    }
}

/// A place among the pages that a tenant may have; given back when it is dropped.
pub struct Kept {
    pages: &'static Pages,
    tenant: ActivityId,
}

impl Drop for Kept {
    fn drop(&mut self) {
        let mut pages = self.pages.0.lock();
        if let Some(at) = pages.iter().position(|&other| other == self.tenant) {
            pages.swap_remove(at);
        }
    }
}
