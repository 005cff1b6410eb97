//! stat and its family, access, statfs.
//!
//! Each of the frequent calls has a form that answers from memory, without a message (`…_at_once`), and one that
//! walks. Both fill Linux's structures by [`crate::file::attributes`]. access asks with the real user and group
//! (access(2)), faccessat2 with AT_EACCESS with the effective ones.
//!
//! A form at once answers `None` if a node on the way is not in memory; the dispatch then calls the other form, which
//! starts anew. Neither changes anything, so a second attempt is harmless.
//!
//! Objects without a node (sockets, pipes, terminals) get attributes made up here, with the numbers that Linux shows.

use super::file_of;
use crate::file::attributes::{add_direct_alignment, device_number, device_of, nameless, stat_bytes, statx_bytes};
use crate::file::context::Target;
use crate::file::near::{self, Look, ShortPath};
use crate::file::object::Object;
use crate::file::open_file::OpenFile;
use crate::file::permission::Asker;
use crate::file::proc::Looker;
use crate::file::walk::LastLink;
use crate::file::{direct, direct_offer};
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use gyre_interface::files::{Attributes, FileSystemStatistics, NodeKind};
use linux_raw_sys::general as raw;

/// `stat(path, out)`.
pub async fn stat(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    stat_at(thread, raw::AT_FDCWD, a.word(0), a.word(1), 0).await
}

/// `lstat(path, out)`.
pub async fn lstat(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    stat_at(thread, raw::AT_FDCWD, a.word(0), a.word(1), raw::AT_SYMLINK_NOFOLLOW).await
}

/// `fstat(fd, out)`.
pub async fn fstat(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let target = Target::of_file(file_of(thread, a.int(0))?).await?;
    let (device, attributes, _) = shown(&target);
    thread.copy_out(a.word(1), &stat_bytes(device, &attributes)).await?;
    Ok(0)
}

/// `newfstatat(directory, path, out, flags)`.
pub async fn newfstatat(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let known = raw::AT_SYMLINK_NOFOLLOW | raw::AT_EMPTY_PATH | raw::AT_NO_AUTOMOUNT;
    if a.unsigned(3) & !known != 0 {
        return Err(Errno::EINVAL);
    }
    stat_at(thread, a.int(0), a.word(1), a.word(2), a.unsigned(3)).await
}

async fn stat_at(thread: &Arc<Thread>, directory: i32, path: u64, out: u64, flags: u32) -> Outcome {
    let path = thread.read_path(path).await?;
    let target = thread.process().files().find(thread, directory, &path, flags).await?;
    let (device, attributes, _) = shown(&target);
    thread.copy_out(out, &stat_bytes(device, &attributes)).await?;
    Ok(0)
}

/// `stat` of a node in memory.
pub fn stat_at_once(thread: &Arc<Thread>, a: Arguments) -> Option<Outcome> {
    stat_near(thread, raw::AT_FDCWD, a.word(0), a.word(1), 0)
}

/// `lstat` of a node in memory.
pub fn lstat_at_once(thread: &Arc<Thread>, a: Arguments) -> Option<Outcome> {
    stat_near(thread, raw::AT_FDCWD, a.word(0), a.word(1), raw::AT_SYMLINK_NOFOLLOW)
}

/// `newfstatat` of a node in memory.
pub fn newfstatat_at_once(thread: &Arc<Thread>, a: Arguments) -> Option<Outcome> {
    let known = raw::AT_SYMLINK_NOFOLLOW | raw::AT_EMPTY_PATH | raw::AT_NO_AUTOMOUNT;
    if a.unsigned(3) & !known != 0 {
        return None;
    }
    stat_near(thread, a.int(0), a.word(1), a.word(2), a.unsigned(3))
}

/// `fstat` of a node in memory.
pub fn fstat_at_once(thread: &Arc<Thread>, a: Arguments) -> Option<Outcome> {
    fstat_near(thread, a.int(0), a.word(1))
}

