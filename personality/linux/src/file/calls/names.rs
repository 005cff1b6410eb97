//! Making and removing names: mkdir, rmdir, unlink, rename, mknod.
//!
//! Each call walks to the parent directory, checks write and sticky rights there, sends one request to the file
//! system, and tells the watches (inotify). A name that goes between walk and request makes the call start again
//! ([`crate::file::walk::retry_stale`]). Names of a mount's root and across file systems are refused (EBUSY, EXDEV).
//!
//! Permissions are checked on the attributes that the walk has brought; the file system checks again that names are
//! what they were. Watches are told after the request, with the paths of the walk.
//!
//! RENAME_WHITEOUT is refused. A rename of a name to another one of the same node does nothing and succeeds
//! (rename(2)).

use super::open::new_node;
use crate::credentials::Capability;
use crate::file::attributes::kind_of_mode;
use crate::file::permission::{Asker, EXECUTE, WRITE};
use crate::file::walk::{Found, LastLink, Walked};
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_interface::files::{Attributes, NewNode, NodeKind, RenameMode};
use linux_raw_sys::general as raw;

async fn walk(thread: &Thread, directory: i32, path: u64) -> Result<Walked, Errno> {
    let path = thread.read_path(path).await?;
    walk_path(thread, directory, &path).await
}

async fn walk_path(thread: &Thread, directory: i32, path: &[u8]) -> Result<Walked, Errno> {
    thread.process().files().walk(thread, directory, path, LastLink::Keep).await
}

/// Returns the place of a new name, after the checks that all makers of names share.
pub(super) async fn place_for_new(
    thread: &Thread,
    directory: i32,
    path: &[u8],
    is_directory: bool,
) -> Result<Walked, Errno> {
    let walked = walk_path(thread, directory, path).await?;
    if walked.target.is_some() || walked.open_file.is_some() {
        return Err(Errno::EEXIST);
    }
    if walked.wants_directory && !is_directory {
        return Err(Errno::ENOENT);
    }
    Asker::of(thread).check(&walked.parent.attributes, WRITE | EXECUTE)?;
    Ok(walked)
}

/// Makes a node at a path.
pub(super) async fn make_node(
    thread: &Thread,
    directory: i32,
    path: &[u8],
    adapt: impl FnOnce(&mut NewNode),
    kind: NodeKind,
    mode: u32,
) -> Result<(Walked, Attributes), Errno> {
    let walked = place_for_new(thread, directory, path, kind == NodeKind::Directory).await?;
    let mode = mode & !thread.process().files().mask() & 0o7777;
    let mut new = new_node(&Asker::of(thread), &walked.parent, kind, mode as u16);
    adapt(&mut new);
    let parent = &walked.parent.place;
    let attributes = parent.system().create(parent.node, walked.name.clone(), new).await?;
    tell_of_name(thread, &walked, raw::IN_CREATE | directory_bit(kind), 0);
    Ok((walked, attributes))
}

/// Returns IN_ISDIR for a directory.
fn directory_bit(kind: NodeKind) -> u32 {
    if kind == NodeKind::Directory { raw::IN_ISDIR } else { 0 }
}

/// Tells the watches on the directory of a name.
pub(super) fn tell_of_name(thread: &Thread, walked: &Walked, mask: u32, cookie: u32) {
    thread.process().files().tenant().notices.entry(walked.parent.place.key(), &walked.name, mask, cookie);
}

/// Tells the watches on a node that it has lost a name.
fn tell_of_loss(thread: &Thread, target: &Found) {
    let attributes = &target.attributes;
    let is_directory = attributes.kind == NodeKind::Directory;
    let is_last = attributes.links <= 1 || is_directory;
    thread.process().files().tenant().notices.unlinked(target.place.key(), is_directory, is_last);
}

/// `mkdir(path, mode)`.
pub async fn mkdir(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    mkdir_at(thread, raw::AT_FDCWD, a.word(0), a.unsigned(1)).await
}

/// `mkdirat(directory, path, mode)`.
pub async fn mkdirat(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    mkdir_at(thread, a.int(0), a.word(1), a.unsigned(2)).await
}

