//! The identity of a thread: numbers, groups, sessions, users (credentials(7)).
//!
//! Numbers and families are looked up in the tenant's tree; users and groups are the calling thread's own. The rules
//! of setuid and its family are pure functions here; capabilities follow them in [`crate::credentials`].
//!
//! Three rules: `one` (setuid), `two` (setreuid), `all_three` (setresuid). Each takes the ids now and the ones wanted
//! and answers the new ones or EPERM. Users and groups go the same way, by CAP_SETUID and CAP_SETGID.
//!
//! A change is of the calling thread alone, as the kernel's calls have it; the C library tells the other threads.

use crate::credentials::{Capability, Credentials, Users};
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use zerocopy::{FromBytes, IntoBytes};

/// "Leave it as it is" in setresuid and its like.
const UNCHANGED: u32 = u32::MAX;
/// Most supplementary groups.
const GROUPS_MAX: usize = 65_536;

/// `getpid()`.
pub fn getpid(thread: &Arc<Thread>, _a: Arguments) -> Outcome {
    Ok(thread.process().id() as u64)
}

/// `gettid()`.
pub fn gettid(thread: &Arc<Thread>, _a: Arguments) -> Outcome {
    Ok(thread.id() as u64)
}

/// `getppid()`.
pub fn getppid(thread: &Arc<Thread>, _a: Arguments) -> Outcome {
    let parent = thread.tenant().tree.lock().parent_of(thread.process().id());
    Ok(parent.unwrap_or(0) as u64)
}

/// `set_tid_address(address)`.
pub fn set_tid_address(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    thread.clear_at_end.store(a.word(0), Ordering::Release);
    Ok(thread.id() as u64)
}

fn own_or(thread: &Thread, id: i32) -> i32 {
    match id {
        0 => thread.process().id(),
        _ => id,
    }
}

/// `setpgid(pid, group)`.
pub fn setpgid(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let id = own_or(thread, a.int(0));
    let group = if a.int(1) == 0 { id } else { a.int(1) };
    if group < 0 {
        return Err(Errno::EINVAL);
    }
    let own = thread.process().id();
    thread.tenant().tree.lock().set_group(own, id, group)?;
    Ok(0)
}

/// `getpgid(pid)`.
pub fn getpgid(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let group = thread.tenant().tree.lock().group_of(own_or(thread, a.int(0)));
    group.map(|group| group as u64).ok_or(Errno::ESRCH)
}

/// `getpgrp()`.
pub fn getpgrp(thread: &Arc<Thread>, _a: Arguments) -> Outcome {
    getpgid(thread, Arguments([0; 6]))
}

/// `setsid()`.
pub fn setsid(thread: &Arc<Thread>, _a: Arguments) -> Outcome {
    let id = thread.process().id();
    thread.tenant().tree.lock().set_session(id)?;
    Ok(id as u64)
}

/// `getsid(pid)`.
pub fn getsid(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let session = thread.tenant().tree.lock().session_of(own_or(thread, a.int(0)));
    session.map(|session| session as u64).ok_or(Errno::ESRCH)
}

/// `getuid()`.
pub fn getuid(thread: &Arc<Thread>, _a: Arguments) -> Outcome {
    Ok(u64::from(thread.with_credentials(|who| who.user)))
}

/// `geteuid()`.
pub fn geteuid(thread: &Arc<Thread>, _a: Arguments) -> Outcome {
    Ok(u64::from(thread.with_credentials(|who| who.user_effective)))
}

/// `getgid()`.
pub fn getgid(thread: &Arc<Thread>, _a: Arguments) -> Outcome {
    Ok(u64::from(thread.with_credentials(|who| who.group)))
}

/// `getegid()`.
pub fn getegid(thread: &Arc<Thread>, _a: Arguments) -> Outcome {
    Ok(u64::from(thread.with_credentials(|who| who.group_effective)))
}

/// `getresuid(real, effective, saved)`.
pub async fn getresuid(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let who = thread.credentials();
    write_three(thread, a, [who.user, who.user_effective, who.user_saved]).await
}

/// `getresgid(real, effective, saved)`.
pub async fn getresgid(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let who = thread.credentials();
    write_three(thread, a, [who.group, who.group_effective, who.group_saved]).await
}

async fn write_three(thread: &Thread, a: Arguments, values: [u32; 3]) -> Outcome {
    for (index, value) in values.iter().enumerate() {
        thread.write_struct(a.word(index), value).await?;
    }
    Ok(0)
}

/// Three ids of one kind: real, effective, saved.
type Ids = [u32; 3];

fn user_ids(who: &Credentials) -> Ids {
    [who.user, who.user_effective, who.user_saved]
}

fn group_ids(who: &Credentials) -> Ids {
    [who.group, who.group_effective, who.group_saved]
}

fn set_user_ids(who: &mut Credentials, [real, effective, saved]: Ids) {
    who.set_users(Users { real, effective, saved });
}

fn set_group_ids(who: &mut Credentials, ids: Ids) {
    [who.group, who.group_effective, who.group_saved] = ids;
    who.group_of_files = who.group_effective;
}

