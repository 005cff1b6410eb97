//! `sendfile`, and `splice` from a file: from a position of the call's own, or the open file's.

use super::file_move::FileMove;
use super::{Moved, read_offset};
use crate::file::buffer::CALL_BYTES_MAX;
use crate::file::calls::usable_file;
use crate::file::object::Object;
use crate::file::open_file::OpenFile;
use crate::file::size_limit;
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::sync::Arc;
use gyre_interface::Position;

/// `sendfile(out, in, offset, bytes)`.
///
/// # Errors
/// EBADF, EINVAL for a source that is no file or a sink with O_APPEND, EFAULT; those of the source and the sink if nothing was moved.
pub async fn sendfile(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let (out, source) = (usable_file(thread, a.int(0))?, usable_file(thread, a.int(1))?);
    if !source.is_readable() || !out.is_writable() {
        return Err(Errno::EBADF);
    }
    if !matches!(source.object(), Object::Regular | Object::Device(_)) || out.appends() {
        return Err(Errno::EINVAL);
    }
    send(thread, &source, a.word(2), &out, a.size(3).min(CALL_BYTES_MAX), out.is_nonblocking()).await
}

/// Moves from the offset at an address, which is updated, or from the position if the address is 0.
///
/// # Errors
/// As [`sendfile`].
pub(super) async fn send(
    thread: &Arc<Thread>,
    source: &Arc<OpenFile>,
    offset: u64,
    out: &Arc<OpenFile>,
    bytes: usize,
    nonblocking: bool,
) -> Outcome {
    let bytes = size_limit::permitted_in(thread, out, None, bytes)?;
    let from = |from| FileMove { thread, source, from, out, to: None, bytes, nonblocking };
    if offset == 0 {
        return from_position(source, out, from).await.outcome(thread);
    }
    let start = read_offset(thread, offset).await?;
    start.plus(bytes as u64).ok_or(Errno::EINVAL)?;
    let moved = from(start).run().await;
    thread.copy_out(offset, &start.advanced(moved.bytes as u64).get().to_le_bytes()).await?;
    moved.outcome(thread)
}

/// Returns an open file's position, which lies in the range always.
fn place(position: u64) -> Position {
    Position::START.advanced(position)
}

async fn from_position<'a>(source: &OpenFile, out: &OpenFile, from: impl Fn(Position) -> FileMove<'a>) -> Moved {
    // One description at both ends has one position, and writing needs it.
    if core::ptr::eq(source, out) {
        return from(place(source.position.peek())).run().await;
    }
    let held = source.position.hold().await;
    let moved = from(place(held.get())).run().await;
    held.advance(moved.bytes);
    moved
}
