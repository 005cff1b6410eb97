//! madvise(2) with MADV_REMOVE: a hole in all files and shared memory that a range shows.

use crate::file::calls::space;
use crate::file::mapped;
use crate::{Errno, Thread};
use alloc::sync::Arc;
use core::ops::Range;
use gyre_address_space::{Removal, SharedMemory};
use linux_raw_sys::general as raw;

/// Removes what a range shows, for all who share it.
///
/// # Errors
/// EINVAL for locked memory and for a program's own, EACCES for a mapping that is private or may not be written, the file system's: all before
/// is removed then. ENOMEM for a hole, beside which all is.
pub(super) async fn remove(thread: &Thread, address: u64, bytes: u64) -> Result<(), Errno> {
    let removals = thread.space().removals(address, bytes)?;
    for part in removals.parts {
        match part {
            Removal::File(file, part) => {
                let (file, place) = mapped::described(&file).ok_or(Errno::EOPNOTSUPP)?;
                space::punch(thread, place, part.start, part.end.saturating_sub(part.start)).await?;
                file.tell(raw::IN_MODIFY);
            }
            Removal::Memory(memory, part) => remove_shared(thread, &memory, part).await,
        }
    }
    Ok(removals.end?)
}

async fn remove_shared(thread: &Thread, memory: &Arc<SharedMemory>, part: Range<u64>) {
    memory.remove(part.clone()).await;
    let processes = thread.tenant().tree.lock().processes();
    for process in processes {
        process.space().forget_shared(memory, part.clone()).await;
    }
}
