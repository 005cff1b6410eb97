//! link, symlink, readlink.

use super::names::{make_node, place_for_new, tell_of_name};
use crate::file::context::Target;
use crate::file::proc::Looker;
use crate::file::walk::{Found, LastLink};
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_interface::files::{NewNode, NodeKind};
use linux_raw_sys::general as raw;

/// `link(from, to)`.
pub async fn link(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    link_at(thread, (raw::AT_FDCWD, a.word(0)), (raw::AT_FDCWD, a.word(1)), 0).await
}

/// `linkat(from_directory, from, to_directory, to, flags)`.
pub async fn linkat(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let flags = a.unsigned(4);
    if flags & !(raw::AT_SYMLINK_FOLLOW | raw::AT_EMPTY_PATH) != 0 {
        return Err(Errno::EINVAL);
    }
    link_at(thread, (a.int(0), a.word(1)), (a.int(2), a.word(3)), flags).await
}

async fn link_at(thread: &Thread, from: (i32, u64), to: (i32, u64), flags: u32) -> Outcome {
    let (from_path, to_path) = (thread.read_path(from.1).await?, thread.read_path(to.1).await?);
    let follow = if flags & raw::AT_SYMLINK_FOLLOW != 0 { 0 } else { raw::AT_SYMLINK_NOFOLLOW };
    let files = thread.process().files();
    let target = files.find(thread, from.0, &from_path, follow | flags & raw::AT_EMPTY_PATH).await?;
    let found = target.node(Errno::EXDEV)?;
    if found.attributes.kind == NodeKind::Directory {
        return Err(Errno::EPERM);
    }
    let walked = place_for_new(thread, to.0, &to_path, false).await?;
    let parent = &walked.parent.place;
    if parent.mount.id != found.place.mount.id {
        return Err(Errno::EXDEV);
    }
    parent.system().link(found.place.node, parent.node, walked.name.clone()).await?;
    files.tenant().notices.node(found.place.key(), raw::IN_ATTRIB);
    tell_of_name(thread, &walked, raw::IN_CREATE, 0);
    Ok(0)
}

/// `symlink(target, path)`.
pub async fn symlink(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    symlink_at(thread, a.word(0), raw::AT_FDCWD, a.word(1)).await
}

/// `symlinkat(target, directory, path)`.
pub async fn symlinkat(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    symlink_at(thread, a.word(0), a.int(1), a.word(2)).await
}

async fn symlink_at(thread: &Thread, target: u64, directory: i32, path: u64) -> Outcome {
    let target = thread.read_path(target).await?;
    if target.is_empty() {
        return Err(Errno::ENOENT);
    }
    let path = thread.read_path(path).await?;
    let set = |new: &mut NewNode| {
        new.mode = 0o777;
        new.target = target;
    };
    make_node(thread, directory, &path, set, NodeKind::SymbolicLink, 0o777).await?;
    Ok(0)
}

/// `readlink(path, out, bytes)`.
pub async fn readlink(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    readlink_at(thread, raw::AT_FDCWD, a.word(0), a.word(1), a.int(2)).await
}

/// `readlinkat(directory, path, out, bytes)`.
pub async fn readlinkat(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    readlink_at(thread, a.int(0), a.word(1), a.word(2), a.int(3)).await
}

async fn readlink_at(thread: &Thread, directory: i32, path: u64, out: u64, bytes: i32) -> Outcome {
    let bytes = usize::try_from(bytes).ok().filter(|bytes| *bytes > 0).ok_or(Errno::EINVAL)?;
    let path = thread.read_path(path).await?;
    let files = thread.process().files();
    let found = if path.is_empty() {
        files
            .find(thread, directory, &path, raw::AT_EMPTY_PATH)
            .await
            .and_then(|target: Target| target.node(Errno::ENOENT))?
    } else {
        files.walk(thread, directory, &path, LastLink::Keep).await?.existing()?
    };
    let target = link_text(thread, &found).await?;
    let part = target.get(..bytes.min(target.len())).unwrap_or(&target);
    thread.copy_out(out, part).await?;
    Ok(part.len() as u64)
}

async fn link_text(thread: &Thread, found: &Found) -> Result<Vec<u8>, Errno> {
    if found.attributes.kind != NodeKind::SymbolicLink {
        return Err(Errno::EINVAL);
    }
    Ok(found.place.system().read_link(found.place.node, Looker::Thread(thread)).await?)
}
