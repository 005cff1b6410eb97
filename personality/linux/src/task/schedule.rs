//! Calls about scheduling: giving up the core, affinity, priority. Shares between tenants are the schedulers' matter; these
//! only order a tenant's own threads, and hints.
//!
//! * Affinity binds a thread to cores. It is kept if all of them go offline; the thread runs on all meanwhile.
//! * A nice value is a weight of the process among those of its tenant. A lower one than now wants CAP_SYS_NICE.
//! * SCHED_OTHER, SCHED_BATCH and SCHED_IDLE are taken. Real-time policies answer EPERM: no thread exceeds its
//!   tenant's share.
//! * Threads of another user may be ordered with CAP_SYS_NICE alone ([`may_order`]).
//!
//! Sources: sched(7), sched_setattr(2), getpriority(2).

use crate::credentials::{Capability, Credentials, Users};
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

pub(super) fn thread_or_own(thread: &Arc<Thread>, id: i32) -> Result<Arc<Thread>, Errno> {
    match id {
        0 => Ok(thread.clone()),
        _ => thread.tenant().tree.lock().thread(id).ok_or(Errno::ESRCH),
    }
}

/// `sched_getaffinity(tid, bytes, mask)`: those of the thread's cores that are online. A thread of which none is runs on all, and has its own
/// again when they are back (Linux 6.2: `user_cpus_ptr` is kept).
pub async fn sched_getaffinity(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    if a.size(1) < 8 || !a.size(1).is_multiple_of(8) {
        return Err(Errno::EINVAL);
    }
    let target = thread_or_own(thread, a.int(0))?;
    let online = gyre_machine::online_cores();
    let cores = match target.cores.load(Ordering::Relaxed) & online {
        0 => online,
        own => own,
    };
    thread.write_struct(a.word(2), &cores).await?;
    Ok(8)
}

/// `sched_setaffinity(tid, bytes, mask)`: binds the thread before its program runs again. A mask without a core that is online is refused
/// (sched_setaffinity(2), EINVAL).
pub async fn sched_setaffinity(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let mut mask = [0; 8];
    let bytes = a.size(1).min(mask.len());
    thread.copy_in(a.word(2), mask.get_mut(..bytes).unwrap_or_default()).await?;
    let target = thread_or_own(thread, a.int(0))?;
    may_order(thread, target.with_credentials(Credentials::users))?;
    let cores = u64::from_le_bytes(mask);
    if cores & gyre_machine::online_cores() == 0 {
        return Err(Errno::EINVAL);
    }
    target.bind(cores);
    Ok(0)
}

