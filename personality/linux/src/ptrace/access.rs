//! The right to look into a process (ptrace(2), "Ptrace access mode checking").
//!
//! A process that changed its user or group, or runs a program that gained rights or that its user may not read, does not show itself: it may hold what
//! its user may not have. One with more capabilities than the looker is out of reach, too.
//!
//! Whoever looks takes first what it looks at, and asks then: a new program has its rights before it has its memory and its files.

use crate::credentials::{Capability, Credentials};
use crate::{Process, Thread};
use core::sync::atomic::Ordering;

/// The way to look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Look {
    /// By a call, as the real user, with all that the caller could take up (PTRACE_MODE_REALCREDS).
    Call,
    /// By a file of /proc, as the user of files, with all that it uses (PTRACE_MODE_FSCREDS).
    File,
}

/// A tracer's right, as it was when the bond was tied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Right {
    /// It may look into everybody: its tracee may gain rights.
    All,
    /// Into processes of its own rights.
    Own,
}

impl Right {
    /// Returns that of credentials.
    pub(crate) fn of(who: &Credentials) -> Right {
        if who.has(Capability::SysPtrace) { Right::All } else { Right::Own }
    }
}

/// Returns whether a thread may look into a process, as its first thread's credentials have it.
pub(crate) fn may_look_into(thread: &Thread, target: &Process, look: Look) -> bool {
    may(thread, target, &target.credentials(), look)
}

/// Returns whether a thread may trace another one, or move its memory.
pub(crate) fn may_trace(thread: &Thread, target: &Thread) -> bool {
    may(thread, target.process(), &target.credentials(), Look::Call)
}

fn may(thread: &Thread, target: &Process, other: &Credentials, look: Look) -> bool {
    let own = thread.credentials();
    if target.id() == thread.process().id() || Right::of(&own) == Right::All {
        return true;
    }
    let (user, group, capabilities) = match look {
        Look::Call => (own.user, own.group, own.capabilities.permitted),
        Look::File => (own.user_of_files, own.group_of_files, own.capabilities.effective),
    };
    [other.user, other.user_effective, other.user_saved].iter().all(|theirs| *theirs == user)
        && [other.group, other.group_effective, other.group_saved].iter().all(|theirs| *theirs == group)
        && shows_itself(target)
        && other.capabilities.permitted.is_within(capabilities)
}

/// Returns whether a process shows itself to others of its user (PR_GET_DUMPABLE is 1).
pub(crate) fn shows_itself(process: &Process) -> bool {
    process.dumpable.load(Ordering::Acquire) == 1
}

/// Returns whether a parent may become the tracer of a child that wants that (TRACEME).
pub(crate) fn may_be_tracer(parent: &Process, child: &Credentials) -> bool {
    parent.with_credentials(|parent| {
        child.capabilities.permitted.is_within(parent.capabilities.permitted) || Right::of(parent) == Right::All
    })
}

/// Returns whether a thread may gain rights by a new program: only if its tracer, if it has one, may look into everybody.
pub(crate) fn may_gain_rights(thread: &Thread) -> bool {
    thread.tracee.bond().is_none_or(|bond| bond.right == Right::All)
}
