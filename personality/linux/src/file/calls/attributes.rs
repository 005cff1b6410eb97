//! chmod, chown, utimensat and their families.
//!
//! Each finds its node by path or descriptor, checks the rights of chmod(2), chown(2) and utimensat(2), sends one
//! change to the file system, and tells the watches. Mode bits that a change of owner must clear are cleared here.
//!
//! * Owners change mode and times. CAP_FOWNER stands for the owner, CAP_CHOWN alone gives files away.
//! * A time before 1970 or behind the last second of ext2 becomes the nearest that can be kept, as on Linux.
//! * A path is walked with the caller's rights; a descriptor needs none of its own, since O_PATH opens without any.

use super::file_of;
use crate::credentials::Capability;
use crate::file::buffer::word;
use crate::file::context::Target;
use crate::file::permission::{Asker, WRITE};
use crate::file::walk::Found;
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::sync::Arc;
use gyre_interface::files::{AttributeChange, NodeKind};
use linux_raw_sys::general as raw;

pub(super) async fn node_at(thread: &Thread, directory: i32, path: u64, flags: u32) -> Result<Found, Errno> {
    let path = thread.read_path(path).await?;
    let target = thread.process().files().find(thread, directory, &path, flags).await?;
    target.node(Errno::EPERM)
}

pub(super) async fn node_of(thread: &Thread, descriptor: i32) -> Result<Found, Errno> {
    let file = super::usable_file(thread, descriptor)?;
    Target::of_file(file).await?.node(Errno::EPERM)
}

async fn apply(thread: &Thread, found: &Found, change: AttributeChange) -> Outcome {
    let event = event_of(&change);
    found.place.system().set_attributes(found.place.node, change).await?;
    tell(thread, found, event);
    Ok(0)
}

/// Returns inotify's event for a change.
fn event_of(change: &AttributeChange) -> u32 {
    match (change.accessed_ns, change.modified_ns) {
        (Some(_), None) => raw::IN_ACCESS,
        (None, Some(_)) => raw::IN_MODIFY,
        _ => raw::IN_ATTRIB,
    }
}

/// Tells the watches on a node and on its directory.
pub(super) fn tell(thread: &Thread, found: &Found, event: u32) {
    let bit = if found.attributes.kind == NodeKind::Directory { raw::IN_ISDIR } else { 0 };
    thread.process().files().tenant().notices.about(found.place.key(), &found.path, event | bit);
}

/// `chmod(path, mode)`.
pub async fn chmod(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let found = node_at(thread, raw::AT_FDCWD, a.word(0), 0).await?;
    change_mode(thread, found, a.unsigned(1)).await
}

/// `fchmod(fd, mode)`.
pub async fn fchmod(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let found = node_of(thread, a.int(0)).await?;
    change_mode(thread, found, a.unsigned(1)).await
}

/// `fchmodat(directory, path, mode)`.
pub async fn fchmodat(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let found = node_at(thread, a.int(0), a.word(1), 0).await?;
    change_mode(thread, found, a.unsigned(2)).await
}

async fn change_mode(thread: &Thread, found: Found, mode: u32) -> Outcome {
    let asker = Asker::of(thread);
    if !asker.owns(&found.attributes) {
        return Err(Errno::EPERM);
    }
    if found.attributes.kind == NodeKind::SymbolicLink {
        return Err(Errno::EOPNOTSUPP);
    }
    let mut mode = (mode & 0o7777) as u16;
    if !asker.has(Capability::Fsetid) && !asker.in_group(found.attributes.group) {
        mode &= !0o2000;
    }
    let change = AttributeChange { mode: Some(mode), ..AttributeChange::default() };
    apply(thread, &found, change).await
}

/// `chown(path, user, group)`.
pub async fn chown(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let found = node_at(thread, raw::AT_FDCWD, a.word(0), 0).await?;
    change_owner(thread, found, a.unsigned(1), a.unsigned(2)).await
}

/// `lchown(path, user, group)`.
pub async fn lchown(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let found = node_at(thread, raw::AT_FDCWD, a.word(0), raw::AT_SYMLINK_NOFOLLOW).await?;
    change_owner(thread, found, a.unsigned(1), a.unsigned(2)).await
}

/// `fchown(fd, user, group)`.
pub async fn fchown(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let found = node_of(thread, a.int(0)).await?;
    change_owner(thread, found, a.unsigned(1), a.unsigned(2)).await
}

/// `fchownat(directory, path, user, group, flags)`.
pub async fn fchownat(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    if a.unsigned(4) & !(raw::AT_SYMLINK_NOFOLLOW | raw::AT_EMPTY_PATH) != 0 {
        return Err(Errno::EINVAL);
    }
    let found = node_at(thread, a.int(0), a.word(1), a.unsigned(4)).await?;
    change_owner(thread, found, a.unsigned(2), a.unsigned(3)).await
}

