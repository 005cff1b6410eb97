//! The calls on descriptors and names, a file per family.

pub mod aio;
mod attempts;
pub mod attributes;
pub mod channel;
pub mod descriptors;
pub mod directories;
pub mod epoll;
pub mod extended;
pub mod flow;
mod interface;
pub mod ioctl;
pub mod links;
pub mod lock;
pub mod message;
pub mod moving;
pub mod names;
pub mod open;
mod owner;
pub mod poll;
pub mod process_file;
pub mod read_write;
pub mod seek;
pub mod select;
pub mod socket;
pub mod socket_options;
pub mod space;
pub mod special;
pub mod stat;
pub mod sync;
mod terminal;
pub mod timer;
pub mod uring;
pub(super) mod watched;

use self::attempts::Attempts;
use super::open_file::OpenFile;
use crate::{Errno, Outcome, Thread};
use alloc::sync::Arc;
use linux_raw_sys::general as raw;

/// Returns the open file of a descriptor.
fn file_of(thread: &Thread, descriptor: i32) -> Result<Arc<OpenFile>, Errno> {
    thread.process().open_file(descriptor)
}

/// Returns the open file as [`file_of`] does, for calls that need more than a name (not O_PATH).
fn usable_file(thread: &Thread, descriptor: i32) -> Result<Arc<OpenFile>, Errno> {
    let file = file_of(thread, descriptor)?;
    if file.is_path_only() { Err(Errno::EBADF) } else { Ok(file) }
}

/// Gives a new open file the lowest descriptor.
fn install(thread: &Thread, file: Arc<OpenFile>, close_on_exec: bool) -> Result<i32, Errno> {
    let limit = thread.process().limit(raw::RLIMIT_NOFILE);
    thread.process().files().table().install(file, close_on_exec, 0, limit)
}

/// Gives a new open file the lowest descriptor, which execve closes; answers it as a call does.
///
/// # Errors
/// EMFILE.
pub(crate) fn answer_with(thread: &Thread, file: Arc<OpenFile>) -> Outcome {
    answer(install(thread, file, true)?)
}

/// Returns a descriptor as a call's answer.
fn answer(descriptor: i32) -> Outcome {
    Ok(u64::from(descriptor.unsigned_abs()))
}

/// Returns whether a call of this thread may wait for this file.
fn may_wait(thread: &Thread, file: &OpenFile) -> bool {
    !file.is_nonblocking() || thread.is_worker()
}
