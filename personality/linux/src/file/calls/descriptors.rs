//! close, dup, fcntl, pipe.
//!
//! A file that leaves the table is closed after the table's lock is free; closing gives up the table's record locks
//! on it (fcntl(2)). Short fcntl commands have a form at once.
//!
//! * [`close`] waits for sockets; [`close_at_once`] takes everything else, without a future.
//! * A pair of new descriptors is told to the program or taken back ([`put_pair`]); no call leaves one of two.
//! * close_range goes through the table in pieces, so that other tasks run in between.

use super::{answer, file_of, install, owner, usable_file};
use crate::file::object::Object;
use crate::file::open_file::{OpenFile, STATUS_FLAGS};
use crate::file::pace::Pace;
use crate::file::pipe::pipe_pair;
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::sync::Arc;
use linux_raw_sys::general as raw;

/// `close(fd)`.
pub async fn close(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let files = thread.process().files();
    let file = files.table().remove(a.int(0))?;
    files.closed(thread.process().id(), &file);
    file.release().await;
    Ok(0)
}

/// `close` of objects that need not wait.
pub fn close_at_once(thread: &Arc<Thread>, a: Arguments) -> Option<Outcome> {
    let files = thread.process().files();
    let file = files.table().remove_if(a.int(0), |file| !matches!(file.object(), Object::Socket(_)))?;
    files.closed(thread.process().id(), &file);
    Some(Ok(0))
}

/// Flags of close_range (close_range.h).
const CLOSE_RANGE_UNSHARE: u32 = 2;
const CLOSE_RANGE_CLOEXEC: u32 = 4;

/// `close_range(first, last, flags)`.
pub async fn close_range(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let (first, last, flags) = (a.unsigned(0), a.unsigned(1), a.unsigned(2));
    if first > last || flags & !(CLOSE_RANGE_CLOEXEC | CLOSE_RANGE_UNSHARE) != 0 {
        return Err(Errno::EINVAL);
    }
    if flags & CLOSE_RANGE_UNSHARE != 0 && thread.process().files().table().is_shared() {
        let shared = thread.process().files().duplicate(u64::from(raw::CLONE_FS)).await?;
        thread.process().set_files(shared);
    }
    let files = thread.process().files();
    if flags & CLOSE_RANGE_CLOEXEC != 0 {
        files.table().mark_range(first, last).await;
        return Ok(0);
    }
    let mut pace = Pace::new();
    let mut next = Some(first);
    while let Some((at, file)) = next.and_then(|next| files.table().remove_first(next, last)) {
        files.closed(thread.process().id(), &file);
        file.release().await;
        pace.step().await;
        next = at.checked_add(1);
    }
    Ok(0)
}

/// `dup(fd)`.
pub fn dup(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let file = file_of(thread, a.int(0))?;
    answer(install(thread, file, false)?)
}

/// `dup2(fd, to)`.
pub fn dup2(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    if a.int(0) == a.int(1) {
        file_of(thread, a.int(0))?;
        return answer(a.int(1));
    }
    duplicate_to(thread, a.int(0), a.int(1), false)
}

/// `dup3(fd, to, flags)`.
pub fn dup3(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    if a.int(0) == a.int(1) || a.unsigned(2) & !raw::O_CLOEXEC != 0 {
        return Err(Errno::EINVAL);
    }
    duplicate_to(thread, a.int(0), a.int(1), a.unsigned(2) & raw::O_CLOEXEC != 0)
}

fn duplicate_to(thread: &Thread, from: i32, to: i32, close_on_exec: bool) -> Outcome {
    let file = file_of(thread, from)?;
    let limit = thread.process().limit(raw::RLIMIT_NOFILE);
    let files = thread.process().files();
    if let Some(before) = files.table().replace(file, close_on_exec, to, limit)? {
        files.closed(thread.process().id(), &before);
    }
    answer(to)
}

/// `pipe(out)`.
pub async fn pipe(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    make_pipe(thread, a.word(0), 0).await
}

/// `pipe2(out, flags)`.
pub async fn pipe2(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let known = raw::O_CLOEXEC | raw::O_NONBLOCK | raw::O_DIRECT;
    if a.unsigned(1) & !known != 0 {
        return Err(Errno::EINVAL);
    }
    make_pipe(thread, a.word(0), a.unsigned(1)).await
}

async fn make_pipe(thread: &Thread, out: u64, flags: u32) -> Outcome {
    let files = thread.process().files();
    let (read, write) = pipe_pair();
    let flags_kept = flags & raw::O_NONBLOCK;
    let read = OpenFile::new(files.tenant(), Object::Pipe(read), flags_kept | raw::O_RDONLY, None)?;
    let write = OpenFile::new(files.tenant(), Object::Pipe(write), flags_kept | raw::O_WRONLY, None)?;
    put_pair(thread, read, write, out, flags & raw::O_CLOEXEC != 0).await
}

