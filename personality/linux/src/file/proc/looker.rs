//! Those who look into /proc, and their right to look into a process (ptrace(2), "Ptrace access mode checking").
//!
//! Whoever looks takes a [`ProcessView`] first and asks then. execve changes a process's rights before its files and its memory, and these before its
//! [`Program`](crate::process::Program); a view takes them the other way round. So if the answer is yes and the program still is the one of the view,
//! then all of the view belongs to what was asked about.

use super::view::ProcessView;
use crate::ptrace::access::{Look, may_look_into};
use crate::{Process, Thread};
use alloc::sync::Arc;
use gyre_interface::files::FileError;

/// Somebody who looks.
#[derive(Clone, Copy)]
pub enum Looker<'a> {
    /// A thread, with its rights to files.
    Thread(&'a Thread),
    /// The machine's owner, who sees everything and is no process.
    Owner,
}

impl Looker<'_> {
    /// Returns whether it may look into a process as that is now.
    pub(super) fn may_look_into(self, process: &Process) -> bool {
        match self {
            Looker::Thread(thread) => may_look_into(thread, process, Look::File),
            Looker::Owner => true,
        }
    }

    /// Refuses to show what a view has taken of a process.
    ///
    /// # Errors
    /// Denied, also if another program takes the process over just now; NotFound.
    pub(super) fn check(self, view: &ProcessView) -> Result<(), FileError> {
        let process = view.of.as_ref().ok_or(FileError::NotFound)?;
        let may = self.may_look_into(process) && Arc::ptr_eq(&view.program, &process.program.lock());
        may.then_some(()).ok_or(FileError::Denied)
    }

    /// Returns whether it is a thread of a process.
    pub(super) fn is_of(self, process: i32) -> bool {
        matches!(self, Looker::Thread(thread) if thread.process().id() == process)
    }
}
