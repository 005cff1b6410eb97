//! Changes of the running machine that its owner asks for: shares, limits, policies, cores.
//!
//! * [`check`] compares a change with what holds now; [`apply`] makes it everywhere at once.
//! * [`inverse`] is the change that brings back what holds now, for a change of several parts of which a later one fails.
//! * Promises are checked by admission and goals kept by [`crate::promises`]; a life is the tenant's program, which [`crate::living`] has.
//!
//! [`crate::together`] calls all three: nothing else may change the machine, or the record of changes would not be whole.
//! The errors are those of the native call `set`.

use crate::base::Base;
use crate::kernel::Kernel;
use crate::tenants::{Duty, Wish};
use crate::{away, bounds, entitlements, living, moving};
use alloc::boxed::Box;
use alloc::sync::Arc;
use gyre_account::{ActivityId, ActivityParams, ResourceId};
use gyre_assembly::grid;
use gyre_contract::bounds::{BATCH_MAX, Floor, OVERLOAD_DELAYS_NS, SHARE_MAX};
use gyre_contract::catalogue::Resource;
use gyre_contract::goals::{Aim, Goal};
use gyre_contract::native::{Change, Life};
use gyre_contract::policy::Policy;
use gyre_engine::{COMPUTE, Engine, GridError};
use gyre_linux::Errno;
use gyre_linux::tenant::TenantLimits;
use gyre_schedulers::{Metric, Policy as Scheduler};

/// Checks a change against what holds now; a promise is checked by admission, with all that come with it.
///
/// # Errors
/// Those of the native call `set`.
pub fn check(kernel: &'static Kernel, wish: &Change) -> Result<(), Errno> {
    match wish {
        Change::Tenant { name, .. } => check_tenant(kernel, tenant_index(kernel, name)?, wish),
        Change::Life { name, life: Life::Away { .. } } => away::check(kernel, tenant_index(kernel, name)?),
        Change::Life { name, .. } => tenant_index(kernel, name).map(drop),
        Change::Program { name, program, .. } => living::check_program(kernel, tenant_index(kernel, name)?, program),
        Change::Group { name, share, memory_bytes, floor } => {
            let activity = group(kernel, name)?;
            bounds::share(kernel.base, *share)?;
            match memory_bytes.filter(|bytes| *bytes != u64::MAX) {
                Some(bytes) => bounds::memory(kernel.base.engine, activity, bytes, *floor),
                None => Ok(()),
            }
        }
        Change::Resource { name, policy, batch, cores, weight, .. } => {
            let id = resource(kernel, name)?;
            cores.map_or(Ok(0), |cores| checked_cores(kernel.base.engine, cores))?;
            if batch.is_some_and(|batch| !(1..=BATCH_MAX).contains(&batch))
                || weight.is_some_and(|weight| !(1..=SHARE_MAX).contains(&weight))
            {
                return Err(Errno::EINVAL);
            }
            policy.as_ref().map_or(Ok(()), |policy| built(kernel.base, name, id, policy).map(drop))
        }
        Change::Goal { tenant, goal } => {
            let is_zero = |goal: &Goal| match goal.aim {
                Aim::Rate(beats) => beats == 0,
                Aim::Response { thousandths, target_ns } => target_ns == 0 || !(1..=1000).contains(&thousandths),
            };
            let makes_sense = !goal.as_ref().is_some_and(is_zero);
            tenant_index(kernel, tenant).and_then(|_| makes_sense.then_some(()).ok_or(Errno::EINVAL))
        }
        Change::Promise(_) => Ok(()),
        // All that come together are checked together.
        Change::Add { .. } => Ok(()),
        Change::Remove { name, .. } => moving::check_remove(kernel, name).map(drop),
        Change::Overload { tenant, delay_ns } => {
            let is_good = OVERLOAD_DELAYS_NS.contains(delay_ns);
            overload_delay(kernel, tenant)?.and(is_good.then_some(())).ok_or(Errno::EINVAL)
        }
        // The engine admits all cells as one table, or says why not.
        Change::Cell { .. } => Ok(()),
    }
}

