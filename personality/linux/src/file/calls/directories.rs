//! The current directory, the root, the mask, and reading directories.

use super::{file_of, usable_file};
use crate::credentials::Capability;
use crate::file::context::Target;
use crate::file::permission::{Asker, EXECUTE};
use crate::file::proc::Looker;
use crate::file::walk::Found;
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::sync::Arc;
use gyre_interface::files::NodeKind;
use linux_raw_sys::general as raw;

/// Bytes of entries that one call gives at most.
const ENTRIES_BYTES_MAX: usize = 256 * 1024;

/// `getdents64(fd, out, bytes)`.
pub async fn getdents64(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let file = usable_file(thread, a.int(0))?;
    let entries = file.read_entries(a.size(2).min(ENTRIES_BYTES_MAX)).await?;
    thread.copy_out(a.word(1), &entries).await?;
    Ok(entries.len() as u64)
}

/// Bytes of `struct linux_dirent64` before the name.
const HEAD_BYTES: usize = 19;

/// `getdents(fd, out, bytes)`: the same entries as of [`getdents64`]; the kind stands in the last byte of each, which getdents64 has before
/// the name.
pub async fn getdents(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let file = usable_file(thread, a.int(0))?;
    let mut entries = file.read_entries(a.size(2).min(ENTRIES_BYTES_MAX)).await?;
    let mut rest = entries.as_mut_slice();
    while let Some([low, high]) = rest.get(16..18).and_then(|bytes| <[u8; 2]>::try_from(bytes).ok()) {
        let (entry, tail) =
            rest.split_at_mut_checked(usize::from(u16::from_le_bytes([low, high]))).ok_or(Errno::EIO)?;
        to_old_form(entry);
        rest = tail;
    }
    thread.copy_out(a.word(1), &entries).await?;
    Ok(entries.len() as u64)
}

/// Moves the name one byte forward, over the kind, which goes to the end. Entries are padded, so that there is room for it.
fn to_old_form(entry: &mut [u8]) {
    let kind = entry.get(HEAD_BYTES - 1).copied();
    entry.copy_within(HEAD_BYTES.., HEAD_BYTES - 1);
    if let (Some(last), Some(kind)) = (entry.last_mut(), kind) {
        *last = kind;
    }
}

/// `getcwd(out, bytes)`: answers the length with the NUL.
pub async fn getcwd(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let current = thread.process().files().current();
    let attributes = current.place.system().attributes(current.place.node).await?;
    if attributes.links == 0 {
        return Err(Errno::ENOENT);
    }
    let mut path = current.path;
    path.push(0);
    if path.len() > a.size(1) {
        return Err(Errno::ERANGE);
    }
    thread.copy_out(a.word(0), &path).await?;
    Ok(path.len() as u64)
}

fn check_directory(thread: &Thread, found: &Found) -> Result<(), Errno> {
    if found.attributes.kind != NodeKind::Directory {
        return Err(Errno::ENOTDIR);
    }
    found.check(&Asker::of(thread), Looker::Thread(thread), EXECUTE)
}

async fn directory_at(thread: &Thread, path: u64) -> Result<Found, Errno> {
    let path = thread.read_path(path).await?;
    let target = thread.process().files().find(thread, raw::AT_FDCWD, &path, 0).await?;
    let found = target.node(Errno::ENOTDIR)?;
    check_directory(thread, &found)?;
    Ok(found)
}

/// `chdir(path)`.
pub async fn chdir(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let found = directory_at(thread, a.word(0)).await?;
    thread.process().files().set_current(found);
    Ok(0)
}

/// `fchdir(fd)`.
pub async fn fchdir(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let target = Target::of_file(file_of(thread, a.int(0))?).await?;
    let found = target.node(Errno::ENOTDIR)?;
    check_directory(thread, &found)?;
    thread.process().files().set_current(found);
    Ok(0)
}

/// `chroot(path)`.
pub async fn chroot(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let found = directory_at(thread, a.word(0)).await?;
    if !Asker::of(thread).has(Capability::SysChroot) {
        return Err(Errno::EPERM);
    }
    thread.process().files().set_root(found);
    Ok(0)
}

/// `umask(mask)`.
pub fn umask(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    Ok(u64::from(thread.process().files().set_mask(a.unsigned(0))))
}
