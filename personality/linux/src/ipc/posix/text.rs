//! Reading a queue's descriptor: the text that tells of it.

use super::Queue;
use crate::Errno;
use crate::file::buffer::UserBuffer;
use crate::file::object::read_small;
use crate::file::open_file::OpenFile;

/// Reads from the text that tells of a message queue, at `at` or the position.
///
/// # Errors
/// EFAULT.
pub(crate) async fn read(
    file: &OpenFile,
    queue: &Queue,
    buffer: &mut UserBuffer<'_>,
    at: Option<u64>,
) -> Result<usize, Errno> {
    if let Some(at) = at {
        return read_small(buffer, |into| Ok(queue.read(into, at))).await;
    }
    let position = file.position.hold().await;
    let count = read_small(buffer, |into| Ok(queue.read(into, position.get()))).await?;
    position.set(position.get().saturating_add(count as u64));
    Ok(count)
}