/// Makes a change that was checked, everywhere at once. Of a promise and of a cell there is nothing to do here.
///
/// # Errors
/// Those of the native call `set`: what is below a group's reservations, or came to be meanwhile.
pub fn apply(kernel: &'static Kernel, wish: &Change) -> Result<(), Errno> {
    match wish {
        Change::Tenant { name, .. } => apply_tenant(kernel, tenant_index(kernel, name)?, wish),
        Change::Life { name, life } => set_life(kernel, tenant_index(kernel, name)?, *life),
        Change::Program { name, program, restart } => {
            let duty = Duty { program: Arc::new((**program).clone()), restart: *restart };
            kernel.tenants.set_duty(tenant_index(kernel, name)?, duty);
            Ok(())
        }
        Change::Group { name, share, memory_bytes, .. } => {
            let activity = group(kernel, name)?;
            if let Some(bytes) = memory_bytes {
                kernel.memory.set_group_limit(activity, *bytes).map_err(|_| Errno::EDOM)?;
            }
            let now = kernel.base.engine.accounts().activities.params(activity);
            let params = ActivityParams { weight: share.unwrap_or(now.weight), ..now };
            kernel.base.engine.set_activity_params(activity, params).map_err(|_| Errno::ENOENT)
        }
        Change::Resource { name, policy, batch, cores, weight, priority } => {
            let id = resource(kernel, name)?;
            let cores = cores.map(|cores| checked_cores(kernel.base.engine, cores)).transpose()?;
            if let Some(policy) = policy {
                set_policy(kernel.base, name, id, policy)?;
                entitlements::divide(kernel.base, id, policy);
            }
            let tuning = Tuning { batch: *batch, cores, weight: *weight, priority: *priority };
            tune(kernel.base.engine, id, tuning).map_err(|_| Errno::EINVAL)
        }
        Change::Goal { tenant, goal } => {
            kernel.promises.set_goal(tenant_index(kernel, tenant)?, *goal);
            Ok(())
        }
        Change::Promise(_) | Change::Cell { .. } => Ok(()),
        Change::Add { tenant } => moving::add(kernel, tenant),
        Change::Remove { name, grace_ms } => moving::remove(kernel, name, *grace_ms),
        Change::Overload { tenant, delay_ns } => set_overload_delay(kernel, tenant_index(kernel, tenant)?, *delay_ns),
    }
}

/// Returns the limits of a tenant's processes that hold now, or will in its next life; nothing before the first.
pub fn limits(kernel: &Kernel, index: usize) -> Option<TenantLimits> {
    kernel.tenants.begun(index)?.tenant.limits.lock_unless_lost().map(|limits| *limits)
}

fn set_life(kernel: &'static Kernel, index: usize, life: Life) -> Result<(), Errno> {
    match life {
        Life::Away { grace_ms } => away::send(kernel, index, grace_ms),
        Life::Back => away::call_back(kernel, index),
        Life::Start => living::change(kernel, index, Wish::Runs, None),
        Life::Stop { grace_ms } => living::change(kernel, index, Wish::Stopped, Some(grace_ms)),
        Life::Restart { grace_ms } => living::change(kernel, index, Wish::Again, Some(grace_ms)),
    }
}

/// Returns the delay that a tenant's overload controller keeps, ns; nothing if it has none.
fn overload_delay(kernel: &Kernel, tenant: &str) -> Result<Option<u64>, Errno> {
    let activity = *kernel.base.activities.get(tenant_index(kernel, tenant)?).ok_or(Errno::ENOENT)?;
    Ok(kernel.network.and_then(|network| network.net.overload_delay_of(activity)))
}

/// Sets the delay of both controllers of a tenant: that at its listeners, and that of its flows, which stands while its programs do.
fn set_overload_delay(kernel: &'static Kernel, index: usize, delay_ns: u64) -> Result<(), Errno> {
    let activity = *kernel.base.activities.get(index).ok_or(Errno::ENOENT)?;
    let is_set = kernel.network.is_some_and(|network| network.net.set_overload_delay(activity, delay_ns));
    if let Some(running) = kernel.tenants.running(index)
        && let Some(guard) = &*running.tenant.flow_guard.lock()
    {
        guard.set_delay(delay_ns);
    }
    is_set.then_some(()).ok_or(Errno::EINVAL)
}