async fn mkdir_at(thread: &Thread, directory: i32, path: u64, mode: u32) -> Outcome {
    let path = thread.read_path(path).await?;
    make_node(thread, directory, &path, |_| (), NodeKind::Directory, mode & 0o1777).await?;
    Ok(0)
}

/// `mknod(path, mode, device)`.
pub async fn mknod(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    mknod_at(thread, raw::AT_FDCWD, a.word(0), a.unsigned(1), a.word(2)).await
}

/// `mknodat(directory, path, mode, device)`.
pub async fn mknodat(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    mknod_at(thread, a.int(0), a.word(1), a.unsigned(2), a.word(3)).await
}

async fn mknod_at(thread: &Thread, directory: i32, path: u64, mode: u32, device: u64) -> Outcome {
    let kind = kind_of_mode(mode).ok_or(Errno::EINVAL)?;
    let is_device = matches!(kind, NodeKind::CharacterDevice | NodeKind::BlockDevice);
    if kind == NodeKind::Directory || is_device && !Asker::of(thread).has(Capability::Mknod) {
        return Err(Errno::EPERM);
    }
    let path = thread.read_path(path).await?;
    let set = |new: &mut NewNode| new.device = if is_device { device } else { 0 };
    make_node(thread, directory, &path, set, kind, mode).await?;
    Ok(0)
}

/// Checks that a name may be removed, and returns its target.
fn removable<'a>(thread: &Thread, walked: &'a Walked) -> Result<&'a Found, Errno> {
    let target = walked.target.as_ref().ok_or(Errno::ENOENT)?;
    let asker = Asker::of(thread);
    asker.check(&walked.parent.attributes, WRITE | EXECUTE)?;
    asker.check_sticky(&walked.parent.attributes, &target.attributes)?;
    if target.place.is_mount_root() || target.place.mount.id != walked.parent.place.mount.id {
        return Err(Errno::EBUSY);
    }
    Ok(target)
}

/// `unlink(path)`.
pub async fn unlink(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    remove_file(thread, raw::AT_FDCWD, a.word(0)).await
}

/// `rmdir(path)`.
pub async fn rmdir(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    remove_directory(thread, raw::AT_FDCWD, a.word(0)).await
}

/// `unlinkat(directory, path, flags)`.
pub async fn unlinkat(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    match a.unsigned(2) {
        0 => remove_file(thread, a.int(0), a.word(1)).await,
        raw::AT_REMOVEDIR => remove_directory(thread, a.int(0), a.word(1)).await,
        _ => Err(Errno::EINVAL),
    }
}

async fn remove_file(thread: &Thread, directory: i32, path: u64) -> Outcome {
    let walked = walk(thread, directory, path).await?;
    if walked.name.is_empty() {
        return Err(Errno::EISDIR);
    }
    let target = removable(thread, &walked)?;
    let is_directory = target.attributes.kind == NodeKind::Directory;
    if is_directory {
        return Err(Errno::EISDIR);
    }
    if walked.wants_directory {
        return Err(Errno::ENOTDIR);
    }
    let parent = &walked.parent.place;
    parent.system().unlink(parent.node, walked.name.clone()).await?;
    tell_of_name(thread, &walked, raw::IN_DELETE, 0);
    tell_of_loss(thread, target);
    Ok(0)
}

async fn remove_directory(thread: &Thread, directory: i32, path: u64) -> Outcome {
    let path = thread.read_path(path).await?;
    let walked = walk_path(thread, directory, &path).await?;
    if walked.name.is_empty() {
        return Err(last_dots(&path));
    }
    let target = removable(thread, &walked)?;
    if target.attributes.kind != NodeKind::Directory {
        return Err(Errno::ENOTDIR);
    }
    let parent = &walked.parent.place;
    parent.system().remove_directory(parent.node, walked.name.clone()).await?;
    tell_of_loss(thread, target);
    tell_of_name(thread, &walked, raw::IN_DELETE | raw::IN_ISDIR, 0);
    Ok(0)
}

/// Returns the reason why a path that ends in ".", ".." or is "/" cannot be removed (rmdir(2)).
fn last_dots(path: &[u8]) -> Errno {
    let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last.saturating_add(1));
    let name = path.get(..end).and_then(|path| path.rsplit(|byte| *byte == b'/').next());
    match name {
        Some(b".") => Errno::EINVAL,
        Some(b"..") => Errno::ENOTEMPTY,
        _ => Errno::EBUSY,
    }
}

