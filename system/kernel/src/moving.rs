//! Tenants that come and go while the machine runs, as its owner wishes.
//!
//! * [`add`], after [`check_adds`] of all that come together, gives a tenant the first vacant place of the [roll](crate::roll): activity, disk and address are there already, so what is left
//!   to do is its share, its budget and its start.
//! * [`remove`] ends its programs, writes its file systems back and gives its reservation to others. Its figures stay: it is on the bill.
//!   Its place is vacant once its disk is at rest ([`crate::rest`]); until then, if for ever, it is leaving.
//!
//! Called by [`crate::change`] with the right to change the machine. The errors are those of the native call `set`.

use crate::containment::Unclosed;
use crate::kernel::Kernel;
use crate::storage::Moved;
use crate::{containment, entitlements, living, memory, starting};
use gyre_account::{ActivityId, ActivityParams, ResourceId};
use gyre_assembly::file_systems::Leaving;
use gyre_contract::boot::{Root, Tenant, TenantKind};
use gyre_contract::bounds::{MEMORY_BYTES_MIN, PROCESSES_MAX, SHARE_MAX};
use gyre_contract::monitor::State;
use gyre_contract::native::Change;
use gyre_engine::RESIDENT;
use gyre_interface::memory::Budget;
use gyre_linux::Errno;

/// Checks whether all tenants of a change can come, the first to the first vacant place and so on.
///
/// # Errors
/// The part that is to blame. EEXIST if there is one of its name, EBUSY without a vacant place, EINVAL for a description that makes no
/// sense or is that of another place, ERANGE for more memory than the machine has, ENOSPC for reservations that do not fit.
pub fn check_adds<'a>(kernel: &Kernel, changes: impl Iterator<Item = (u16, &'a Change)>) -> Result<(), (u16, Errno)> {
    let (mut places, mut reserved) = (kernel.base.roll.vacancies(), 0u64);
    for (part, change) in changes {
        let Change::Add { tenant } = change else { continue };
        let (_, place) = places.next().ok_or((part, Errno::EBUSY))?;
        reserved = reserved.saturating_add(tenant.limits.memory_reservation_bytes);
        check_add(kernel, tenant, place, reserved).map_err(|errno| (part, errno))?;
    }
    Ok(())
}

fn check_add(kernel: &Kernel, tenant: &Tenant, place: &Tenant, reserved: u64) -> Result<(), Errno> {
    if kernel.base.roll.find(&tenant.name).is_some() {
        return Err(Errno::EEXIST);
    }
    let is_plain = tenant.kind == TenantKind::Customer
        && (tenant.root, tenant.address, tenant.parent) == (place.root, place.address, None)
        && tenant.entitlements.is_empty()
        && tenant.volumes.is_empty()
        && tenant.overload.is_none()
        && tenant.cell.is_none();
    let limits = &tenant.limits;
    let makes_sense = (1..=SHARE_MAX).contains(&tenant.share)
        && (1..=PROCESSES_MAX).contains(&limits.processes)
        && limits.memory_bytes >= MEMORY_BYTES_MIN
        && limits.memory_reservation_bytes <= limits.memory_bytes;
    match is_plain && makes_sense {
        false => Err(Errno::EINVAL),
        true if limits.memory_bytes > gyre_x86_64::memory_statistics().total_bytes as u64 => Err(Errno::ERANGE),
        true if !kernel.memory.has_room_for(reserved) => Err(Errno::ENOSPC),
        true => Ok(()),
    }
}

/// Gives a tenant the first vacant place and starts it.
///
/// # Errors
/// Those of [`check_adds`].
pub fn add(kernel: &'static Kernel, tenant: &Tenant) -> Result<(), Errno> {
    let (index, place) = kernel.base.roll.vacancies().next().ok_or(Errno::EBUSY)?;
    check_add(kernel, tenant, place, tenant.limits.memory_reservation_bytes)?;
    let activity = *kernel.base.activities.get(index).ok_or(Errno::EBUSY)?;
    kernel.memory.set_budget(activity, memory::budget(tenant)).map_err(|_| Errno::ENOSPC)?;
    let before = moved(kernel, tenant);
    let description = kernel.base.roll.enter(index, tenant.clone(), before).ok_or(Errno::EBUSY)?;
    let params = ActivityParams {
        weight: description.share,
        memory_bytes_max: description.limits.memory_bytes,
        member_bytes_max: description.limits.process_memory_bytes.unwrap_or(u64::MAX),
        ..kernel.base.engine.accounts().activities.params(activity)
    };
    kernel.base.engine.set_activity_params(activity, params).map_err(|_| Errno::ENOENT)?;
    kernel.storage.set_limit(activity, params.memory_bytes_max);
    kernel.promises.set_goal(index, description.goal);
    entitlements::divide_all(kernel.base);
    log::info!("tenant {} comes to place {index}", description.name);
    starting::start_one(kernel, index, description);
    Ok(())
}

