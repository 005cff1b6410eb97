//! Transfers at a device for which no task waits: how many a tenant has under way, which is bounded as those are for which one does.

use crate::tenant::Tenant;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering};
use gyre_interface::async_io::UNDER_WAY_MAX;

/// How many there are.
#[derive(Default)]
pub struct UnderWay(AtomicUsize);

/// A place among them; free again when it is dropped.
pub struct UnderWayPlace(Arc<Tenant>);

impl UnderWayPlace {
    /// `None` where the tenant has [`UNDER_WAY_MAX`].
    pub fn take(tenant: &Arc<Tenant>) -> Option<UnderWayPlace> {
        let count = &tenant.under_way.0;
        if count.fetch_add(1, Ordering::Relaxed) >= UNDER_WAY_MAX {
            count.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        Some(UnderWayPlace(tenant.clone()))
    }
}

impl Drop for UnderWayPlace {
    fn drop(&mut self) {
        self.0.under_way.0.fetch_sub(1, Ordering::Relaxed);
    }
}