/// `rename(from, to)`.
pub async fn rename(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let (from, to) = (thread.read_path(a.word(0)).await?, thread.read_path(a.word(1)).await?);
    rename_at(thread, (raw::AT_FDCWD, from), (raw::AT_FDCWD, to), 0).await
}

/// `renameat(from_directory, from, to_directory, to)`.
pub async fn renameat(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let (from, to) = (thread.read_path(a.word(1)).await?, thread.read_path(a.word(3)).await?);
    rename_at(thread, (a.int(0), from), (a.int(2), to), 0).await
}

/// `renameat2(from_directory, from, to_directory, to, flags)`: RENAME_WHITEOUT is for union file systems and not offered.
pub async fn renameat2(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let both = raw::RENAME_NOREPLACE | raw::RENAME_EXCHANGE;
    if a.unsigned(4) & !both != 0 || a.unsigned(4) & both == both {
        return Err(Errno::EINVAL);
    }
    let (from, to) = (thread.read_path(a.word(1)).await?, thread.read_path(a.word(3)).await?);
    rename_at(thread, (a.int(0), from), (a.int(2), to), a.unsigned(4)).await
}

async fn rename_at(thread: &Thread, from: (i32, Vec<u8>), to: (i32, Vec<u8>), flags: u32) -> Outcome {
    let from = walk_path(thread, from.0, &from.1).await?;
    let to = walk_path(thread, to.0, &to.1).await?;
    if from.name.is_empty() || to.name.is_empty() {
        return Err(Errno::EBUSY);
    }
    if from.parent.place.mount.id != to.parent.place.mount.id {
        return Err(Errno::EXDEV);
    }
    let moved = removable(thread, &from)?;
    let is_directory = moved.attributes.kind == NodeKind::Directory;
    let mode = match flags {
        raw::RENAME_NOREPLACE => RenameMode::Keep,
        raw::RENAME_EXCHANGE => RenameMode::Exchange,
        _ => RenameMode::Replace,
    };
    let exchanged = to.target.as_ref().filter(|_| mode == RenameMode::Exchange);
    let target_is_directory = exchanged.map_or(is_directory, |target| target.attributes.kind == NodeKind::Directory);
    if from.wants_directory && !is_directory || to.wants_directory && !target_is_directory {
        return Err(Errno::ENOTDIR);
    }
    if to.target.is_some() {
        if mode == RenameMode::Keep {
            return Err(Errno::EEXIST);
        }
        removable(thread, &to)?;
    } else {
        Asker::of(thread).check(&to.parent.attributes, WRITE | EXECUTE)?;
    }
    let (source, destination) = (&from.parent.place, &to.parent.place);
    let system = source.system();
    system.rename(source.node, from.name.clone(), destination.node, to.name.clone(), mode).await?;
    tell_of_move(thread, &from, &to);
    let files = thread.process().files();
    let notices = &files.tenant().notices;
    if mode == RenameMode::Exchange {
        tell_of_move(thread, &to, &from);
        if is_directory || target_is_directory {
            notices.exchanged(&from.new_path(), &to.new_path());
        }
        return Ok(0);
    }
    if is_directory {
        notices.moved(&from.new_path(), &to.new_path());
    }
    if let Some(replaced) = to.target.as_ref().filter(|replaced| !replaced.place.same(&moved.place)) {
        tell_of_loss(thread, replaced);
    }
    Ok(0)
}

/// Tells the watches on a moved node and its directories.
fn tell_of_move(thread: &Thread, from: &Walked, to: &Walked) {
    let files = thread.process().files();
    let notices = &files.tenant().notices;
    let Some(moved) = &from.target else { return };
    let bit = directory_bit(moved.attributes.kind);
    let cookie = notices.cookie();
    tell_of_name(thread, from, raw::IN_MOVED_FROM | bit, cookie);
    tell_of_name(thread, to, raw::IN_MOVED_TO | bit, cookie);
    notices.node(moved.place.key(), raw::IN_MOVE_SELF | bit);
}