/// Changes owner and group; -1 leaves one as it is. Only CAP_CHOWN allows giving files away; owners may choose among
/// their groups.
async fn change_owner(thread: &Thread, found: Found, user: u32, group: u32) -> Outcome {
    let asker = Asker::of(thread);
    let user = Some(user).filter(|user| *user != u32::MAX);
    let group = Some(group).filter(|group| *group != u32::MAX);
    let keeps_user = user.is_none_or(|user| user == found.attributes.user);
    let own_group = group.is_none_or(|group| asker.in_group(group) || group == found.attributes.group);
    let is_own = asker.user == found.attributes.user;
    if !asker.has(Capability::Chown) && !(is_own && keeps_user && own_group) {
        return Err(Errno::EPERM);
    }
    let mode = found.attributes.mode;
    let drops_rights = found.attributes.kind == NodeKind::File && mode & 0o6000 != 0;
    let change =
        AttributeChange { user, group, mode: drops_rights.then_some(mode & !0o6000), ..AttributeChange::default() };
    apply(thread, &found, change).await
}

/// The last second that ext2 can keep with inodes of 256 bytes: 10 May 2446.
const SECONDS_MAX: i64 = (1 << 34) - (1 << 31) - 1;

/// New times: unchanged, now, or a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stamp {
    Keep,
    Now,
    At(u64),
}

impl Stamp {
    /// Reads a `struct timespec` with UTIME_NOW and UTIME_OMIT.
    fn parse(seconds: u64, nanoseconds: u64) -> Result<Stamp, Errno> {
        const NOW: u64 = raw::UTIME_NOW as u64;
        const OMIT: u64 = raw::UTIME_OMIT as u64;
        match nanoseconds {
            NOW => Ok(Stamp::Now),
            OMIT => Ok(Stamp::Keep),
            0..1_000_000_000 => Ok(Stamp::At(Stamp::within(seconds.cast_signed(), nanoseconds))),
            _ => Err(Errno::EINVAL),
        }
    }

    /// Returns the nearest time that file systems here can keep, ns since 1970, as Linux does by s_time_min and s_time_max (utimensat(2)).
    fn within(seconds: i64, nanoseconds: u64) -> u64 {
        match seconds {
            ..0 => 0,
            SECONDS_MAX.. => SECONDS_MAX.unsigned_abs().saturating_mul(1_000_000_000),
            _ => seconds.unsigned_abs().saturating_mul(1_000_000_000).saturating_add(nanoseconds),
        }
    }

    fn value(self) -> Option<u64> {
        match self {
            Stamp::Keep => None,
            Stamp::Now => Some(gyre_machine::wall_clock_ns()),
            Stamp::At(ns) => Some(ns),
        }
    }
}

/// `utimensat(directory, path, times, flags)`; without a path, the descriptor's file.
pub async fn utimensat(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let stamps = match a.word(2) {
        0 => (Stamp::Now, Stamp::Now),
        address => {
            let times = thread.read_vec(address, 32).await?;
            (Stamp::parse(word(&times, 0), word(&times, 8))?, Stamp::parse(word(&times, 16), word(&times, 24))?)
        }
    };
    let found = match a.word(1) {
        0 => Target::of_file(file_of(thread, a.int(0))?).await?.node(Errno::EINVAL)?,
        path => node_at(thread, a.int(0), path, a.unsigned(3)).await?,
    };
    change_times(thread, found, stamps).await
}

/// `utimes(path, times)`.
pub async fn utimes(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    futimes(thread, raw::AT_FDCWD, a.word(0), a.word(1)).await
}

/// `futimesat(directory, path, times)`.
pub async fn futimesat(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    futimes(thread, a.int(0), a.word(1), a.word(2)).await
}

async fn futimes(thread: &Thread, directory: i32, path: u64, times: u64) -> Outcome {
    let stamps = match times {
        0 => (Stamp::Now, Stamp::Now),
        address => {
            let times = thread.read_vec(address, 32).await?;
            let ns = |at: usize| Some(word(&times, at)).filter(|us| *us < 1_000_000).map(|us| us.saturating_mul(1000));
            let accessed = Stamp::parse(word(&times, 0), ns(8).ok_or(Errno::EINVAL)?)?;
            (accessed, Stamp::parse(word(&times, 16), ns(24).ok_or(Errno::EINVAL)?)?)
        }
    };
    let found = node_at(thread, directory, path, 0).await?;
    change_times(thread, found, stamps).await
}

/// `utime(path, times)`: whole seconds.
pub async fn utime(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let stamps = match a.word(1) {
        0 => (Stamp::Now, Stamp::Now),
        address => {
            let times = thread.read_vec(address, 16).await?;
            (Stamp::parse(word(&times, 0), 0)?, Stamp::parse(word(&times, 8), 0)?)
        }
    };
    let found = node_at(thread, raw::AT_FDCWD, a.word(0), 0).await?;
    change_times(thread, found, stamps).await
}

/// Changes times: owners set any time; other callers with the right to write set both to now.
async fn change_times(thread: &Thread, found: Found, stamps: (Stamp, Stamp)) -> Outcome {
    let asker = Asker::of(thread);
    if stamps == (Stamp::Keep, Stamp::Keep) {
        return Ok(0);
    }
    if !asker.owns(&found.attributes) {
        if stamps != (Stamp::Now, Stamp::Now) {
            return Err(Errno::EPERM);
        }
        asker.check(&found.attributes, WRITE)?;
    }
    let change =
        AttributeChange { accessed_ns: stamps.0.value(), modified_ns: stamps.1.value(), ..AttributeChange::default() };
    apply(thread, &found, change).await
}
