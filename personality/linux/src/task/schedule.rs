//! Calls about scheduling: giving up the core, affinity, priority. Shares between tenants are the schedulers' matter; these
//! only order a tenant's own threads, and hints.

use crate::credentials::Capability;
use crate::{Arguments, Errno, Outcome, Process, Thread};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use linux_raw_sys::general as raw;

/// `sched_yield()`.
pub async fn sched_yield(_thread: &Arc<Thread>, _a: Arguments) -> Outcome {
    gyre_message::yield_now().await;
    Ok(0)
}

fn thread_or_own(thread: &Arc<Thread>, id: i32) -> Result<Arc<Thread>, Errno> {
    match id {
        0 => Ok(thread.clone()),
        _ => thread.tenant().tree.lock().thread(id).ok_or(Errno::ESRCH),
    }
}

fn all_cores() -> u64 {
    1u64.checked_shl(gyre_machine::core_count() as u32).unwrap_or(0).wrapping_sub(1)
}

/// `sched_getaffinity(tid, bytes, mask)`.
pub async fn sched_getaffinity(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    if a.size(1) < 8 || !a.size(1).is_multiple_of(8) {
        return Err(Errno::EINVAL);
    }
    let target = thread_or_own(thread, a.int(0))?;
    let cores = target.cores.load(Ordering::Relaxed) & all_cores();
    thread.write_struct(a.word(2), &cores).await?;
    Ok(8)
}

/// `sched_setaffinity(tid, bytes, mask)`: binds the thread before its program runs again.
pub async fn sched_setaffinity(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let target = thread_or_own(thread, a.int(0))?;
    let mut mask = [0; 8];
    let bytes = a.size(1).min(mask.len());
    thread.copy_in(a.word(2), mask.get_mut(..bytes).unwrap_or_default()).await?;
    let cores = u64::from_le_bytes(mask);
    if cores & all_cores() == 0 {
        return Err(Errno::EINVAL);
    }
    target.bind(cores);
    Ok(0)
}

/// The processes that getpriority and setpriority mean.
fn meant(thread: &Arc<Thread>, kind: u32, id: i32) -> Result<Vec<Arc<Process>>, Errno> {
    let own = thread.process();
    let tree = thread.tenant().tree.lock();
    let found: Vec<Arc<Process>> = match kind {
        raw::PRIO_PROCESS if id == 0 => [own.clone()].into(),
        raw::PRIO_PROCESS => tree.process(id).into_iter().collect(),
        raw::PRIO_PGRP => {
            let group = if id == 0 { tree.group_of(own.id()).unwrap_or(0) } else { id };
            tree.group_members(group)
        }
        raw::PRIO_USER => {
            let user = if id == 0 { thread.with_credentials(|who| who.user) } else { id as u32 };
            let all = tree.processes();
            all.into_iter().filter(|other| other.with_credentials(|who| who.user) == user).collect()
        }
        _ => return Err(Errno::EINVAL),
    };
    match found.is_empty() {
        true => Err(Errno::ESRCH),
        false => Ok(found),
    }
}

/// `getpriority(kind, id)`: 20 - nice, the best of those meant.
pub fn getpriority(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let found = meant(thread, a.unsigned(0), a.int(1))?;
    let best = found.iter().map(|process| process.nice.load(Ordering::Relaxed)).min();
    Ok(i64::from(best.unwrap_or(0)).saturating_neg().saturating_add(20) as u64)
}

/// `setpriority(kind, id, nice)`: a weight among the processes of the tenant.
pub fn setpriority(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let nice = a.int(2).clamp(-20, 19);
    let asker = thread.credentials();
    for process in meant(thread, a.unsigned(0), a.int(1))? {
        let is_own = process.with_credentials(|who| [who.user, who.user_effective].contains(&asker.user_effective));
        if !is_own {
            asker.needs(Capability::SysNice)?;
        }
        if nice < process.nice.load(Ordering::Relaxed) && !asker.has(Capability::SysNice) {
            return Err(Errno::EACCES);
        }
        if process.nice.swap(nice, Ordering::Relaxed) != nice {
            thread.tenant().host().set_nice(process.activity(), nice);
        }
    }
    Ok(0)
}

/// `sched_getscheduler(tid)`: always SCHED_OTHER.
pub fn sched_getscheduler(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    thread_or_own(thread, a.int(0)).map(|_| 0)
}

/// `sched_setscheduler(tid, policy, parameter)`: SCHED_OTHER, SCHED_BATCH and SCHED_IDLE are taken, real-time ones are not.
pub fn sched_setscheduler(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    thread_or_own(thread, a.int(0))?;
    match a.unsigned(1) {
        0 | 3 | 5 => Ok(0),
        1 | 2 => Err(Errno::EPERM),
        _ => Err(Errno::EINVAL),
    }
}

/// `sched_getparam(tid, parameter)`.
pub async fn sched_getparam(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    thread_or_own(thread, a.int(0))?;
    thread.write_struct(a.word(1), &0u32).await?;
    Ok(0)
}

/// `sched_get_priority_max(policy)` and `sched_get_priority_min(policy)`.
pub fn sched_get_priority_max(_thread: &Arc<Thread>, a: Arguments) -> Outcome {
    match a.unsigned(0) {
        0 | 3 | 5 => Ok(0),
        1 | 2 => Ok(99),
        _ => Err(Errno::EINVAL),
    }
}

/// See [`sched_get_priority_max`].
pub fn sched_get_priority_min(_thread: &Arc<Thread>, a: Arguments) -> Outcome {
    match a.unsigned(0) {
        0 | 3 | 5 => Ok(0),
        1 | 2 => Ok(1),
        _ => Err(Errno::EINVAL),
    }
}

/// `getcpu(core, node, unused)`.
pub async fn getcpu(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let core = gyre_machine::core_index() as u32;
    thread.write_optional(a.word(0), &core).await?;
    thread.write_optional(a.word(1), &0u32).await?;
    Ok(0)
}
