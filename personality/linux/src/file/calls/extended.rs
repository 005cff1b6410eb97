//! Extended attributes (xattr(7)): user. by the rights of the file, security. and trusted. for the superuser.

use super::attributes::{node_at, node_of};
use crate::credentials::Capability;
use crate::file::permission::{Asker, READ, WRITE};
use crate::file::walk::Found;
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_interface::files::{FileError, NodeKind, Presence, files};
use linux_raw_sys::general as raw;

/// Longest name, bytes (XATTR_NAME_MAX).
const NAME_BYTES_MAX: usize = 255;
/// Largest value, bytes (XATTR_SIZE_MAX).
const VALUE_BYTES_MAX: usize = 65_536;

/// Declares the three forms of a call: by path, by path without following a last link, by descriptor.
macro_rules! three_forms {
    ($(#[$meta:meta])* $by_path:ident, $by_link:ident, $by_descriptor:ident, $act:ident) => {
        $(#[$meta])*
        pub async fn $by_path(thread: &Arc<Thread>, a: Arguments) -> Outcome {
            $act(thread, node_at(thread, raw::AT_FDCWD, a.word(0), 0).await?, a).await
        }

        $(#[$meta])*
        pub async fn $by_link(thread: &Arc<Thread>, a: Arguments) -> Outcome {
            $act(thread, node_at(thread, raw::AT_FDCWD, a.word(0), raw::AT_SYMLINK_NOFOLLOW).await?, a).await
        }

        $(#[$meta])*
        pub async fn $by_descriptor(thread: &Arc<Thread>, a: Arguments) -> Outcome {
            $act(thread, node_of(thread, a.int(0)).await?, a).await
        }
    };
}

three_forms! {
    /// `setxattr(file, name, value, bytes, flags)`.
    setxattr, lsetxattr, fsetxattr, set
}
three_forms! {
    /// `getxattr(file, name, value, bytes)`.
    getxattr, lgetxattr, fgetxattr, get
}
three_forms! {
    /// `listxattr(file, list, bytes)`.
    listxattr, llistxattr, flistxattr, list
}
three_forms! {
    /// `removexattr(file, name)`.
    removexattr, lremovexattr, fremovexattr, remove
}

async fn read_name(thread: &Thread, address: u64) -> Result<Vec<u8>, Errno> {
    let name = thread.read_string(address, NAME_BYTES_MAX + 1, Errno::ERANGE).await?;
    if name.is_empty() { Err(Errno::ERANGE) } else { Ok(name) }
}

fn server(found: &Found) -> Result<files::Client, Errno> {
    found.place.system().client().ok_or(Errno::EOPNOTSUPP)
}

/// Checks the right to an attribute of this name: `wanted` is [`READ`] or [`WRITE`].
fn check(thread: &Thread, found: &Found, name: &[u8], wanted: u16) -> Result<(), Errno> {
    let asker = Asker::of(thread);
    let attributes = &found.attributes;
    if name.starts_with(b"user.") {
        let refused = if wanted == WRITE { Errno::EPERM } else { Errno::ENODATA };
        if !matches!(attributes.kind, NodeKind::File | NodeKind::Directory) {
            return Err(refused);
        }
        let sticky = attributes.kind == NodeKind::Directory && attributes.mode & 0o1000 != 0;
        if wanted == WRITE && sticky && !asker.owns(attributes) {
            return Err(Errno::EPERM);
        }
        return asker.check(attributes, wanted);
    }
    if name.starts_with(b"trusted.") && !asker.has(Capability::SysAdmin) {
        return Err(if wanted == WRITE { Errno::EPERM } else { Errno::ENODATA });
    }
    let guard = if name == b"security.capability" { Capability::Setfcap } else { Capability::SysAdmin };
    if name.starts_with(b"security.") && wanted == WRITE && !asker.has(guard) {
        return Err(Errno::EPERM);
    }
    Ok(())
}

async fn set(thread: &Thread, found: Found, a: Arguments) -> Outcome {
    let demand = match a.unsigned(4) {
        0 => Presence::Any,
        raw::XATTR_CREATE => Presence::Absent,
        raw::XATTR_REPLACE => Presence::Present,
        _ => return Err(Errno::EINVAL),
    };
    let name = read_name(thread, a.word(1)).await?;
    if a.size(3) > VALUE_BYTES_MAX {
        return Err(Errno::E2BIG);
    }
    check(thread, &found, &name, WRITE)?;
    let value = thread.read_vec(a.word(2), a.size(3)).await?;
    server(&found)?.set_extended(found.place.node, name, value, demand).await?;
    Ok(0)
}

async fn get(thread: &Thread, found: Found, a: Arguments) -> Outcome {
    let name = read_name(thread, a.word(1)).await?;
    check(thread, &found, &name, READ)?;
    let value = server(&found)?.extended(found.place.node, name).await?;
    give(thread, a.word(2), a.size(3), &value).await
}

async fn list(thread: &Thread, found: Found, a: Arguments) -> Outcome {
    let names = match found.place.system().client() {
        Some(client) => client.list_extended(found.place.node).await?,
        None => Vec::new(),
    };
    let shown = |name: &&Vec<u8>| Asker::of(thread).has(Capability::SysAdmin) || !name.starts_with(b"trusted.");
    let list: Vec<u8> = names.iter().filter(shown).flat_map(|name| [&name[..], &[0]].concat()).collect();
    give(thread, a.word(1), a.size(2), &list).await
}

async fn remove(thread: &Thread, found: Found, a: Arguments) -> Outcome {
    let name = read_name(thread, a.word(1)).await?;
    check(thread, &found, &name, WRITE)?;
    match server(&found)?.remove_extended(found.place.node, name).await {
        Err(FileError::NotFound) => Err(Errno::ENODATA),
        answer => Ok(answer.map(|()| 0)?),
    }
}

/// Answers bytes: with a buffer of no bytes, how many there are.
async fn give(thread: &Thread, to: u64, room: usize, bytes: &[u8]) -> Outcome {
    if room == 0 {
        return Ok(bytes.len() as u64);
    }
    if room < bytes.len() {
        return Err(Errno::ERANGE);
    }
    thread.copy_out(to, bytes).await?;
    Ok(bytes.len() as u64)
}
