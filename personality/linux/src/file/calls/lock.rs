//! fcntl's record locks and flock.

use super::usable_file;
use crate::file::buffer::word;
use crate::file::locks::{Kind, Lock, Owner};
use crate::file::object::Object;
use crate::file::open_file::OpenFile;
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::sync::Arc;
use linux_raw_sys::general as raw;

/// `struct flock` of x86-64, bytes.
const BYTES: usize = 32;

/// Returns the commands of fcntl on locks; EINVAL for all others.
pub(super) async fn fcntl_lock(thread: &Thread, a: Arguments) -> Outcome {
    let command = a.unsigned(1);
    let by_description = matches!(command, raw::F_OFD_GETLK | raw::F_OFD_SETLK | raw::F_OFD_SETLKW);
    let known = matches!(command, raw::F_GETLK | raw::F_SETLK | raw::F_SETLKW);
    let file = usable_file(thread, a.int(0))?;
    if !known && !by_description {
        return Err(Errno::EINVAL);
    }
    let text = thread.read_vec(a.word(2), BYTES).await?;
    let (owner, process) = match by_description {
        true => (Owner::of_description(&file), -1),
        false => (thread.process().files().lock_owner(), thread.process().id()),
    };
    let key = file.place().ok_or(Errno::EINVAL)?.key();
    let kind = u16::from_le_bytes([text[0], text[1]]);
    let (start, end) = range(&file, &text).await?;
    let locks = &file.tenant().locks;
    if u32::from(kind) == raw::F_UNLCK && !matches!(command, raw::F_GETLK | raw::F_OFD_GETLK) {
        locks.unlock(key, owner, start, end);
        return Ok(0);
    }
    let kind = match u32::from(kind) {
        raw::F_RDLCK if file.is_readable() => Kind::Read,
        raw::F_WRLCK if file.is_writable() => Kind::Write,
        raw::F_RDLCK | raw::F_WRLCK => return Err(Errno::EBADF),
        _ => return Err(Errno::EINVAL),
    };
    let wanted = Lock { owner, kind, start, end, process };
    match command {
        raw::F_GETLK | raw::F_OFD_GETLK => tell(thread, a.word(2), text, locks.conflict(key, &wanted)).await,
        raw::F_SETLK | raw::F_OFD_SETLK => locks.try_lock(key, wanted).map(|()| 0),
        _ => thread.interruptible(locks.lock(key, wanted)).await?.map(|()| 0),
    }
}

/// Returns the first byte, and one behind the last.
async fn range(file: &OpenFile, text: &[u8]) -> Result<(u64, u64), Errno> {
    let whence = u32::from(text.get(2).copied().unwrap_or(0));
    let base = match whence {
        raw::SEEK_SET => 0,
        raw::SEEK_CUR => file.position.peek(),
        raw::SEEK_END => {
            let place = file.place().ok_or(Errno::EINVAL)?;
            place.system().attributes(place.node).await?.size_bytes
        }
        _ => return Err(Errno::EINVAL),
    };
    let base = i64::try_from(base).map_err(|_| Errno::EOVERFLOW)?;
    let start = base.checked_add(word(text, 8) as i64).ok_or(Errno::EOVERFLOW)?;
    let bytes = word(text, 16) as i64;
    let (first, end) = match bytes {
        0 => (start, i64::MAX),
        // The last byte may be the last that there is.
        1.. => match start.checked_add(bytes) {
            None if start.checked_add(bytes.saturating_sub(1)).is_none() => return Err(Errno::EOVERFLOW),
            end => (start, end.unwrap_or(i64::MAX)),
        },
        _ => (start.checked_add(bytes).ok_or(Errno::EINVAL)?, start),
    };
    let first = u64::try_from(first).map_err(|_| Errno::EINVAL)?;
    Ok((first, if end == i64::MAX { u64::MAX } else { end as u64 }))
}

async fn tell(thread: &Thread, out: u64, mut text: alloc::vec::Vec<u8>, conflict: Option<Lock>) -> Outcome {
    let Some(lock) = conflict else {
        text[..2].copy_from_slice(&(raw::F_UNLCK as u16).to_le_bytes());
        thread.copy_out(out, &text).await?;
        return Ok(0);
    };
    let kind = if lock.kind == Kind::Read { raw::F_RDLCK } else { raw::F_WRLCK };
    let bytes = if lock.end == u64::MAX { 0 } else { lock.end.saturating_sub(lock.start) };
    text[..2].copy_from_slice(&(kind as u16).to_le_bytes());
    text[2..4].copy_from_slice(&(raw::SEEK_SET as u16).to_le_bytes());
    text[8..16].copy_from_slice(&lock.start.to_le_bytes());
    text[16..24].copy_from_slice(&bytes.to_le_bytes());
    text[24..28].copy_from_slice(&lock.process.to_le_bytes());
    thread.copy_out(out, &text).await?;
    Ok(0)
}

/// `flock(fd, operation)`.
pub async fn flock(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let file = usable_file(thread, a.int(0))?;
    if !matches!(file.object(), Object::Regular | Object::Directory | Object::Device(_)) {
        return Err(Errno::EBADF);
    }
    let key = file.place().ok_or(Errno::EBADF)?.key();
    let owner = Owner::Whole(Arc::as_ptr(&file) as usize);
    let locks = &file.tenant().locks;
    let kind = match a.unsigned(1) & !raw::LOCK_NB {
        raw::LOCK_SH => Kind::Read,
        raw::LOCK_EX => Kind::Write,
        raw::LOCK_UN => {
            locks.unlock(key, owner, 0, u64::MAX);
            return Ok(0);
        }
        _ => return Err(Errno::EINVAL),
    };
    let wanted = Lock { owner, kind, start: 0, end: u64::MAX, process: -1 };
    if a.unsigned(1) & raw::LOCK_NB != 0 {
        locks.try_lock(key, wanted)?;
    } else {
        thread.interruptible(locks.lock(key, wanted)).await??;
    }
    Ok(0)
}
