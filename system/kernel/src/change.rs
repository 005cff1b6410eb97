//! Changes of the running machine that its owner asks for (V3): shares, limits, policies, cores.

use crate::assembly::System;
use crate::tenants;
use crate::{bounds, entitlements, memory, storage};
use gyre_account::{ActivityParams, ResourceId};
use gyre_assembly::grid;
use gyre_config::bounds::{BATCH_MAX, Floor};
use gyre_config::native::Change;
use gyre_config::policy::{CPU, Policy};
use gyre_engine::{COMPUTE, Engine, GridError};
use gyre_linux::Errno;
use gyre_linux::tenant::TenantLimits;
use gyre_schedulers::Metric;
use gyre_schedulers::policy::WEIGHT_MAX;

/// Makes a change, everywhere at once; all of it or nothing is refused first.
///
/// # Errors
/// Those of the native call `set`.
pub fn make(system: &'static System, wish: &Change) -> Result<(), Errno> {
    match wish {
        Change::Tenant { name, .. } => {
            let index = system.machine.tenants.iter().position(|tenant| tenant.name == *name).ok_or(Errno::ENOENT)?;
            tenant(system, index, wish)
        }
        Change::Group { name, share, memory_bytes, floor } => {
            let index = system.machine.activities.iter().position(|group| group.name == *name).ok_or(Errno::ENOENT)?;
            group(system, index, *share, memory_bytes.map(|bytes| (bytes, *floor)))
        }
        Change::Resource { name, policy, batch, cores, weight, priority } => {
            let id = match name == CPU {
                true => COMPUTE,
                false => system.engine.resource(name).ok_or(Errno::ENOENT)?,
            };
            let mask = cores.map(|cores| checked_cores(system.engine, cores)).transpose()?;
            if batch.is_some_and(|batch| !(1..=BATCH_MAX).contains(&batch))
                || weight.is_some_and(|weight| !(1..=WEIGHT_MAX).contains(&weight))
            {
                return Err(Errno::EINVAL);
            }
            if let Some(policy) = policy {
                set_policy(system.engine, id, policy)?;
                entitlements::divide(system, id, policy);
            }
            resource(system.engine, id, *batch, mask, (*weight, *priority)).map_err(|_| Errno::EINVAL)
        }
    }
}

fn tenant(system: &'static System, index: usize, wish: &Change) -> Result<(), Errno> {
    let Change::Tenant { share, memory_bytes, process_memory_bytes, processes, floor, .. } = wish else {
        return Err(Errno::EINVAL);
    };
    let activity = *system.activities.get(index).ok_or(Errno::ENOENT)?;
    let now = system.engine.accounts().activities.params(activity);
    let params = ActivityParams {
        weight: share.unwrap_or(now.weight),
        memory_bytes_max: memory_bytes.unwrap_or(now.memory_bytes_max),
        member_bytes_max: process_memory_bytes.unwrap_or(now.member_bytes_max),
        ..now
    };
    bounds::share(system, *share)?;
    memory_bytes.map_or(Ok(()), |bytes| bounds::memory(system.engine, activity, bytes, *floor))?;
    let reserved = system.machine.tenants.get(index).map_or(0, |tenant| tenant.limits.memory_reservation_bytes);
    if memory_bytes.is_some_and(|bytes| bytes < reserved) {
        return Err(Errno::EDOM);
    }
    if let Some(bytes) = process_memory_bytes.filter(|bytes| *bytes != u64::MAX) {
        bounds::process_memory(system.engine, index, bytes, params.memory_bytes_max, *floor)?;
    }
    if let Some(count) = *processes {
        bounds::processes(index, count, *floor)?;
        let running = tenants::running(index).ok_or(Errno::ENOENT)?;
        let most = count as usize;
        *running.tenant.limits.lock() = TenantLimits { processes: most, threads: most };
    }
    system.engine.set_activity_params(activity, params).map_err(|_| Errno::ENOENT)?;
    memory::set_limit(activity, params.memory_bytes_max);
    storage::set_limit(activity, params.memory_bytes_max);
    Ok(())
}

fn group(
    system: &'static System,
    index: usize,
    share: Option<u32>,
    memory_bytes: Option<(u64, Floor)>,
) -> Result<(), Errno> {
    let activity = *system.groups.get(index).ok_or(Errno::ENOENT)?;
    bounds::share(system, share)?;
    if let Some((bytes, floor)) = memory_bytes {
        if bytes != u64::MAX {
            bounds::memory(system.engine, activity, bytes, floor)?;
        }
        memory::set_group_limit(activity, bytes).map_err(|_| Errno::EDOM)?;
    }
    let now = system.engine.accounts().activities.params(activity);
    let params = ActivityParams { weight: share.unwrap_or(now.weight), ..now };
    system.engine.set_activity_params(activity, params).map_err(|_| Errno::ENOENT)
}

fn checked_cores(engine: &Engine, cores: u64) -> Result<u64, Errno> {
    let all = u64::MAX >> 64u32.saturating_sub(engine.cores().clamp(1, 64) as u32);
    if cores == 0 || cores & !all != 0 { Err(Errno::ENODEV) } else { Ok(cores) }
}

/// A gate keeps what its policy counts; what is no gate is scheduled by the CPU's policy.
fn set_policy(engine: &'static Engine, id: ResourceId, wanted: &Policy) -> Result<(), Errno> {
    if id == COMPUTE {
        let policy = grid::built(wanted, Metric::Cycles).map_err(|_| Errno::EINVAL)?;
        return engine.set_cpu_policy(policy).map_err(|_| Errno::EINVAL);
    }
    let metric = engine.resource_info(id).filter(|info| info.is_gate).map(|info| info.metric);
    let policy = grid::built(wanted, metric.ok_or(Errno::EOPNOTSUPP)?).map_err(|_| Errno::EINVAL)?;
    engine.set_policy(id, policy).map_err(|_| Errno::EINVAL)
}

fn resource(
    engine: &'static Engine,
    id: ResourceId,
    batch: Option<u16>,
    cores: Option<u64>,
    (weight, priority): (Option<u32>, Option<u8>),
) -> Result<(), GridError> {
    if let Some(batch) = batch {
        engine.set_batch(id, u32::from(batch))?;
    }
    if let Some(cores) = cores {
        engine.set_cores(id, cores)?;
    }
    // The file says who goes first by the least number, the engine by the largest.
    engine.set_resource_params(id, weight, priority.map(|priority| u8::MAX.saturating_sub(priority)))
}