/// setresuid's rule: without privilege each new id must be one of the three.
fn all_three(now: Ids, wanted: Ids, privileged: bool) -> Result<Ids, Errno> {
    let fits = |id: &u32| *id == UNCHANGED || privileged || now.contains(id);
    if !wanted.iter().all(fits) {
        return Err(Errno::EPERM);
    }
    let pick = |index: usize| match wanted[index] {
        UNCHANGED => now[index],
        id => id,
    };
    Ok([pick(0), pick(1), pick(2)])
}

/// Applies setuid's rule: with the capability all three ids change, else the effective id becomes the real or saved
/// one.
fn one(now: Ids, wanted: u32, privileged: bool) -> Result<Ids, Errno> {
    match (privileged, wanted == now[0] || wanted == now[2]) {
        (true, _) => Ok([wanted; 3]),
        (false, true) => Ok([now[0], wanted, now[2]]),
        (false, false) => Err(Errno::EPERM),
    }
}

/// Applies setreuid's rule: the saved id follows the effective one if the real one is set.
fn two(now: Ids, real: u32, effective: u32, privileged: bool) -> Result<Ids, Errno> {
    let real_fits = real == UNCHANGED || privileged || real == now[0] || real == now[1];
    if !real_fits || effective != UNCHANGED && !privileged && !now.contains(&effective) {
        return Err(Errno::EPERM);
    }
    let new_real = if real == UNCHANGED { now[0] } else { real };
    let new_effective = if effective == UNCHANGED { now[1] } else { effective };
    let follows = real != UNCHANGED || effective != UNCHANGED && effective != now[0];
    Ok([new_real, new_effective, if follows { new_effective } else { now[2] }])
}

fn change_users(thread: &Thread, rule: impl FnOnce(Ids, bool) -> Result<Ids, Errno>) -> Outcome {
    thread.change_credentials(|who| {
        let ids = rule(user_ids(who), who.has(Capability::Setuid))?;
        set_user_ids(who, ids);
        Ok(0)
    })
}

fn change_groups(thread: &Thread, rule: impl FnOnce(Ids, bool) -> Result<Ids, Errno>) -> Outcome {
    thread.change_credentials(|who| {
        let ids = rule(group_ids(who), who.has(Capability::Setgid))?;
        set_group_ids(who, ids);
        Ok(0)
    })
}

fn valid(id: u32) -> Result<u32, Errno> {
    (id != UNCHANGED).then_some(id).ok_or(Errno::EINVAL)
}

/// `setuid(id)`.
pub fn setuid(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let id = valid(a.unsigned(0))?;
    change_users(thread, |now, privileged| one(now, id, privileged))
}

/// `setgid(id)`.
pub fn setgid(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let id = valid(a.unsigned(0))?;
    change_groups(thread, |now, privileged| one(now, id, privileged))
}

/// `setreuid(real, effective)`.
pub fn setreuid(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    change_users(thread, |now, privileged| two(now, a.unsigned(0), a.unsigned(1), privileged))
}

/// `setregid(real, effective)`.
pub fn setregid(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    change_groups(thread, |now, privileged| two(now, a.unsigned(0), a.unsigned(1), privileged))
}

fn three(a: Arguments) -> Ids {
    [a.unsigned(0), a.unsigned(1), a.unsigned(2)]
}

/// `setresuid(real, effective, saved)`.
pub fn setresuid(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    change_users(thread, |now, privileged| all_three(now, three(a), privileged))
}

/// `setresgid(real, effective, saved)`.
pub fn setresgid(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    change_groups(thread, |now, privileged| all_three(now, three(a), privileged))
}

/// `setfsuid(id)`: answers the id before, whether it changes or not (setfsuid(2)).
pub fn setfsuid(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    Ok(u64::from(thread.change_credentials(|who| who.set_user_of_files(a.unsigned(0)))))
}

/// `setfsgid(id)`: answers the id before, whether it changes or not (setfsgid(2)).
pub fn setfsgid(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    Ok(u64::from(thread.change_credentials(|who| who.set_group_of_files(a.unsigned(0)))))
}

/// `getgroups(count, list)`.
pub async fn getgroups(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let groups = thread.credentials().groups;
    let room = usize::try_from(a.int(0)).map_err(|_| Errno::EINVAL)?;
    if room > 0 {
        if room < groups.len() {
            return Err(Errno::EINVAL);
        }
        thread.copy_out(a.word(1), groups.as_bytes()).await?;
    }
    Ok(groups.len() as u64)
}

/// `setgroups(count, list)`.
pub async fn setgroups(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    thread.needs(Capability::Setgid)?;
    if a.size(0) > GROUPS_MAX {
        return Err(Errno::EINVAL);
    }
    let raw = thread.read_vec(a.word(1), a.size(0).saturating_mul(size_of::<u32>())).await?;
    let groups: Vec<u32> =
        raw.chunks_exact(size_of::<u32>()).filter_map(|bytes| u32::read_from_bytes(bytes).ok()).collect();
    thread.change_credentials(|who| who.groups = groups);
    Ok(0)
}
