//! The calls about a file's owner: commands of fcntl, and requests of ioctl for sockets.

use super::ioctl::{get_int, put_int};
use super::usable_file;
use crate::file::open_file::OpenFile;
use crate::file::owner::{Sender, Target};
use crate::signal::SIGNAL_MAX;
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::sync::Arc;
use linux_raw_sys::general as raw;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `struct f_owner_ex`.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct OwnerEx {
    kind: u32,
    number: i32,
}

/// Returns the number that F_GETOWN answers: a group is negative, an owner that has ended 0.
pub(super) fn number_of(file: &OpenFile) -> i32 {
    match file.owner().target {
        Target::Process(number, process) if process.strong_count() > 0 => number,
        Target::Thread(number, thread) if thread.strong_count() > 0 => number,
        Target::Group(group) => group.saturating_neg(),
        Target::Process(..) | Target::Thread(..) | Target::Nobody => 0,
    }
}

/// Names a process, or a group by its negative number; 0 is nobody (F_SETOWN).
///
/// # Errors
/// ESRCH; EINVAL for a number that cannot be.
pub(super) fn name(thread: &Thread, file: &OpenFile, number: i32) -> Outcome {
    let target = match number {
        0 => Target::Nobody,
        i32::MIN => return Err(Errno::EINVAL),
        ..0 => group(thread, number.saturating_neg())?,
        _ => process(thread, number)?,
    };
    file.set_owner(target, sender(thread));
    Ok(0)
}

fn sender(thread: &Thread) -> Sender {
    thread.with_credentials(|who| Sender { user: who.user, user_effective: who.user_effective })
}

/// The number of a thread is known, but no process: nobody gets the signal then, as on Linux.
fn process(thread: &Thread, number: i32) -> Result<Target, Errno> {
    let tree = thread.tenant().tree.lock();
    match tree.process(number) {
        Some(process) => Ok(Target::Process(number, Arc::downgrade(&process))),
        None => tree.thread(number).map(|_| Target::Nobody).ok_or(Errno::ESRCH),
    }
}

fn group(thread: &Thread, number: i32) -> Result<Target, Errno> {
    let tree = thread.tenant().tree.lock();
    let is_there = tree.session_of_group(number).is_some() || tree.thread(number).is_some();
    if is_there { Ok(Target::Group(number)) } else { Err(Errno::ESRCH) }
}

/// `fcntl(fd, F_SETOWN_EX, owner)`.
pub(super) async fn set_extended(thread: &Thread, a: Arguments) -> Outcome {
    let file = usable_file(thread, a.int(0))?;
    let OwnerEx { kind, number } = thread.read_struct(a.word(2)).await?;
    let target = match (kind, number) {
        (raw::F_OWNER_TID | raw::F_OWNER_PID | raw::F_OWNER_PGRP, 0) => Target::Nobody,
        (raw::F_OWNER_TID, _) => {
            let found = thread.tenant().tree.lock().thread(number).ok_or(Errno::ESRCH)?;
            Target::Thread(number, Arc::downgrade(&found))
        }
        (raw::F_OWNER_PID, _) => process(thread, number)?,
        (raw::F_OWNER_PGRP, _) => group(thread, number)?,
        _ => return Err(Errno::EINVAL),
    };
    file.set_owner(target, sender(thread));
    Ok(0)
}

/// `fcntl(fd, F_GETOWN_EX, owner)`.
pub(super) async fn get_extended(thread: &Thread, a: Arguments) -> Outcome {
    let file = usable_file(thread, a.int(0))?;
    let (kind, number) = match file.owner().target {
        Target::Process(number, process) if process.strong_count() > 0 => (raw::F_OWNER_PID, number),
        Target::Thread(number, thread) if thread.strong_count() > 0 => (raw::F_OWNER_TID, number),
        Target::Group(group) => (raw::F_OWNER_PGRP, group),
        Target::Thread(..) => (raw::F_OWNER_TID, 0),
        Target::Process(..) | Target::Nobody => (raw::F_OWNER_PID, 0),
    };
    thread.write_struct(a.word(2), &OwnerEx { kind, number }).await?;
    Ok(0)
}

/// Chooses the signal (F_SETSIG).
///
/// # Errors
/// EINVAL.
pub(super) fn choose_signal(file: &OpenFile, signal: i32) -> Outcome {
    if !(0..=SIGNAL_MAX).contains(&signal) {
        return Err(Errno::EINVAL);
    }
    file.set_signal(signal);
    Ok(0)
}

/// `ioctl(socket, FIOSETOWN, number)`.
pub(super) async fn name_by_request(thread: &Thread, file: &OpenFile, from: u64) -> Outcome {
    let number = get_int(thread, from).await?;
    name(thread, file, number)
}

/// `ioctl(socket, FIOGETOWN, number)`.
pub(super) async fn tell_by_request(thread: &Thread, file: &OpenFile, out: u64) -> Outcome {
    put_int(thread, out, number_of(file)).await
}
