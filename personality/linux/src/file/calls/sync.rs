//! fsync and its family.

use super::usable_file;
use crate::file::losses;
use crate::file::object::Object;
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::sync::Arc;
use linux_raw_sys::general as raw;

/// `fsync(fd)` and `fdatasync(fd)`.
pub async fn fsync(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let file = usable_file(thread, a.int(0))?;
    match (file.object(), file.place()) {
        (Object::Regular | Object::Directory, Some(place)) => losses::sync(&file, place).await?,
        _ => return Err(Errno::EINVAL),
    }
    Ok(0)
}

/// `syncfs(fd)`.
pub async fn syncfs(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let file = usable_file(thread, a.int(0))?;
    if let Some(place) = file.place() {
        place.system().sync_all().await?;
    }
    Ok(0)
}

/// `sync()`: never fails.
pub async fn sync(thread: &Arc<Thread>, _a: Arguments) -> Outcome {
    for mount in thread.process().files().tenant().mounts.all() {
        // sync(2) has no way to tell; fsync of the file does.
        let _ = mount.system.sync_all().await;
    }
    Ok(0)
}

/// `sync_file_range(fd, offset, bytes, flags)`: contents only; 0 bytes reach to the end. Writing that is started is also waited for, as
/// Linux may do.
pub async fn sync_file_range(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let file = usable_file(thread, a.int(0))?;
    let known = raw::SYNC_FILE_RANGE_WAIT_BEFORE | raw::SYNC_FILE_RANGE_WRITE | raw::SYNC_FILE_RANGE_WAIT_AFTER;
    let (offset, bytes) = (a.word(1), a.word(2));
    let end = offset.checked_add(bytes).filter(|end| (offset | bytes | end) >> 63 == 0);
    if a.unsigned(3) & !known != 0 || end.is_none() {
        return Err(Errno::EINVAL);
    }
    let (Object::Regular, Some(place)) = (file.object(), file.place()) else {
        return if matches!(file.object(), Object::Directory) { Ok(0) } else { Err(Errno::ESPIPE) };
    };
    if a.unsigned(3) != 0 {
        losses::tell(&file, place, place.system().write_back(place.node, offset, bytes).await).await?;
    }
    Ok(0)
}