fn fstat_near(thread: &Thread, descriptor: i32, out: u64) -> Option<Outcome> {
    let file = file_of(thread, descriptor).ok()?;
    let place = file.place()?;
    let attributes = place.system().visit(|near| near.attributes(place.node))??.ok()?;
    let bytes = stat_bytes(device_of(Some(place)), &attributes);
    thread.with_space(|space| space.copy_out_at_once(out, &bytes)).then_some(Ok(0))
}

fn stat_near(thread: &Thread, directory: i32, path: u64, out: u64, flags: u32) -> Option<Outcome> {
    let path = ShortPath::read(thread, path)?;
    if path.as_slice().is_empty() && flags & raw::AT_EMPTY_PATH != 0 {
        return fstat_near(thread, directory, out);
    }
    let files = thread.process().files();
    let link = if flags & raw::AT_SYMLINK_NOFOLLOW != 0 { LastLink::Keep } else { LastLink::Follow };
    match near::walk(&files, &Asker::of(thread), directory, path.as_slice(), link, &Look)? {
        Ok(found) => {
            let bytes = stat_bytes(device_of(Some(&found.place)), &found.attributes);
            thread.with_space(|space| space.copy_out_at_once(out, &bytes)).then_some(Ok(0))
        }
        Err(error) => Some(Err(error)),
    }
}

/// `access` of a node in memory.
pub fn access_at_once(thread: &Arc<Thread>, a: Arguments) -> Option<Outcome> {
    access_near(thread, raw::AT_FDCWD, a.word(0), a.unsigned(1))
}

/// `faccessat` of a node in memory.
pub fn faccessat_at_once(thread: &Arc<Thread>, a: Arguments) -> Option<Outcome> {
    access_near(thread, a.int(0), a.word(1), a.unsigned(2))
}

fn access_near(thread: &Thread, directory: i32, path: u64, mode: u32) -> Option<Outcome> {
    if mode & !7 != 0 {
        return None;
    }
    let path = ShortPath::read(thread, path)?;
    let (files, asker) = (thread.process().files(), Asker::real(thread));
    let found = near::walk(&files, &asker, directory, path.as_slice(), LastLink::Follow, &Look)?;
    Some(found.and_then(|found| asker.check(&found.attributes, mode as u16)).map(|()| 0))
}

/// `statx(directory, path, flags, mask, out)`.
pub async fn statx(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let path = match a.word(1) {
        0 if a.unsigned(2) & raw::AT_EMPTY_PATH != 0 => alloc::vec::Vec::new(),
        address => thread.read_path(address).await?,
    };
    let files = thread.process().files();
    let target = files.find(thread, a.int(0), &path, a.unsigned(2)).await?;
    let (device, attributes, is_root) = shown(&target);
    let mut out = statx_bytes(device, &attributes, is_root);
    if a.unsigned(3) & raw::STATX_DIOALIGN != 0
        && attributes.kind == NodeKind::File
        && let Target::Node(found) = &target
        && direct_offer::is_offered(&found.place).await?
    {
        add_direct_alignment(&mut out, direct::SECTOR);
    }
    thread.copy_out(a.word(4), &out).await?;
    Ok(0)
}

/// Returns device, attributes, and whether it is the root of a mount.
fn shown(target: &Target) -> (u64, Attributes, bool) {
    match target {
        Target::Node(found) => (device_of(Some(&found.place)), found.attributes, found.place.is_mount_root()),
        Target::Open(file) => (device_of(None), attributes_of_open(file), false),
    }
}

/// Returns attributes of an open file without a node.
pub(super) fn attributes_of_open(file: &OpenFile) -> Attributes {
    if let Object::MessageQueue(queue) = file.object() {
        return queue.attributes();
    }
    let mode = match file.object() {
        Object::Socket(_) => 0o777,
        Object::Terminal(_) => 0o620,
        _ => 0o600,
    };
    let mut attributes = nameless(file.object().kind(), mode);
    if let Object::Socket(socket) = file.object() {
        let options = socket.options();
        attributes.number = options.number.load(Ordering::Relaxed);
        attributes.user = options.owner.load(Ordering::Relaxed);
    }
    if let Object::Terminal(end) = file.object() {
        attributes.device = end.terminal().number.map_or(device_number(5, 1), |number| device_number(136, number));
    }
    attributes
}

