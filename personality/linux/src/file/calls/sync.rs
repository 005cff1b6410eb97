//! fsync and its family.

use super::usable_file;
use crate::file::object::Object;
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::sync::Arc;

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

/// `sync_file_range(fd, offset, bytes, flags)`: the whole file.
pub async fn sync_file_range(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    match fsync(thread, a).await {
        Err(Errno::EINVAL) => Err(Errno::ESPIPE),
        outcome => outcome,
    }
}
