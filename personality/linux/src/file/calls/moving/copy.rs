//! `copy_file_range`: from a file to a file.

use super::file_move::FileMove;
use super::read_offset;
use crate::file::buffer::CALL_BYTES_MAX;
use crate::file::calls::usable_file;
use crate::file::object::Object;
use crate::file::open_file::OpenFile;
use crate::file::size_limit;
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::sync::Arc;
use gyre_interface::Position;

/// `copy_file_range(in, in_offset, out, out_offset, bytes, flags)`.
///
/// # Errors
/// EBADF, EINVAL if one is no regular file and for overlapping ranges of one file, EFAULT; those of both files if
/// nothing was copied.
pub async fn copy_file_range(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let (source, out) = (usable_file(thread, a.int(0))?, usable_file(thread, a.int(2))?);
    if !source.is_readable() || !out.is_writable() || out.appends() {
        return Err(Errno::EBADF);
    }
    if !matches!((source.object(), out.object()), (Object::Regular, Object::Regular)) || a.unsigned(5) != 0 {
        return Err(Errno::EINVAL);
    }
    let from = position_or(thread, &source, a.word(1)).await?;
    let to = position_or(thread, &out, a.word(3)).await?;
    let bytes = a.size(4).min(CALL_BYTES_MAX);
    if overlaps(&source, from, &out, to, bytes).await? {
        return Err(Errno::EINVAL);
    }
    let bytes = size_limit::permitted(thread, to.get(), bytes)?;
    let (source, out) = (&source, &out);
    let moved = FileMove { thread, source, from, out, to: Some(to), bytes, nonblocking: false }.run().await;
    move_position(thread, source, a.word(1), from.advanced(moved.bytes as u64)).await?;
    move_position(thread, out, a.word(3), to.advanced(moved.bytes as u64)).await?;
    moved.outcome(thread)
}

/// Returns whether both are one file and the copy would overwrite its own source.
async fn overlaps(
    source: &OpenFile,
    from: Position,
    out: &OpenFile,
    to: Position,
    bytes: usize,
) -> Result<bool, Errno> {
    let (Some(place), Some(other)) = (source.place(), out.place()) else { return Ok(false) };
    if !place.same(other) {
        return Ok(false);
    }
    let size = place.system().attributes(place.node).await?.size_bytes;
    let bytes = size.saturating_sub(from.get()).min(bytes as u64);
    Ok(bytes > 0 && from.advanced(bytes) > to && to.advanced(bytes) > from)
}

async fn position_or(thread: &Thread, file: &OpenFile, address: u64) -> Result<Position, Errno> {
    match address {
        0 => Position::new(file.position.peek()).ok_or(Errno::EOVERFLOW),
        address => read_offset(thread, address).await,
    }
}

async fn move_position(thread: &Thread, file: &OpenFile, address: u64, to: Position) -> Result<(), Errno> {
    match address {
        0 => {
            file.position.hold().await.set(to.get());
            Ok(())
        }
        address => thread.copy_out(address, &to.get().to_le_bytes()).await,
    }
}