/// Gives two files descriptors and tells the program; takes them back if it cannot be told.
pub(super) async fn put_pair(
    thread: &Thread,
    first: Arc<OpenFile>,
    second: Arc<OpenFile>,
    out: u64,
    close_on_exec: bool,
) -> Outcome {
    let files = thread.process().files();
    let first = install(thread, first, close_on_exec)?;
    let second = match install(thread, second, close_on_exec) {
        Err(error) => {
            drop(files.table().remove(first));
            return Err(error);
        }
        Ok(second) => second,
    };
    let mut pair = [0; 8];
    pair[..4].copy_from_slice(&first.to_le_bytes());
    pair[4..].copy_from_slice(&second.to_le_bytes());
    if let Err(error) = thread.copy_out(out, &pair).await {
        drop(files.table().remove(first));
        drop(files.table().remove(second));
        return Err(error);
    }
    Ok(0)
}

/// `fcntl(fd, command, argument)`.
pub async fn fcntl(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    match fcntl_at_once(thread, a) {
        Some(outcome) => outcome,
        None => match a.unsigned(1) {
            raw::F_SETOWN_EX => owner::set_extended(thread, a).await,
            raw::F_GETOWN_EX => owner::get_extended(thread, a).await,
            _ => super::lock::fcntl_lock(thread, a).await,
        },
    }
}

/// `fcntl` but for locks.
pub fn fcntl_at_once(thread: &Arc<Thread>, a: Arguments) -> Option<Outcome> {
    is_known(a.unsigned(1)).then(|| change(thread, a))
}

fn is_known(command: u32) -> bool {
    matches!(
        command,
        raw::F_DUPFD
            | raw::F_DUPFD_CLOEXEC
            | raw::F_GETFD
            | raw::F_SETFD
            | raw::F_GETFL
            | raw::F_SETFL
            | raw::F_SETOWN
            | raw::F_GETOWN
            | raw::F_SETSIG
            | raw::F_GETSIG
            | raw::F_SETPIPE_SZ
            | raw::F_GETPIPE_SZ
    )
}

fn change(thread: &Thread, a: Arguments) -> Outcome {
    let (descriptor, command) = (a.int(0), a.unsigned(1));
    let files = thread.process().files();
    let table = files.table();
    match command {
        raw::F_DUPFD | raw::F_DUPFD_CLOEXEC => {
            duplicate_from(thread, descriptor, a.int(2), command == raw::F_DUPFD_CLOEXEC)
        }
        raw::F_GETFD => Ok(if table.closes_on_exec(descriptor)? { u64::from(raw::FD_CLOEXEC) } else { 0 }),
        raw::F_SETFD => {
            table.set_close_on_exec(descriptor, a.unsigned(2) & raw::FD_CLOEXEC != 0)?;
            Ok(0)
        }
        raw::F_GETFL => Ok(u64::from(file_of(thread, descriptor)?.flags() | raw::O_LARGEFILE)),
        raw::F_SETFL => {
            let (file, flags) = (usable_file(thread, descriptor)?, a.unsigned(2) & STATUS_FLAGS);
            if flags & raw::O_DIRECT != 0 && !file.may_be_direct() {
                return Err(Errno::EINVAL);
            }
            file.set_flags(flags);
            file.follow_async(thread, descriptor);
            Ok(0)
        }
        raw::F_SETOWN => owner::name(thread, &*usable_file(thread, descriptor)?, a.int(2)),
        raw::F_GETOWN => Ok(owner::number_of(&*usable_file(thread, descriptor)?) as i64 as u64),
        raw::F_SETSIG => owner::choose_signal(&*usable_file(thread, descriptor)?, a.int(2)),
        raw::F_GETSIG => Ok(usable_file(thread, descriptor)?.owner().signal as u64),
        raw::F_SETPIPE_SZ | raw::F_GETPIPE_SZ => pipe_size(thread, descriptor, command, a.int(2)),
        _ => Err(Errno::EINVAL),
    }
}

fn duplicate_from(thread: &Thread, descriptor: i32, lowest: i32, close_on_exec: bool) -> Outcome {
    let file = file_of(thread, descriptor)?;
    let limit = thread.process().limit(raw::RLIMIT_NOFILE);
    let lowest = usize::try_from(lowest).ok().filter(|lowest| (*lowest as u64) < limit).ok_or(Errno::EINVAL)?;
    answer(thread.process().files().table().install(file, close_on_exec, lowest, limit)?)
}

fn pipe_size(thread: &Thread, descriptor: i32, command: u32, bytes: i32) -> Outcome {
    let file = usable_file(thread, descriptor)?;
    let Object::Pipe(end) = file.object() else {
        return Err(Errno::EBADF);
    };
    if command == raw::F_GETPIPE_SZ {
        return Ok(end.capacity() as u64);
    }
    let bytes = usize::try_from(bytes).map_err(|_| Errno::EINVAL)?;
    Ok(end.set_capacity(bytes)? as u64)
}
