//! RLIMIT_FSIZE: no file is made longer than that, and nothing is written behind it (setrlimit(2)).
//!
//! A process without a limit pays a load for it. One with a limit writes by the forms that wait: those at once leave such writes alone.

use super::object::Object;
use super::open_file::OpenFile;
use crate::signal::info::SI_KERNEL;
use crate::signal::{SignalInfo, number};
use crate::task::limits::INFINITE;
use crate::{Errno, Process, Thread};

/// Returns whether the caller's files have no largest size.
pub(in crate::file) fn is_free(thread: &Thread) -> bool {
    thread.process().file_bytes_max() == INFINITE
}

/// Returns how many of `bytes` at `offset` of a regular file the caller may write.
///
/// # Errors
/// EFBIG, with SIGXFSZ, for a file that is as long as may be.
pub(in crate::file) fn permitted(thread: &Thread, offset: u64, bytes: usize) -> Result<usize, Errno> {
    permitted_to(thread.process(), offset, bytes)
}

/// How many of `bytes` at `offset` of a regular file a process may write.
///
/// # Errors
/// As [`permitted`].
pub(in crate::file) fn permitted_to(process: &Process, offset: u64, bytes: usize) -> Result<usize, Errno> {
    let max = process.file_bytes_max();
    let room = usize::try_from(max.saturating_sub(offset)).unwrap_or(usize::MAX);
    match bytes.min(room) {
        0 if bytes > 0 => Err(exceeded(process)),
        permitted => Ok(permitted),
    }
}

/// Returns how many of `bytes` at `offset`, or at the position, the caller may write; a regular file's size is
/// limited.
///
/// # Errors
/// As [`permitted`].
pub(in crate::file) fn permitted_in(
    thread: &Thread,
    file: &OpenFile,
    offset: Option<u64>,
    bytes: usize,
) -> Result<usize, Errno> {
    match file.object() {
        Object::Regular => permitted(thread, offset.unwrap_or_else(|| file.position.peek()), bytes),
        _ => Ok(bytes),
    }
}

/// Refuses to make a file of `now` bytes longer than the limit.
///
/// # Errors
/// EFBIG, with SIGXFSZ.
pub(in crate::file) fn check_growth(thread: &Thread, now: u64, wanted: u64) -> Result<(), Errno> {
    match wanted > now && wanted > thread.process().file_bytes_max() {
        true => Err(exceeded(thread.process())),
        false => Ok(()),
    }
}

fn exceeded(process: &Process) -> Errno {
    // One that waits already says the same.
    let _ = process.send(SignalInfo::new(number::SIGXFSZ, SI_KERNEL));
    Errno::EFBIG
}
