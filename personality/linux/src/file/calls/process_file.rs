//! Calls on descriptors of processes: pidfd_open, pidfd_send_signal, pidfd_getfd.

use super::{answer, file_of, install};
use crate::file::filesystem::FileSystem;
use crate::file::object::Object;
use crate::file::open_file::OpenFile;
use crate::file::process_file::ProcessFile;
use crate::ptrace::access::{Look, may_look_into};
use crate::{Arguments, Errno, Outcome, Process, Thread};
use alloc::sync::Arc;
use linux_raw_sys::general as raw;

/// PIDFD_NONBLOCK.
const NONBLOCK: u32 = raw::O_NONBLOCK;

/// `pidfd_open(pid, flags)`: the number of a process, not of another thread.
pub fn pidfd_open(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let (id, flags) = (a.int(0), a.unsigned(1));
    if flags & !NONBLOCK != 0 || id <= 0 {
        return Err(Errno::EINVAL);
    }
    let (process, is_thread) = {
        let tree = thread.tenant().tree.lock();
        (tree.process(id), tree.thread(id).is_some())
    };
    let missing = if is_thread { Errno::EINVAL } else { Errno::ESRCH };
    answer(open(thread, &process.ok_or(missing)?, flags)?)
}

/// Gives the caller a descriptor of a process, which does not outlive exec.
///
/// # Errors
/// EMFILE; ENFILE.
pub(crate) fn open(thread: &Thread, process: &Arc<Process>, flags: u32) -> Result<i32, Errno> {
    let files = thread.process().files();
    let object = Object::Process(ProcessFile::new(process));
    let file = OpenFile::new(files.tenant(), object, raw::O_RDWR | flags & NONBLOCK, None)?;
    install(thread, file, true)
}

/// Returns the process of a descriptor.
///
/// # Errors
/// EBADF if it is a descriptor of something else; ESRCH if the process has been waited for.
pub(crate) fn process_of(thread: &Thread, descriptor: i32) -> Result<Arc<Process>, Errno> {
    let file = file_of(thread, descriptor)?;
    let Object::Process(process) = file.object() else {
        return Err(Errno::EBADF);
    };
    process.process(thread).ok_or(Errno::ESRCH)
}

/// As [`process_of`]; a process' directory in /proc stands for the process, too (pidfd_send_signal(2)).
fn target_of(thread: &Thread, descriptor: i32) -> Result<Arc<Process>, Errno> {
    let file = file_of(thread, descriptor)?;
    let place = file.place().filter(|_| matches!(file.object(), Object::Directory));
    let id = place.and_then(|place| match &place.mount.system {
        FileSystem::Proc(proc) => proc.process_of(place.node),
        FileSystem::Served(_) => None,
    });
    match id {
        Some(id) => thread.tenant().tree.lock().process(id).ok_or(Errno::ESRCH),
        None => process_of(thread, descriptor),
    }
}

/// `pidfd_send_signal(pidfd, signal, info, flags)`.
pub async fn pidfd_send_signal(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    if a.unsigned(3) != 0 {
        return Err(Errno::EINVAL);
    }
    let target = target_of(thread, a.int(0))?;
    crate::signal::calls::send_to_process(thread, &target, a.int(1), a.word(2)).await
}

/// `pidfd_getfd(pidfd, descriptor, flags)`: a copy of another process' descriptor, for whoever may look into it (ptrace(2)).
pub fn pidfd_getfd(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    if a.unsigned(2) != 0 {
        return Err(Errno::EINVAL);
    }
    let target = process_of(thread, a.int(0))?;
    if target.is_ending() {
        return Err(Errno::ESRCH);
    }
    let files = target.files();
    let file = files.table().get(a.int(1));
    // A program that takes the process over just now is another one.
    if !may_look_into(thread, &target, Look::Call) || !Arc::ptr_eq(&files, &target.files()) {
        return Err(Errno::EPERM);
    }
    let file = file?;
    answer(install(thread, file, true)?)
}