/// Returns the change that brings back, of what holds now, all that `wish` would change; `None` for what is not there.
pub fn inverse(kernel: &'static Kernel, wish: &Change) -> Option<Change> {
    match wish {
        Change::Tenant { name, share, memory_bytes, process_memory_bytes, processes, .. } => {
            let index = tenant_index(kernel, name).ok()?;
            let now = kernel.base.engine.accounts().activities.params(*kernel.base.activities.get(index)?);
            let most = limits(kernel, index).map(|limits| limits.processes as u32);
            Some(Change::Tenant {
                name: name.clone(),
                share: share.map(|_| now.weight),
                memory_bytes: memory_bytes.map(|_| now.memory_bytes_max),
                process_memory_bytes: process_memory_bytes.map(|_| now.member_bytes_max),
                processes: processes.and(most),
                floor: Floor::Least,
            })
        }
        Change::Group { name, share, memory_bytes, .. } => {
            let now = kernel.base.engine.accounts().activities.params(group(kernel, name).ok()?);
            Some(Change::Group {
                name: name.clone(),
                share: share.map(|_| now.weight),
                memory_bytes: memory_bytes.map(|_| now.memory_bytes_max),
                floor: Floor::Least,
            })
        }
        Change::Resource { name, policy, batch, cores, weight, priority } => {
            let now = kernel.base.engine.resource_info(resource(kernel, name).ok()?)?;
            let known = Resource::find(name);
            Some(Change::Resource {
                name: name.clone(),
                policy: policy.as_ref().zip(known).map(|(_, known)| kernel.promises.table().policy(known)),
                batch: batch.map(|_| now.batch as u16),
                cores: cores.map(|_| now.cores),
                weight: weight.map(|_| now.weight),
                priority: priority.map(|_| u8::MAX.saturating_sub(now.priority)),
            })
        }
        Change::Goal { tenant, .. } => {
            let goal = kernel.promises.goal(tenant_index(kernel, tenant).ok()?);
            Some(Change::Goal { tenant: tenant.clone(), goal })
        }
        Change::Overload { tenant, .. } => {
            let delay_ns = overload_delay(kernel, tenant).ok()??;
            Some(Change::Overload { tenant: tenant.clone(), delay_ns })
        }
        Change::Program { name, .. } => {
            let Duty { program, restart } = living::duty(kernel, tenant_index(kernel, name).ok()?)?;
            Some(Change::Program { name: name.clone(), program: Box::new((*program).clone()), restart })
        }
        Change::Add { tenant } => Some(Change::Remove { name: tenant.name.clone(), grace_ms: 0 }),
        // A program that has ended has ended, and a tenant that has gone has gone: removals are made last.
        Change::Promise(_) | Change::Cell { .. } | Change::Life { .. } | Change::Remove { .. } => None,
    }
}

fn tenant_index(kernel: &Kernel, name: &str) -> Result<usize, Errno> {
    kernel.base.roll.find(name).ok_or(Errno::ENOENT)
}

fn group(kernel: &Kernel, name: &str) -> Result<ActivityId, Errno> {
    let index = kernel.base.machine.activities.iter().position(|group| group.name == name).ok_or(Errno::ENOENT)?;
    kernel.base.groups.get(index).copied().ok_or(Errno::ENOENT)
}

/// The engine's own resources are not in the catalogue.
fn resource(kernel: &Kernel, name: &str) -> Result<ResourceId, Errno> {
    Resource::find(name).map(grid::id).or_else(|| kernel.base.engine.resource(name)).ok_or(Errno::ENOENT)
}

