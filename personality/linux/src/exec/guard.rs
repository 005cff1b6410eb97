//! Keeps tracers away from a process while it takes a new program: the rights that the program gets depend on whether the process is traced.
//!
//! A program counts from before its rights are decided until the process has them. Meanwhile nobody is tied to a thread of the process; who wants to
//! waits. The death of the thread that takes the program ends that too. Source: Linux' `cred_guard_mutex` (fs/exec.c, kernel/ptrace.c).

use crate::{Process, Thread};
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use gyre_message::WaitQueue;
use gyre_object::TenantLock;

/// See the module; a part of each process.
pub(crate) struct ExecGuard {
    /// Threads that take a program: several may, until one of them ends the others.
    count: TenantLock<u32>,
    changed: WaitQueue,
}

impl Default for ExecGuard {
    fn default() -> Self {
        ExecGuard { count: TenantLock::new(0), changed: WaitQueue::new() }
    }
}

/// A program that is taken, until this is dropped.
pub(crate) struct Executing(Arc<Process>);

impl Executing {
    /// Begins for the thread's process.
    pub(crate) fn begin(thread: &Thread) -> Executing {
        let process = thread.process().clone();
        let mut count = process.exec_guard.count.lock();
        *count = count.saturating_add(1);
        drop(count);
        Executing(process)
    }
}

impl Drop for Executing {
    fn drop(&mut self) {
        let guard = &self.0.exec_guard;
        let mut count = guard.count.lock();
        *count = count.saturating_sub(1);
        drop(count);
        guard.changed.wake_all();
    }
}

/// The end of all other threads of a process by one that takes a program, until this is dropped. One thread at a time does that; a thread that is
/// added meanwhile ends at once ([`Process::add_thread`]).
pub(crate) struct Takeover(Arc<Process>);

impl Takeover {
    /// Begins it; nothing if another thread does it.
    pub(crate) fn begin(thread: &Thread) -> Option<Takeover> {
        let process = thread.process().clone();
        let is_first = !process.is_taken_over.swap(true, Ordering::AcqRel);
        is_first.then(|| Takeover(process))
    }
}

impl Drop for Takeover {
    fn drop(&mut self) {
        self.0.is_taken_over.store(false, Ordering::Release);
    }
}

impl ExecGuard {
    /// Does something short once no program is being taken; none is taken meanwhile.
    pub(crate) async fn once_free<T>(&self, mut act: impl FnMut() -> T) -> T {
        self.changed
            .until(|| {
                let count = self.count.lock();
                (*count == 0).then(&mut act)
            })
            .await
    }
}