/// Refuses who wants to say when threads of another user run (sched(7), CAP_SYS_NICE).
///
/// # Errors
/// EPERM.
pub(super) fn may_order(thread: &Thread, owner: Users) -> Result<(), Errno> {
    thread.with_credentials(|asker| match [owner.real, owner.effective].contains(&asker.user_effective) {
        true => Ok(()),
        false => asker.needs(Capability::SysNice),
    })
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

/// `setpriority(kind, id, nice)`: a weight among the processes of the tenant. A process that may not be changed leaves the others to be (as
/// on Linux).
pub fn setpriority(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let nice = a.int(2).clamp(-20, 19);
    let mut outcome = Ok(0);
    for process in meant(thread, a.unsigned(0), a.int(1))? {
        if let Err(error) = make_nice(thread, &process, nice) {
            outcome = Err(error);
        }
    }
    outcome
}

fn make_nice(thread: &Thread, process: &Process, nice: i32) -> Result<(), Errno> {
    may_order(thread, process.with_credentials(Credentials::users))?;
    let is_raised = nice < process.nice.load(Ordering::Relaxed);
    if is_raised && !thread.with_credentials(|who| who.has(Capability::SysNice)) {
        return Err(Errno::EACCES);
    }
    if process.nice.swap(nice, Ordering::Relaxed) != nice {
        thread.tenant().kernel().set_nice(process.activity(), nice);
    }
    Ok(())
}

const OTHER: u32 = 0;
const BATCH: u32 = 3;
const IDLE: u32 = 5;
/// The nice value whose weight a process has whose first thread runs when nobody else wants to.
const IDLE_NICE: i32 = 19;

fn policy_of(target: &Thread) -> u32 {
    target.preferences.policy.load(Ordering::Relaxed).into()
}

/// `sched_getscheduler(tid)`.
pub fn sched_getscheduler(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    thread_or_own(thread, a.int(0)).map(|target| policy_of(&target).into())
}

/// `sched_setscheduler(tid, policy, parameter)`: SCHED_OTHER, SCHED_BATCH and SCHED_IDLE are taken, real-time ones are not, as their tenant's share
/// is not theirs to exceed. SCHED_IDLE of its first thread gives a process the least weight in its tenant.
pub async fn sched_setscheduler(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let target = thread_or_own(thread, a.int(0))?;
    let priority: i32 = thread.read_struct(a.word(2)).await?;
    set_policy(thread, &target, a.unsigned(1) & !RESET_ON_FORK, priority)
}

/// SCHED_RESET_ON_FORK: nothing that children must not inherit can be had.
const RESET_ON_FORK: u32 = 0x4000_0000;

fn set_policy(thread: &Thread, target: &Arc<Thread>, policy: u32, priority: i32) -> Outcome {
    match policy {
        OTHER | BATCH | IDLE if priority == 0 => may_order(thread, target.with_credentials(Credentials::users))?,
        1 | 2 if (1..=99).contains(&priority) => return Err(Errno::EPERM),
        _ => return Err(Errno::EINVAL),
    }
    target.preferences.policy.store(policy as u8, Ordering::Relaxed);
    let process = target.process();
    if target.id() == process.id() {
        let nice = if policy == IDLE { IDLE_NICE } else { process.nice.load(Ordering::Relaxed) };
        thread.tenant().kernel().set_nice(process.activity(), nice);
    }
    Ok(0)
}

/// `sched_getparam(tid, parameter)`.
pub async fn sched_getparam(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    thread_or_own(thread, a.int(0))?;
    thread.write_struct(a.word(1), &0u32).await?;
    Ok(0)
}

/// `sched_setparam(tid, parameter)`: without real-time policies there is only priority 0.
pub async fn sched_setparam(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let target = thread_or_own(thread, a.int(0))?;
    let priority: i32 = thread.read_struct(a.word(1)).await?;
    set_policy(thread, &target, policy_of(&target), priority)
}

/// Bytes of `struct sched_attr` that are known.
const ATTRIBUTES_BYTES: usize = 48;

/// `sched_getattr(tid, attributes, bytes, flags)`.
pub async fn sched_getattr(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let target = thread_or_own(thread, a.int(0))?;
    let bytes = a.unsigned(2) as usize;
    if a.unsigned(3) != 0 || !(ATTRIBUTES_BYTES..=4096).contains(&bytes) {
        return Err(Errno::EINVAL);
    }
    let mut out = [0; ATTRIBUTES_BYTES];
    let nice = target.process().nice.load(Ordering::Relaxed);
    let parts =
        (ATTRIBUTES_BYTES as u32).to_le_bytes().into_iter().chain(policy_of(&target).to_le_bytes()).chain([0; 8]);
    out.iter_mut().zip(parts.chain(nice.to_le_bytes())).for_each(|(place, byte)| *place = byte);
    thread.copy_out(a.word(1), &out).await?;
    Ok(0)
}

/// `sched_setattr(tid, attributes, flags)`: policy and nice value.
pub async fn sched_setattr(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let target = thread_or_own(thread, a.int(0))?;
    let bytes: u32 = thread.read_struct(a.word(1)).await?;
    if a.unsigned(2) != 0 || (bytes as usize) < ATTRIBUTES_BYTES || bytes > 4096 {
        return Err(if bytes > 4096 { Errno::E2BIG } else { Errno::EINVAL });
    }
    let given = thread.read_vec(a.word(1), ATTRIBUTES_BYTES).await?;
    let number =
        |at: usize| given.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |part| u32::from_le_bytes(*part));
    let (policy, nice, priority) = (number(4), number(16).cast_signed(), number(20).cast_signed());
    if policy == 6 {
        return Err(Errno::EPERM);
    }
    if policy == OTHER || policy == BATCH {
        make_nice(thread, target.process(), nice.clamp(-20, 19))?;
    }
    set_policy(thread, &target, policy, priority)
}

/// `sched_rr_get_interval(tid, interval)`: zero, as on Linux for a thread without a round-robin policy on an idle core.
pub async fn sched_rr_get_interval(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    if a.int(0) < 0 {
        return Err(Errno::EINVAL);
    }
    thread_or_own(thread, a.int(0))?;
    thread.copy_out(a.word(1), &[0; 16]).await?;
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
