//! The number of a tenant's transfers at devices without a waiting task, bounded like those with one.

use crate::tenant::Tenant;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering};
use gyre_interface::async_io::UNDER_WAY_MAX;

/// The number of such transfers of a tenant.
#[derive(Default)]
pub struct TransferCount(AtomicUsize);

/// A place among them; free again when it is dropped.
pub struct TransferPlace(Arc<Tenant>);

impl TransferPlace {
    /// Takes a place; `None` if the tenant has [`UNDER_WAY_MAX`].
    pub fn take(tenant: &Arc<Tenant>) -> Option<TransferPlace> {
        let count = &tenant.transfers.0;
        if count.fetch_add(1, Ordering::Relaxed) >= UNDER_WAY_MAX {
            count.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        Some(TransferPlace(tenant.clone()))
    }
}

impl Drop for TransferPlace {
    fn drop(&mut self) {
        self.0.transfers.0.fetch_sub(1, Ordering::Relaxed);
    }
}
