//! The disks of a tenant that has ended: nobody writes to them any more, so that its owner may put another image there, somebody else may have
//! them, or the tenant comes back to them.
//!
//! Its work is halted, so nothing more is asked of them in its name. What is left is
//! 1. work of others in its file systems, which they end ([`gyre_ext2::Ext2::close_to_others`]);
//! 2. requests that the devices have: nobody waits for the answers, and the devices do them all the same.
//!
//! Left out: parts of a disk that others have parts of. Those are never given away, and their disk may never be at rest.

use crate::kernel::Kernel;
use gyre_account::ActivityId;
use gyre_assembly::file_systems::Mounted;
use gyre_contract::boot::Root;
use gyre_message::{sleep_ns, within};

/// How long that may take, ns of the machine's own time: longer than a driver waits for its device.
const REST_NS_MAX: u64 = 40_000_000_000;
/// A pause between two looks at the devices, ns.
const LOOK_NS: u64 = 1_000_000;

/// Waits until nobody writes to a tenant's disks; `None` if that is not known to be so in time.
pub async fn until_at_rest(kernel: &Kernel, tenant: ActivityId, mounted: &[Mounted]) -> Option<()> {
    within(REST_NS_MAX, rest(kernel, tenant, mounted)).await
}

async fn rest(kernel: &Kernel, tenant: ActivityId, mounted: &[Mounted]) {
    for one in mounted {
        one.server.close_to_others().await;
    }
    let index = kernel.base.index_of(tenant);
    let Some(description) = index.and_then(|index| kernel.base.roll.tenant(index)) else { return };
    let volumes = description.volumes.iter().map(|volume| volume.root);
    for root in [description.root].into_iter().chain(volumes) {
        if let Root::Disk(disk) = root {
            while !kernel.storage.is_at_rest(disk) {
                sleep_ns(LOOK_NS).await;
            }
        }
    }
}
