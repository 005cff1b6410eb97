//! A book of what a policy remembers of each tenant: fixed places, no allocation.

use crate::window::{Tenant, TenantId};

/// Remembers one `T` of each of up to `N` tenants.
#[derive(Clone, Debug)]
pub(crate) struct Book<T, const N: usize> {
    places: [Option<(TenantId, T)>; N],
}

impl<T: Copy, const N: usize> Book<T, N> {
    /// Returns an empty book.
    pub(crate) fn new() -> Book<T, N> {
        Book { places: [None; N] }
    }

    /// Returns what is remembered of `id`, or `fresh` written on a free place; nothing if all places are taken.
    pub(crate) fn entry(&mut self, id: TenantId, fresh: T) -> Option<&mut T> {
        let place = self.find(id).or_else(|| self.places.iter().position(Option::is_none))?;
        self.places.get_mut(place).map(|place| &mut place.get_or_insert((id, fresh)).1)
    }

    /// Returns what is remembered of `id`.
    pub(crate) fn get(&self, id: TenantId) -> Option<&T> {
        self.places.iter().flatten().find(|(known, _)| *known == id).map(|(_, value)| value)
    }

    /// Forgets everybody who is not among `tenants`.
    pub(crate) fn retain(&mut self, tenants: &[Tenant<'_>]) {
        for place in &mut self.places {
            place.take_if(|(known, _)| !tenants.iter().any(|tenant| tenant.id == *known));
        }
    }

    fn find(&self, id: TenantId) -> Option<usize> {
        self.places.iter().position(|place| place.as_ref().is_some_and(|(known, _)| *known == id))
    }
}