fn check_tenant(kernel: &'static Kernel, index: usize, wish: &Change) -> Result<(), Errno> {
    let Change::Tenant { share, memory_bytes, process_memory_bytes, processes, floor, .. } = wish else {
        return Err(Errno::EINVAL);
    };
    let activity = *kernel.base.activities.get(index).ok_or(Errno::ENOENT)?;
    let now = kernel.base.engine.accounts().activities.params(activity);
    bounds::share(kernel.base, *share)?;
    memory_bytes.map_or(Ok(()), |bytes| bounds::memory(kernel.base.engine, activity, bytes, *floor))?;
    let reserved = kernel.base.roll.tenant(index).map_or(0, |tenant| tenant.limits.memory_reservation_bytes);
    if memory_bytes.is_some_and(|bytes| bytes < reserved) {
        return Err(Errno::EDOM);
    }
    if let Some(bytes) = process_memory_bytes.filter(|bytes| *bytes != u64::MAX) {
        bounds::process_memory(kernel, index, bytes, memory_bytes.unwrap_or(now.memory_bytes_max), *floor)?;
    }
    processes.map_or(Ok(()), |count| bounds::processes(kernel, index, count, *floor))
}

fn apply_tenant(kernel: &'static Kernel, index: usize, wish: &Change) -> Result<(), Errno> {
    let Change::Tenant { share, memory_bytes, process_memory_bytes, processes, .. } = wish else {
        return Err(Errno::EINVAL);
    };
    let activity = *kernel.base.activities.get(index).ok_or(Errno::ENOENT)?;
    let now = kernel.base.engine.accounts().activities.params(activity);
    let params = ActivityParams {
        weight: share.unwrap_or(now.weight),
        memory_bytes_max: memory_bytes.unwrap_or(now.memory_bytes_max),
        member_bytes_max: process_memory_bytes.unwrap_or(now.member_bytes_max),
        ..now
    };
    if let Some(count) = *processes {
        // Those of its last life are those of the next one.
        let begun = kernel.tenants.begun(index).ok_or(Errno::ENOENT)?;
        let most = count as usize;
        *begun.tenant.limits.lock_unless_lost().ok_or(Errno::ENOENT)? = TenantLimits { processes: most, threads: most };
    }
    kernel.base.engine.set_activity_params(activity, params).map_err(|_| Errno::ENOENT)?;
    kernel.memory.set_limit(activity, params.memory_bytes_max);
    kernel.storage.set_limit(activity, params.memory_bytes_max);
    Ok(())
}

fn checked_cores(engine: &Engine, cores: u64) -> Result<u64, Errno> {
    let all = u64::MAX >> 64u32.saturating_sub(engine.cores().clamp(1, 64) as u32);
    if cores == 0 || cores & !all != 0 { Err(Errno::ENODEV) } else { Ok(cores) }
}

/// Makes a policy for a resource. A gate keeps what its policy counts; what is no gate is scheduled by the CPU's policy.
fn built(base: &Base, name: &str, id: ResourceId, wanted: &Policy) -> Result<Box<dyn Scheduler>, Errno> {
    let metric = match id {
        COMPUTE => Metric::Cycles,
        _ => base.engine.resource_info(id).filter(|info| info.is_gate).ok_or(Errno::EOPNOTSUPP)?.metric,
    };
    grid::built(base.machine, name, wanted, metric).map_err(|_| Errno::EINVAL)
}

fn set_policy(base: &Base, name: &str, id: ResourceId, wanted: &Policy) -> Result<(), Errno> {
    let policy = built(base, name, id, wanted)?;
    let set = match id {
        COMPUTE => base.engine.set_cpu_policy(policy),
        _ => base.engine.set_policy(id, policy),
    };
    set.map_err(|_| Errno::EINVAL)
}

/// Changes of how a resource is served; `None` leaves it as it is.
struct Tuning {
    batch: Option<u16>,
    cores: Option<u64>,
    weight: Option<u32>,
    priority: Option<u8>,
}

fn tune(engine: &'static Engine, id: ResourceId, tuning: Tuning) -> Result<(), GridError> {
    if let Some(batch) = tuning.batch {
        engine.set_batch(id, u32::from(batch))?;
    }
    if let Some(cores) = tuning.cores {
        engine.set_cores(id, cores)?;
    }
    // The file says who goes first by the least number, the engine by the largest.
    engine.set_resource_params(id, tuning.weight, tuning.priority.map(|priority| u8::MAX.saturating_sub(priority)))
}
