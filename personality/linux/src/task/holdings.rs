//! The memory that a tenant holds, as the lines about its shortage tell it: how much, and of which kinds.

use crate::tenant::{CacheUse, MemoryUse};
use crate::{Process, Tenant};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use gyre_address_space::usage::FRACTION_BITS;

/// Bytes of a MiB, for people.
pub(super) const MIB: u64 = 1 << 20;

/// The kinds of a tenant's memory.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Kinds {
    /// Pages of its processes alone, bytes.
    pub own_bytes: u64,
    /// Pages of files on disks.
    pub cache: CacheUse,
    /// All the rest, bytes: files in memory, and what the kernel holds for it.
    pub rest_bytes: u64,
}

impl Kinds {
    /// Looks at a tenant's memory. Its processes run meanwhile, so that the sum is of no single time.
    pub(super) async fn of(tenant: &Tenant, processes: &[Arc<Process>]) -> Kinds {
        let (activity, kernel) = (tenant.activity(), tenant.kernel());
        let (cache, held_bytes) = (kernel.cache(activity), kernel.memory(activity).held_bytes);
        let mut parts = 0_u64;
        for process in processes {
            parts = parts.saturating_add(process.space().usage().await.anonymous.part);
        }
        let own_bytes = parts >> FRACTION_BITS;
        let rest_bytes = held_bytes.saturating_sub(own_bytes).saturating_sub(cache.held_bytes);
        Kinds { own_bytes, cache, rest_bytes }
    }

    /// Returns a text: MiB of each kind.
    pub(crate) fn text(&self) -> String {
        let CacheUse { held_bytes, dirty_bytes, written_bytes } = self.cache;
        let waiting = dirty_bytes.saturating_add(written_bytes);
        format!(
            "its processes' own {}, files {}, of which {} wait for the disk, all else {}",
            tenths(self.own_bytes),
            tenths(held_bytes),
            tenths(waiting),
            tenths(self.rest_bytes),
        )
    }
}

/// Returns MiB with a tenth.
fn tenths(bytes: u64) -> String {
    let tenths = bytes.saturating_mul(10).saturating_add(MIB / 2) / MIB;
    format!("{}.{}", tenths / 10, tenths % 10)
}

/// Returns a text: the memory of a tenant, its limit, and the memory that others of its group take from it.
pub(crate) fn holdings(memory: &MemoryUse) -> String {
    let held = memory.total_bytes.saturating_sub(memory.free_bytes).saturating_sub(memory.others_bytes);
    let own = format!("holds {} of {} MiB", held / MIB, memory.total_bytes / MIB);
    match memory.others_bytes / MIB {
        0 => own,
        others => format!("{own}, of which others of its group take {others},"),
    }
}
