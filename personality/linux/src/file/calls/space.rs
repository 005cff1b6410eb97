//! truncate, fallocate and advice about contents.

use super::usable_file;
use crate::file::mapped;
use crate::file::mount::Place;
use crate::file::object::Object;
use crate::file::permission::{Asker, WRITE};
use crate::file::size_limit;
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use gyre_interface::Position;
use gyre_interface::files::{AttributeChange, NodeKind};
use linux_raw_sys::general as raw;

fn size_change(size: u64) -> AttributeChange {
    AttributeChange { size_bytes: Some(size), ..AttributeChange::default() }
}

/// `truncate(path, size)`.
pub async fn truncate(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let size = u64::try_from(a.signed(1)).map_err(|_| Errno::EINVAL)?;
    let path = thread.read_path(a.word(0)).await?;
    let target = thread.process().files().find(thread, raw::AT_FDCWD, &path, 0).await?;
    let found = target.node(Errno::EINVAL)?;
    match found.attributes.kind {
        NodeKind::File => {}
        NodeKind::Directory => return Err(Errno::EISDIR),
        _ => return Err(Errno::EINVAL),
    }
    Asker::of(thread).check(&found.attributes, WRITE)?;
    size_limit::check_growth(thread, found.attributes.size_bytes, size)?;
    let _written = thread.process().files().tenant().contents.write(&found.place)?;
    found.place.system().set_attributes(found.place.node, size_change(size)).await?;
    mapped::shortened(thread, &found.place, size).await;
    super::attributes::tell(thread, &found, raw::IN_MODIFY);
    Ok(0)
}

/// `ftruncate(fd, size)`.
pub async fn ftruncate(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let size = u64::try_from(a.signed(1)).map_err(|_| Errno::EINVAL)?;
    let file = usable_file(thread, a.int(0))?;
    let (Some(place), Object::Regular, true) = (file.place(), file.object(), file.is_writable()) else {
        return Err(Errno::EINVAL);
    };
    check_size(thread, place, size).await?;
    place.system().set_attributes(place.node, size_change(size)).await?;
    mapped::shortened(thread, place, size).await;
    file.tell(raw::IN_MODIFY);
    Ok(0)
}

/// `fallocate(fd, mode, offset, bytes)`: taking space, punching holes, zeroing. ext2 cannot keep space behind a file's end:
/// FALLOC_FL_KEEP_SIZE beyond it answers EOPNOTSUPP.
pub async fn fallocate(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let file = usable_file(thread, a.int(0))?;
    if !file.is_writable() {
        return Err(Errno::EBADF);
    }
    let offset = u64::try_from(a.signed(2)).map_err(|_| Errno::EINVAL)?;
    let bytes = u64::try_from(a.signed(3)).ok().filter(|bytes| *bytes > 0).ok_or(Errno::EINVAL)?;
    offset.checked_add(bytes).filter(|end| i64::try_from(*end).is_ok()).ok_or(Errno::EFBIG)?;
    match file.object() {
        Object::Regular => {}
        Object::Pipe(_) | Object::Socket(_) | Object::Stream(_) => return Err(Errno::ESPIPE),
        Object::Directory => return Err(Errno::EISDIR),
        _ => return Err(Errno::ENODEV),
    }
    let place = file.place().ok_or(Errno::EBADF)?;
    let keep = a.unsigned(1) & raw::FALLOC_FL_KEEP_SIZE != 0;
    if !keep {
        check_size(thread, place, offset.saturating_add(bytes)).await?;
    }
    match a.unsigned(1) & !raw::FALLOC_FL_KEEP_SIZE {
        0 => allocate(place, offset, bytes, keep).await?,
        raw::FALLOC_FL_PUNCH_HOLE if keep => punch(thread, place, offset, bytes).await?,
        raw::FALLOC_FL_ZERO_RANGE => {
            expect_space(place, offset, bytes, keep).await?;
            punch(thread, place, offset, bytes).await?;
            allocate(place, offset, bytes, keep).await?;
        }
        _ => return Err(Errno::EOPNOTSUPP),
    }
    file.tell(raw::IN_MODIFY);
    Ok(0)
}

