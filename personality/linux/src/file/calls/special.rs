//! eventfd, memfd_create, inotify; calls that are refused.

use super::{answer, file_of, install};
use crate::file::event_counter::EventCounter;
use crate::file::filesystem::FileSystem;
use crate::file::inotify::Inotify;
use crate::file::mount::{Mount, Place};
use crate::file::object::Object;
use crate::file::open_file::{Location, OpenFile};
use crate::file::permission::{Asker, READ};
use crate::file::regular;
use crate::file::signal_file::SignalFile;
use crate::signal::SignalSet;
use crate::signal::number::UNSTOPPABLE;
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_interface::files::{NewNode, NodeKind};
use linux_raw_sys::general as raw;

/// `eventfd(value)`.
pub fn eventfd(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    make_event(thread, a.unsigned(0), 0)
}

/// `eventfd2(value, flags)`.
pub fn eventfd2(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    make_event(thread, a.unsigned(0), a.unsigned(1))
}

fn make_event(thread: &Thread, value: u32, flags: u32) -> Outcome {
    if flags & !(raw::EFD_CLOEXEC | raw::EFD_NONBLOCK | raw::EFD_SEMAPHORE) != 0 {
        return Err(Errno::EINVAL);
    }
    let counter = EventCounter::new(u64::from(value), flags & raw::EFD_SEMAPHORE != 0);
    let files = thread.process().files();
    let flags_kept = raw::O_RDWR | flags & raw::O_NONBLOCK;
    let file = OpenFile::new(files.tenant(), Object::Event(counter), flags_kept, None)?;
    answer(install(thread, file, flags & raw::EFD_CLOEXEC != 0)?)
}

/// `signalfd(fd, set, set_bytes)`.
pub async fn signalfd(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    make_signal_file(thread, a, 0).await
}

/// `signalfd4(fd, set, set_bytes, flags)`; fd -1 makes a new one.
pub async fn signalfd4(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    make_signal_file(thread, a, a.unsigned(3)).await
}

async fn make_signal_file(thread: &Thread, a: Arguments, flags: u32) -> Outcome {
    if a.word(2) != 8 || flags & !(raw::O_CLOEXEC | raw::O_NONBLOCK) != 0 {
        return Err(Errno::EINVAL);
    }
    let mut set = [0; 8];
    thread.copy_in(a.word(1), &mut set).await?;
    let wanted = SignalSet(u64::from_le_bytes(set)).without(UNSTOPPABLE);
    if a.int(0) != -1 {
        let file = file_of(thread, a.int(0))?;
        let Object::Signal(signals) = file.object() else {
            return Err(Errno::EINVAL);
        };
        signals.set_wanted(thread, wanted);
        return answer(a.int(0));
    }
    let files = thread.process().files();
    let object = Object::Signal(SignalFile::new(thread, wanted));
    let file = OpenFile::new(files.tenant(), object, raw::O_RDWR | flags & raw::O_NONBLOCK, None)?;
    answer(install(thread, file, flags & raw::O_CLOEXEC != 0)?)
}

/// Longest name of a memfd, bytes.
const MEMORY_NAME_BYTES: usize = 249;

/// `memfd_create(name, flags)`: a file without a name in the tenant's memory. Seals are refused.
pub async fn memfd_create(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let flags = a.unsigned(1);
    if flags & !(raw::MFD_CLOEXEC | raw::MFD_ALLOW_SEALING) != 0 {
        return Err(Errno::EINVAL);
    }
    let name = thread.read_string(a.word(0), MEMORY_NAME_BYTES + 1, Errno::EINVAL).await?;
    let files = thread.process().files();
    let tenant = files.tenant();
    let client = tenant.memory;
    let root = client.root().await?;
    let hidden = alloc::format!(".memfd-{}", tenant.next_name()).into_bytes();
    let credentials = thread.credentials();
    let new = NewNode {
        kind: NodeKind::File,
        mode: 0o777,
        user: credentials.user_effective,
        group: credentials.group_effective,
        target: Vec::new(),
        device: 0,
    };
    let node = client.create(root, hidden.clone(), new).await?.node;
    let opened = client.open(node).await;
    client.unlink(root, hidden).await?;
    opened?;
    let mount = Arc::new(Mount {
        id: 0,
        system: FileSystem::Served(client),
        root,
        covers: None,
        path: Vec::new(),
        kind: "tmpfs",
    });
    let place = Place { mount, node };
    let path = [b"/memfd:", &name[..], b" (deleted)"].concat();
    let location = Location { place: place.clone(), path };
    let file =
        OpenFile::new(tenant, Object::Regular, raw::O_RDWR, Some(location)).inspect_err(|_| regular::close(place))?;
    answer(install(thread, file, flags & raw::MFD_CLOEXEC != 0)?)
}

/// `inotify_init()`.
pub fn inotify_init(thread: &Arc<Thread>, _a: Arguments) -> Outcome {
    make_inotify(thread, 0)
}

/// `inotify_init1(flags)`.
pub fn inotify_init1(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    make_inotify(thread, a.unsigned(0))
}

fn make_inotify(thread: &Thread, flags: u32) -> Outcome {
    if flags & !(raw::O_CLOEXEC | raw::O_NONBLOCK) != 0 {
        return Err(Errno::EINVAL);
    }
    let files = thread.process().files();
    let object = Object::Inotify(Inotify::new(files.tenant(), Asker::real(thread).user)?);
    let file = OpenFile::new(files.tenant(), object, flags & raw::O_NONBLOCK, None)?;
    answer(install(thread, file, flags & raw::O_CLOEXEC != 0)?)
}

/// `inotify_add_watch(fd, path, mask)`.
pub async fn inotify_add_watch(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let file = file_of(thread, a.int(0))?;
    let Object::Inotify(inotify) = file.object() else {
        return Err(Errno::EINVAL);
    };
    let mask = a.unsigned(2);
    let both = raw::IN_MASK_ADD | raw::IN_MASK_CREATE;
    if mask & raw::IN_ALL_EVENTS == 0 || mask & both == both {
        return Err(Errno::EINVAL);
    }
    let path = thread.read_path(a.word(1)).await?;
    let follow = if mask & raw::IN_DONT_FOLLOW != 0 { raw::AT_SYMLINK_NOFOLLOW } else { 0 };
    let target = thread.process().files().find(thread, raw::AT_FDCWD, &path, follow).await?;
    let found = target.node(Errno::EINVAL)?;
    let is_directory = found.attributes.kind == NodeKind::Directory;
    if mask & raw::IN_ONLYDIR != 0 && !is_directory {
        return Err(Errno::ENOTDIR);
    }
    if found.attributes.kind != NodeKind::SymbolicLink {
        Asker::of(thread).check(&found.attributes, READ)?;
    }
    let path = is_directory.then_some(found.path);
    answer(file.tenant().notices.watch(inotify.queue(), found.place.key(), path, mask)?)
}

/// `inotify_rm_watch(fd, watch)`.
pub fn inotify_rm_watch(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let file = file_of(thread, a.int(0))?;
    let Object::Inotify(inotify) = file.object() else {
        return Err(Errno::EINVAL);
    };
    file.tenant().notices.forget(inotify.queue(), a.int(1))?;
    Ok(0)
}

/// Calls that a tenant may not make: mount, umount2, pivot_root, swapon, swapoff.
pub fn not_permitted(_thread: &Arc<Thread>, _a: Arguments) -> Outcome {
    Err(Errno::EPERM)
}
