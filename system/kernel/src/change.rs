//! Changes of the running machine that its owner asks for (V3): shares, limits, policies, cores.

use crate::assembly::System;
use crate::tenants;
use crate::{entitlements, memory, storage};
use gyre_account::{ActivityParams, ResourceId};
use gyre_assembly::grid;
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
        Change::Tenant { name, share, memory_bytes, process_memory_bytes, processes } => {
            let index = system.machine.tenants.iter().position(|tenant| tenant.name == *name).ok_or(Errno::ENOENT)?;
            tenant(system, index, *share, (*memory_bytes, *process_memory_bytes), *processes)
        }
        Change::Group { name, share, memory_bytes } => {
            let index = system.machine.activities.iter().position(|group| group.name == *name).ok_or(Errno::ENOENT)?;
            group(system, index, *share, *memory_bytes)
        }
        Change::Resource { name, policy, batch, cores, weight, priority } => {
            let id = match name == CPU {
                true => COMPUTE,
                false => system.engine.resource(name).ok_or(Errno::ENOENT)?,
            };
            let mask = cores.map(|cores| checked_cores(system.engine, cores)).transpose()?;
            if *batch == Some(0) || weight.is_some_and(|weight| !(1..=WEIGHT_MAX).contains(&weight)) {
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

fn tenant(
    system: &'static System,
    index: usize,
    share: Option<u32>,
    (memory_bytes, process_memory_bytes): (Option<u64>, Option<u64>),
    processes: Option<u32>,
) -> Result<(), Errno> {
    let activity = *system.activities.get(index).ok_or(Errno::ENOENT)?;
    let is_nothing = memory_bytes == Some(0) || process_memory_bytes == Some(0) || processes == Some(0);
    if is_nothing || share.is_some_and(|share| !(1..=WEIGHT_MAX).contains(&share)) {
        return Err(Errno::EINVAL);
    }
    if let Some(processes) = processes {
        let running = tenants::running(index).ok_or(Errno::ENOENT)?;
        let most = processes as usize;
        *running.tenant.limits.lock() = TenantLimits { processes: most, threads: most };
    }
    let now = system.engine.accounts().activities.params(activity);
    let params = ActivityParams {
        weight: share.unwrap_or(now.weight),
        memory_bytes_max: memory_bytes.unwrap_or(now.memory_bytes_max),
        member_bytes_max: process_memory_bytes.unwrap_or(now.member_bytes_max),
        ..now
    };
    system.engine.set_activity_params(activity, params).map_err(|_| Errno::ENOENT)?;
    memory::set_limit(activity, params.memory_bytes_max);
    storage::set_limit(activity, params.memory_bytes_max);
    Ok(())
}

fn group(system: &'static System, index: usize, share: Option<u32>, memory_bytes: Option<u64>) -> Result<(), Errno> {
    let activity = *system.groups.get(index).ok_or(Errno::ENOENT)?;
    if memory_bytes == Some(0) || share.is_some_and(|share| !(1..=WEIGHT_MAX).contains(&share)) {
        return Err(Errno::EINVAL);
    }
    if let Some(bytes) = memory_bytes {
        memory::set_group_limit(activity, bytes).map_err(|_| Errno::EINVAL)?;
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