/// `access(path, mode)`.
pub async fn access(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    access_at(thread, raw::AT_FDCWD, a.word(0), a.unsigned(1), 0).await
}

/// `faccessat(directory, path, mode)`.
pub async fn faccessat(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    access_at(thread, a.int(0), a.word(1), a.unsigned(2), 0).await
}

/// `faccessat2(directory, path, mode, flags)`.
pub async fn faccessat2(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let known = raw::AT_EACCESS | raw::AT_EMPTY_PATH | raw::AT_SYMLINK_NOFOLLOW;
    if a.unsigned(3) & !known != 0 {
        return Err(Errno::EINVAL);
    }
    access_at(thread, a.int(0), a.word(1), a.unsigned(2), a.unsigned(3)).await
}

async fn access_at(thread: &Arc<Thread>, directory: i32, path: u64, mode: u32, flags: u32) -> Outcome {
    if mode & !7 != 0 {
        return Err(Errno::EINVAL);
    }
    let path = thread.read_path(path).await?;
    let files = thread.process().files();
    let asker = if flags & raw::AT_EACCESS != 0 { Asker::of(thread) } else { Asker::real(thread) };
    if path.is_empty() && flags & raw::AT_EMPTY_PATH != 0 {
        let target = files.find(thread, directory, &path, flags).await?;
        return check(thread, &asker, &target, mode as u16).map(|()| 0);
    }
    let last = if flags & raw::AT_SYMLINK_NOFOLLOW != 0 { LastLink::Keep } else { LastLink::Follow };
    let mut walked = files.walk_as(asker.clone(), thread, directory, &path, last).await?;
    let target = match walked.open_file.take() {
        Some(file) => Target::Open(file),
        None => Target::Node(walked.existing()?),
    };
    check(thread, &asker, &target, mode as u16).map(|()| 0)
}

fn check(thread: &Thread, asker: &Asker, target: &Target, wanted: u16) -> Result<(), Errno> {
    match target {
        Target::Node(found) => found.check(asker, Looker::Thread(thread), wanted),
        Target::Open(file) => asker.check(&attributes_of_open(file), wanted),
    }
}

/// `statfs(path, out)`.
pub async fn statfs(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let path = thread.read_path(a.word(0)).await?;
    let target = thread.process().files().find(thread, raw::AT_FDCWD, &path, 0).await?;
    put_statistics(thread, target, a.word(1)).await
}

/// `fstatfs(fd, out)`.
pub async fn fstatfs(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let target = Target::of_file(file_of(thread, a.int(0))?).await?;
    put_statistics(thread, target, a.word(1)).await
}

async fn put_statistics(thread: &Thread, target: Target, out: u64) -> Outcome {
    let found = target.node(Errno::ENOSYS)?;
    let statistics = found.place.system().statistics().await?;
    thread.copy_out(out, &statfs_bytes(&statistics, found.place.mount.id)).await?;
    Ok(0)
}

/// `struct statfs`: 15 words.
fn statfs_bytes(statistics: &FileSystemStatistics, id: u32) -> [u8; 120] {
    let words = [
        statistics.magic,
        u64::from(statistics.block_bytes),
        statistics.blocks,
        statistics.blocks_free,
        statistics.blocks_free,
        statistics.nodes,
        statistics.nodes_free,
        u64::from(id),
        gyre_interface::files::NAME_BYTES_MAX as u64,
        u64::from(statistics.block_bytes),
        0x20,
    ];
    let mut out = [0; 120];
    out.chunks_exact_mut(8).zip(words).for_each(|(place, word)| place.copy_from_slice(&word.to_le_bytes()));
    out
}