/// Checks whether a tenant can go.
///
/// # Errors
/// ENOENT if there is none of its name, EPERM for the machine's own, EBUSY for one that goes away for another image.
pub fn check_remove(kernel: &Kernel, name: &str) -> Result<usize, Errno> {
    let index = kernel.base.roll.find(name).ok_or(Errno::ENOENT)?;
    if kernel.tenants.is_going(index) && kernel.tenants.state(index) != State::Away {
        return Err(Errno::EBUSY);
    }
    match kernel.base.roll.tenant(index).map(|tenant| tenant.kind) {
        Some(TenantKind::Customer) => Ok(index),
        _ => Err(Errno::EPERM),
    }
}

/// Begins to take a tenant away. Its name is free from here on; [`State::Gone`] says that its disk is in order.
///
/// # Errors
/// Those of [`check_remove`].
pub fn remove(kernel: &'static Kernel, name: &str, grace_ms: u64) -> Result<(), Errno> {
    let index = check_remove(kernel, name)?;
    let activity = *kernel.base.activities.get(index).ok_or(Errno::ENOENT)?;
    if !kernel.base.roll.leave(index) {
        return Err(Errno::ENOENT);
    }
    let state = kernel.tenants.state(index);
    // None if the machine ends, which writes its file systems back, or a failure has ended it.
    let leaving = kernel.file_systems.leave(activity);
    kernel.tenants.set_state(index, State::Leaving);
    kernel.promises.set_goal(index, None);
    let grace_ns = living::grace_ns(grace_ms);
    let engine = kernel.base.engine;
    engine.spawn_for_on(RESIDENT, ResourceId::RUNTIME, ActivityId::INFRASTRUCTURE, move || async move {
        let left = match (state, leaving) {
            (State::Away, _) => Left::InOrder,
            (_, Some(leaving)) => leave(kernel, index, grace_ns, leaving).await,
            (_, None) => Left::Unknown,
        };
        let none = Budget { reservation_bytes: 0, limit_bytes: MEMORY_BYTES_MIN, share: 1 };
        // Less than before always fits.
        let _ = kernel.memory.set_budget(activity, none);
        entitlements::divide_all(kernel.base);
        if let (Left::InOrder, Some(tenant)) = (left, kernel.base.roll.tenant(index)) {
            kernel.base.roll.vacate(index, moved(kernel, tenant));
        }
        if left != Left::Restless {
            kernel.tenants.set_state(index, State::Gone);
        }
    });
    Ok(())
}

/// How a tenant's disk is after the tenant has left.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Left {
    /// All is written, and nobody writes to it any more.
    InOrder,
    /// That is not known: nobody else gets it.
    Unknown,
    /// It is written back, and somebody may still write to it: it is the tenant's, which is leaving for ever.
    Restless,
}

async fn leave(kernel: &'static Kernel, index: usize, grace_ns: u64, leaving: Leaving<'static>) -> Left {
    let Some(running) = kernel.tenants.running(index) else { return Left::Unknown };
    living::stop(kernel, index, running, grace_ns).await;
    match containment::end_for_owner(kernel, running, leaving).await {
        Ok(()) => Left::InOrder,
        Err(Unclosed::NotWritten) => Left::Unknown,
        Err(Unclosed::NotAtRest) => Left::Restless,
    }
}

/// Returns what a tenant's disk has moved until now.
fn moved(kernel: &Kernel, tenant: &Tenant) -> Moved {
    match tenant.root {
        Root::Disk(disk) => kernel.storage.moved_by_disk(disk),
        _ => Moved::default(),
    }
}
