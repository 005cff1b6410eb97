//! lseek.

use super::usable_file;
use crate::file::object::Object;
use crate::file::open_file::OpenFile;
use crate::file::regular::OFFSET_MAX;
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::sync::Arc;
use gyre_interface::files::{FileError, Sought};
use linux_raw_sys::general as raw;

/// `lseek(fd, offset, from)`.
pub async fn lseek(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let file = usable_file(thread, a.int(0))?;
    if !file.object().is_seekable() {
        return Err(Errno::ESPIPE);
    }
    if let Object::Device(_) = file.object() {
        return Ok(0);
    }
    let position = file.position.hold().await;
    let offset = a.signed(1);
    let target = match a.unsigned(2) {
        raw::SEEK_SET => Some(offset),
        raw::SEEK_CUR => position.get().try_into().ok().and_then(|at: i64| at.checked_add(offset)),
        raw::SEEK_END => i64::try_from(size_of(&file).await?).ok().and_then(|end| end.checked_add(offset)),
        raw::SEEK_DATA => Some(data_or_hole(&file, offset, Sought::Data).await?),
        raw::SEEK_HOLE => Some(data_or_hole(&file, offset, Sought::Hole).await?),
        _ => return Err(Errno::EINVAL),
    };
    let target = target.ok_or(Errno::EINVAL)?;
    let target = u64::try_from(target).ok().filter(|target| *target <= OFFSET_MAX);
    position.set(target.ok_or(Errno::EINVAL)?);
    Ok(position.get())
}

/// `lseek` that needs no request.
pub fn lseek_at_once(thread: &Arc<Thread>, a: Arguments) -> Option<Outcome> {
    let file = usable_file(thread, a.int(0)).ok()?;
    if !matches!(file.object(), Object::Regular | Object::Directory) {
        return None;
    }
    let position = file.position.try_hold()?;
    let target = match a.unsigned(2) {
        raw::SEEK_SET => a.signed(1),
        raw::SEEK_CUR => i64::try_from(position.get()).ok()?.checked_add(a.signed(1))?,
        _ => return None,
    };
    let target = u64::try_from(target).ok().filter(|target| *target <= OFFSET_MAX)?;
    position.set(target);
    Some(Ok(target))
}

async fn size_of(file: &OpenFile) -> Result<u64, Errno> {
    let place = file.place().ok_or(Errno::EINVAL)?;
    Ok(place.system().attributes(place.node).await?.size_bytes)
}

async fn data_or_hole(file: &OpenFile, offset: i64, sought: Sought) -> Result<i64, Errno> {
    let place = file.place().filter(|_| matches!(file.object(), Object::Regular)).ok_or(Errno::EINVAL)?;
    let offset = u64::try_from(offset).map_err(|_| Errno::ENXIO)?;
    match place.system().seek(place.node, offset, sought).await {
        Err(FileError::NotFound) => Err(Errno::ENXIO),
        answer => i64::try_from(answer?).map_err(|_| Errno::EOVERFLOW),
    }
}