/// Makes a hole; no mapping shows anything of before in it, also if it could be made in part only.
pub(crate) async fn punch(thread: &Thread, place: &Place, offset: u64, bytes: u64) -> Result<(), Errno> {
    let made = place.system().punch(place.node, offset, bytes).await;
    mapped::punched(thread, place, offset..offset.saturating_add(bytes)).await;
    Ok(made?)
}

/// Refuses a size that the caller's limit forbids.
async fn check_size(thread: &Thread, place: &Place, wanted: u64) -> Result<(), Errno> {
    if size_limit::is_free(thread) {
        return Ok(());
    }
    size_limit::check_growth(thread, place.system().attributes(place.node).await?.size_bytes, wanted)
}

/// Refuses to keep space behind a file's end, before anything has changed.
async fn expect_space(place: &Place, offset: u64, bytes: u64, keep: bool) -> Result<(), Errno> {
    if keep && offset.saturating_add(bytes) > place.system().attributes(place.node).await?.size_bytes {
        return Err(Errno::EOPNOTSUPP);
    }
    Ok(())
}

async fn allocate(place: &Place, offset: u64, bytes: u64, keep: bool) -> Result<(), Errno> {
    expect_space(place, offset, bytes, keep).await?;
    Ok(place.system().allocate(place.node, offset, bytes).await?)
}

/// `fadvise64(fd, offset, bytes, advice)`: WILLNEED fetches pages, DONTNEED writes them back and drops them. After
/// RANDOM there is no read-ahead (for the whole file, as on Linux) until another advice; SEQUENTIAL is as NORMAL, and
/// NOREUSE has no effect.
pub async fn fadvise64(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let file = usable_file(thread, a.int(0))?;
    let (offset, bytes, advice) = (a.word(1), a.word(2), a.unsigned(3));
    if matches!(file.object(), Object::Pipe(_) | Object::Socket(_) | Object::Stream(_)) {
        return Err(Errno::ESPIPE);
    }
    if advice > raw::POSIX_FADV_NOREUSE || bytes >> 63 != 0 {
        return Err(Errno::EINVAL);
    }
    let (Object::Regular, Some(place)) = (file.object(), file.place()) else { return Ok(0) };
    // No file has bytes beyond the last place.
    let Some(start) = Position::new(offset) else { return Ok(0) };
    let bytes = bytes.min(start.until(Position::LAST));
    match advice {
        raw::POSIX_FADV_WILLNEED => {
            let bytes = if bytes == 0 { usize::MAX } else { bytes as usize };
            place.system().read(place.node, offset, bytes.min(crate::file::object::CHUNK_BYTES)).await?;
        }
        raw::POSIX_FADV_DONTNEED => {
            place.system().write_back(place.node, offset, bytes).await?;
            place.system().evict(place.node, offset, bytes).await?;
        }
        raw::POSIX_FADV_NORMAL | raw::POSIX_FADV_RANDOM | raw::POSIX_FADV_SEQUENTIAL => {
            file.is_random.store(advice == raw::POSIX_FADV_RANDOM, Ordering::Relaxed);
        }
        _ => {}
    }
    Ok(0)
}

/// `readahead(fd, offset, bytes)`: brings the pages into the cache.
pub async fn readahead(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let file = usable_file(thread, a.int(0))?;
    let (Some(place), Object::Regular, true) = (file.place(), file.object(), file.is_readable()) else {
        return Err(Errno::EINVAL);
    };
    let bytes = usize::try_from(a.signed(2)).map_err(|_| Errno::EINVAL)?.min(crate::file::object::CHUNK_BYTES);
    let Some(start) = Position::new(a.word(1)) else { return Ok(0) };
    place.system().read(place.node, start.get(), bytes).await?;
    Ok(0)
}
