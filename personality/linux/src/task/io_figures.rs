//! Reads and writes of threads and processes, for /proc/PID/io (proc(5)).
//!
//! Each call that reads or writes is counted once, when it answers ([`count`]), by its thread alone: plain loads and stores in a line of cache
//! of its own. Bytes of disks and of files that became dirty are the kernel's figures of the process's activity
//! ([`crate::tenant::KernelServices::consumption`]).
//!
//! A process's figures are those of its threads, of threads that have ended, and of children that it has waited for, as on Linux
//! (`wait_task_zombie` adds them to `signal->ioac`). Bytes of files are not known by thread.
//!
//! Pages of a file without a name are dropped by a commit of its file system, after its last close: these cancel nobody's bytes, while
//! Linux cancels those of the process that closed it.
//!
//! Left out, as on Linux: sockets' own calls (send, recv), splice, aio and io_uring. Linux also counts what execve reads of a program; we do not.

use crate::{Errno, Outcome, Process, Thread};
use alloc::format;
use alloc::string::String;
use core::sync::atomic::{AtomicU64, Ordering};

/// Figures of a thread or process, or their sum.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct IoFigures {
    /// Bytes that calls read.
    pub read_chars: u64,
    /// Bytes that calls wrote.
    pub written_chars: u64,
    /// Calls that read.
    pub read_calls: u64,
    /// Calls that wrote.
    pub write_calls: u64,
    /// Bytes asked from disks.
    pub read_bytes: u64,
    /// Bytes sent to disks, or to be sent: pages of files that became dirty.
    pub written_bytes: u64,
    /// Of these, bytes that will not be sent: dirty pages that it dropped.
    pub cancelled_bytes: u64,
}

impl IoFigures {
    /// Returns the sum of two.
    #[must_use]
    pub fn plus(self, other: IoFigures) -> IoFigures {
        self.combined(other, u64::saturating_add)
    }

    /// Returns what `by` makes of each figure of two.
    #[must_use]
    pub(crate) fn combined(self, other: IoFigures, by: fn(u64, u64) -> u64) -> IoFigures {
        IoFigures {
            read_chars: by(self.read_chars, other.read_chars),
            written_chars: by(self.written_chars, other.written_chars),
            read_calls: by(self.read_calls, other.read_calls),
            write_calls: by(self.write_calls, other.write_calls),
            read_bytes: by(self.read_bytes, other.read_bytes),
            written_bytes: by(self.written_bytes, other.written_bytes),
            cancelled_bytes: by(self.cancelled_bytes, other.cancelled_bytes),
        }
    }
}

/// Returns the text of /proc/PID/io.
pub(crate) fn text(io: IoFigures) -> String {
    let files = [
        ("read_bytes", io.read_bytes),
        ("write_bytes", io.written_bytes),
        ("cancelled_write_bytes", io.cancelled_bytes),
    ];
    let lines: String = files.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
    [call_lines(io), lines].concat()
}

fn call_lines(io: IoFigures) -> String {
    format!(
        "rchar: {}\nwchar: {}\nsyscr: {}\nsyscw: {}\n",
        io.read_chars, io.written_chars, io.read_calls, io.write_calls
    )
}

/// A thread's counts of calls, which its own task writes.
#[derive(Default)]
#[repr(align(64))]
pub(crate) struct CallCounts {
    read_chars: AtomicU64,
    written_chars: AtomicU64,
    read_calls: AtomicU64,
    write_calls: AtomicU64,
}

fn add(to: &AtomicU64, amount: u64) {
    to.store(to.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
}

impl CallCounts {
    fn count_read(&self, bytes: u64) {
        add(&self.read_chars, bytes);
        add(&self.read_calls, 1);
    }

    fn count_written(&self, bytes: u64) {
        add(&self.written_chars, bytes);
        add(&self.write_calls, 1);
    }

    /// Returns the counts so far, without bytes of disks.
    pub(crate) fn figures(&self) -> IoFigures {
        let [read_chars, written_chars, read_calls, write_calls] =
            [&self.read_chars, &self.written_chars, &self.read_calls, &self.write_calls]
                .map(|count| count.load(Ordering::Relaxed));
        IoFigures { read_chars, written_chars, read_calls, write_calls, ..IoFigures::default() }
    }
}

/// Counts a call that has answered, if it is one of those that Linux counts. Called by the thread's own task, for each call.
#[inline]
pub(crate) fn count(thread: &Thread, number: u64, outcome: Outcome) {
    // pread64, pwrite64, readv, writev; preadv, pwritev, and the same with flags.
    let is_read = matches!(number, 0 | 17 | 19 | 295 | 327);
    if is_read || matches!(number, 1 | 18 | 20 | 296 | 328) {
        count_one(&thread.call_counts, is_read, outcome);
    } else if matches!(number, 40 | 326) {
        count_copy(&thread.call_counts, outcome);
    }
}

/// Returns the bytes of a call that came as far as its file; `None` for one that was refused before.
fn moved(outcome: Outcome) -> Option<u64> {
    match outcome {
        Ok(bytes) => Some(bytes),
        Err(Errno::EBADF | Errno::EINVAL | Errno::ESPIPE) => None,
        Err(_) => Some(0),
    }
}

fn count_one(counts: &CallCounts, is_read: bool, outcome: Outcome) {
    match moved(outcome) {
        Some(bytes) if is_read => counts.count_read(bytes),
        Some(bytes) => counts.count_written(bytes),
        None => {}
    }
}

/// sendfile and copy_file_range read and write.
fn count_copy(counts: &CallCounts, outcome: Outcome) {
    if let Some(bytes) = moved(outcome) {
        counts.count_read(bytes);
        counts.count_written(bytes);
    }
}

impl Process {
    /// Returns what it read and wrote so far, with threads that have ended and children that it has waited for.
    pub fn io_figures(&self) -> IoFigures {
        self.own_io().plus(self.children_used.lock().io)
    }

    /// Returns what its own threads read and wrote.
    pub(crate) fn own_io(&self) -> IoFigures {
        let Some(used) = self.used_so_far() else { return self.used().io };
        let threads = self.threads.lock();
        let ended = self.io_of_ended.lock().unwrap_or_default();
        threads.iter().fold(ended.plus(used.io), |sum, thread| sum.plus(thread.call_counts.figures()))
    }

    /// Notes that a thread has ended. The caller holds the lock of all threads.
    pub(crate) fn note_io_of_ended(&self, thread: &Thread) {
        let mut ended = self.io_of_ended.lock();
        *ended = Some(ended.unwrap_or_default().plus(thread.call_counts.figures()));
    }

    /// Returns whether its process has never had another thread, so that the process's bytes of disks and files are its own.
    fn has_one_thread_ever(&self) -> bool {
        self.threads.lock().len() == 1 && self.io_of_ended.lock().is_none()
    }
}

impl Thread {
    /// Returns the text of /proc/PID/task/TID/io, without the bytes of disks and files if they may be another thread's.
    pub(crate) fn io_text(&self) -> String {
        let calls = self.call_counts.figures();
        if !self.process().has_one_thread_ever() {
            return call_lines(calls);
        }
        text(calls.plus(self.process().used().io))
    }
}
