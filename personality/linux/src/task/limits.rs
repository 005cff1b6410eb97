//! Resource limits: prlimit64, and their use by the kernel.

use crate::credentials::{Capability, Credentials};
use crate::time::cpu_limit;
use crate::{Arguments, Errno, Outcome, Process, Thread};
use alloc::sync::Arc;
use linux_raw_sys::general as raw;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// "No limit".
pub const INFINITE: u64 = u64::MAX;
const COUNT: usize = 16;
/// Descriptors that even root may not exceed (fs.nr_open).
const DESCRIPTORS_MAX: u64 = 1 << 20;

/// `struct rlimit64`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Limit {
    /// The limit that counts now.
    pub soft: u64,
    /// The bound for raising it.
    pub hard: u64,
}

/// The limits of a process, by RLIMIT_ number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResourceLimits([Limit; COUNT]);

impl Default for ResourceLimits {
    fn default() -> ResourceLimits {
        let mut limits = ResourceLimits([Limit { soft: INFINITE, hard: INFINITE }; COUNT]);
        let mut set = |resource: u32, soft, hard| limits.set(resource, Limit { soft, hard });
        set(raw::RLIMIT_NOFILE, 1024, 1 << 20);
        set(raw::RLIMIT_STACK, 8 << 20, INFINITE);
        set(raw::RLIMIT_CORE, 0, INFINITE);
        set(raw::RLIMIT_SIGPENDING, 1024, 1024);
        set(raw::RLIMIT_MEMLOCK, 8 << 20, 8 << 20);
        set(raw::RLIMIT_MSGQUEUE, 819_200, 819_200);
        set(raw::RLIMIT_NICE, 0, 0);
        set(raw::RLIMIT_RTPRIO, 0, 0);
        limits
    }
}

impl ResourceLimits {
    /// Returns the usual limits with this many open files.
    #[must_use]
    pub fn with_files(count: u64) -> ResourceLimits {
        let mut limits = ResourceLimits::default();
        limits.set(raw::RLIMIT_NOFILE, Limit { soft: count, hard: count });
        limits
    }

    /// Returns one of them; no limit if the number is unknown.
    pub fn get(&self, resource: u32) -> Limit {
        let none = Limit { soft: INFINITE, hard: INFINITE };
        self.0.get(resource as usize).copied().unwrap_or(none)
    }

    /// Raises the soft limit of a resource by one, within the hard limit.
    pub(crate) fn raise_soft(&mut self, resource: u32) {
        let Limit { soft, hard } = self.get(resource);
        self.set(resource, Limit { soft: soft.saturating_add(1).min(hard), hard });
    }

    fn set(&mut self, resource: u32, limit: Limit) {
        if let Some(slot) = self.0.get_mut(resource as usize) {
            *slot = limit;
        }
    }

    /// Those that the memory of a program of this user must know.
    pub fn of_memory(&self, who: &Credentials) -> gyre_address_space::Limits {
        gyre_address_space::Limits {
            mapped_bytes: self.get(raw::RLIMIT_AS).soft,
            data_bytes: self.get(raw::RLIMIT_DATA).soft,
            stack_bytes: self.get(raw::RLIMIT_STACK).soft,
            locked_bytes: if who.has(Capability::IpcLock) { INFINITE } else { self.get(raw::RLIMIT_MEMLOCK).soft },
        }
    }
}

/// `prlimit64(pid, resource, new, old)`.
pub async fn prlimit64(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let (target, resource, new, old) = (a.int(0), a.unsigned(1), a.word(2), a.word(3));
    if resource as usize >= COUNT {
        return Err(Errno::EINVAL);
    }
    let process = match target {
        0 => thread.process().clone(),
        id => thread.tenant().tree.lock().process(id).ok_or(Errno::ESRCH)?,
    };
    let wanted = match new {
        0 => None,
        address => Some(thread.read_struct::<Limit>(address).await?),
    };
    let may_raise = thread.with_credentials(|who| who.has(Capability::SysResource));
    if !Arc::ptr_eq(&process, thread.process()) && !may_raise && !is_of_same_user(thread, &process) {
        return Err(Errno::EPERM);
    }
    let before = process.change_limits(|limits| {
        let before = limits.get(resource);
        let Some(wanted) = wanted else {
            return Ok::<Limit, Errno>(before);
        };
        check(resource, before, wanted, may_raise)?;
        limits.set(resource, wanted);
        Ok(before)
    })?;
    if wanted.is_some() {
        process.tell_limits_to_memory();
        if resource == raw::RLIMIT_CPU {
            cpu_limit::limited(&process);
        }
    }
    thread.write_optional(old, &before).await?;
    Ok(0)
}

/// Returns whether the caller's real ids are all of those of the other process (prlimit(2)).
fn is_of_same_user(thread: &Thread, other: &Process) -> bool {
    let (user, group) = thread.with_credentials(|who| (who.user, who.group));
    other.with_credentials(|who| {
        let users = [who.user, who.user_effective, who.user_saved];
        let groups = [who.group, who.group_effective, who.group_saved];
        users == [user; 3] && groups == [group; 3]
    })
}

fn check(resource: u32, before: Limit, wanted: Limit, may_raise: bool) -> Result<(), Errno> {
    if wanted.soft > wanted.hard {
        return Err(Errno::EINVAL);
    }
    let too_many = resource == raw::RLIMIT_NOFILE && wanted.hard > DESCRIPTORS_MAX;
    if too_many || wanted.hard > before.hard && !may_raise {
        return Err(Errno::EPERM);
    }
    Ok(())
}

/// `getrlimit(resource, limit)`.
pub async fn getrlimit(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    prlimit64(thread, Arguments([0, a.word(0), 0, a.word(1), 0, 0])).await
}

/// `setrlimit(resource, limit)`.
pub async fn setrlimit(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    match a.word(1) {
        0 => Err(Errno::EFAULT),
        limit => prlimit64(thread, Arguments([0, a.word(0), limit, 0, 0, 0])).await,
    }
}
