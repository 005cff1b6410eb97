//! Locked memory: mlock, mlockall and what undoes them, within RLIMIT_MEMLOCK (mlock(2); Linux: mm/mlock.c).

use super::{PAGE, populate};
use crate::credentials::Capability;
use crate::task::limits::INFINITE;
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::sync::Arc;
use gyre_address_space::{LockFuture, Options, Populate};
use linux_raw_sys::general as raw;

/// A range from the start of its first page on.
fn from_page(address: u64, bytes: u64) -> Result<(u64, u64), Errno> {
    let inside = address % PAGE;
    Ok((address & !(PAGE - 1), bytes.checked_add(inside).ok_or(Errno::EINVAL)?))
}

/// How many bytes the caller may lock.
fn most(thread: &Thread) -> u64 {
    match thread.with_credentials(|who| who.has(Capability::IpcLock)) {
        true => INFINITE,
        false => thread.process().limit(raw::RLIMIT_MEMLOCK),
    }
}

/// How many bytes the caller may lock, if it may lock any.
///
/// # Errors
/// EPERM.
pub(super) fn check(thread: &Thread) -> Result<u64, Errno> {
    match most(thread) {
        0 => Err(Errno::EPERM),
        most => Ok(most),
    }
}

async fn lock(thread: &Thread, address: u64, bytes: u64, lock: LockFuture) -> Outcome {
    let most = check(thread)?;
    let (start, bytes) = from_page(address, bytes)?;
    let space = thread.space();
    space.lock(start, bytes, most)?;
    if lock == LockFuture::Resident {
        populate(&space, start, bytes, Populate::Own).await?;
    }
    Ok(0)
}

/// `mlock(address, bytes)`: makes the pages resident; they stay anyway, nothing is ever swapped.
pub async fn mlock(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    lock(thread, a.word(0), a.word(1), LockFuture::Resident).await
}

/// `mlock2(address, bytes, flags)`: with MLOCK_ONFAULT a page counts as locked and comes when it is used.
pub async fn mlock2(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let how = match a.unsigned(2) {
        0 => LockFuture::Resident,
        raw::MLOCK_ONFAULT => LockFuture::OnFault,
        _ => return Err(Errno::EINVAL),
    };
    lock(thread, a.word(0), a.word(1), how).await
}

/// `munlock(address, bytes)`.
pub fn munlock(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let (start, bytes) = from_page(a.word(0), a.word(1))?;
    thread.space().set_options(start, bytes, Options::empty(), Options::LOCKED)?;
    Ok(0)
}

/// `mlockall(flags)`: locks what is mapped now (MCL_CURRENT), later (MCL_FUTURE), and makes it resident but with MCL_ONFAULT.
pub async fn mlockall(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let flags = a.unsigned(0);
    let (now, future) = (flags & raw::MCL_CURRENT != 0, flags & raw::MCL_FUTURE != 0);
    if flags & !(raw::MCL_CURRENT | raw::MCL_FUTURE | raw::MCL_ONFAULT) != 0 || !now && !future {
        return Err(Errno::EINVAL);
    }
    let most = check(thread)?;
    let lock = if flags & raw::MCL_ONFAULT != 0 { LockFuture::OnFault } else { LockFuture::Resident };
    let space = thread.space();
    if now {
        space.lock_all(lock, most).await?;
    }
    space.lock_future(if future { lock } else { LockFuture::No });
    Ok(0)
}

/// `munlockall()`.
pub fn munlockall(thread: &Arc<Thread>, _a: Arguments) -> Outcome {
    thread.space().unlock_all();
    Ok(0)
}
