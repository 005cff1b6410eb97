//! fsync and its family.

use super::usable_file;
use crate::file::object::Object;
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::sync::Arc;
use linux_raw_sys::general as raw;

/// `fsync(fd)` and `fdatasync(fd)`.
pub async fn fsync(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let file = usable_file(thread, a.int(0))?;
    match (file.object(), file.place()) {
        (Object::Regular | Object::Directory, Some(place)) => place.system().sync(place.node).await?,
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

/// `sync_file_range(fd, offset, bytes, flags)`: brings the file's dirty pages to the device, without a promise that they stay there.
pub async fn sync_file_range(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let known = raw::SYNC_FILE_RANGE_WAIT_BEFORE | raw::SYNC_FILE_RANGE_WRITE | raw::SYNC_FILE_RANGE_WAIT_AFTER;
    let file = usable_file(thread, a.int(0))?;
    let end = a.signed(1).checked_add(a.signed(2));
    if a.unsigned(3) & !known != 0 || a.signed(1) < 0 || end.is_none_or(|end| end < a.signed(1)) {
        return Err(Errno::EINVAL);
    }
    match (file.object(), file.place()) {
        (Object::Regular, Some(place)) if a.unsigned(3) != 0 => place.system().write_out(place.node).await?,
        (Object::Regular | Object::Directory, Some(_)) => {}
        _ => return Err(Errno::ESPIPE),
    }
    Ok(0)
}
