//! The right to look into a process (ptrace(2), "Ptrace access mode checking").

use crate::credentials::Capability;
use crate::{Process, Thread};
use core::sync::atomic::Ordering;

/// Returns whether a thread may look into a process: its own, one of the same user that gained no rights, or any with CAP_SYS_PTRACE.
pub(crate) fn may_look_into(thread: &Thread, target: &Process) -> bool {
    let (own, other) = (thread.credentials(), target.credentials());
    let same_user = [other.user, other.user_effective, other.user_saved].iter().all(|user| *user == own.user);
    let same_group = [other.group, other.group_effective, other.group_saved].iter().all(|group| *group == own.group);
    let shows_itself = target.dumpable.load(Ordering::Relaxed) == 1;
    target.id() == thread.process().id() || own.has(Capability::SysPtrace) || same_user && same_group && shows_itself
}

/// Returns whether a traced thread may gain rights by a new program: only if its tracer may look into everybody.
pub(crate) fn may_gain_rights(thread: &Thread) -> bool {
    let tracer = thread.tracee.tracer();
    tracer.is_none_or(|tracer| tracer.with_credentials(|who| who.has(Capability::SysPtrace)))
}
