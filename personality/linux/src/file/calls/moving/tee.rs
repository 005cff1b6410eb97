//! `tee` and `vmsplice`: copies into or out of pipes.

use super::splice::{FLAGS, check_ends, wait_room};
use super::{Moved, is_pipe};
use crate::file::buffer::UserBuffer;
use crate::file::calls::{Attempts, read_write, usable_file};
use crate::file::object::Object;
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::sync::Arc;
use gyre_interface::Ready;
use linux_raw_sys::general as raw;

/// `tee(in, out, bytes, flags)`: both are pipes; the copied bytes stay in the first.
///
/// # Errors
/// EINVAL for unknown flags, an object that is no pipe, or one pipe twice; EBADF for an end of the wrong side;
/// EAGAIN, EPIPE.
pub async fn tee(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    if a.unsigned(3) & !FLAGS != 0 {
        return Err(Errno::EINVAL);
    }
    if a.size(2) == 0 {
        return Ok(0);
    }
    let (source, out) = (usable_file(thread, a.int(0))?, usable_file(thread, a.int(1))?);
    check_ends(&source, &out)?;
    let (Object::Pipe(from), Object::Pipe(to)) = (source.object(), out.object()) else {
        return Err(Errno::EINVAL);
    };
    let asked = a.unsigned(3) & raw::SPLICE_F_NONBLOCK != 0;
    let nonblocking = asked || source.is_nonblocking() || out.is_nonblocking();
    let mut attempts = Attempts::default();
    let pieces = loop {
        match from.peek(1) {
            Ok(none) if none.is_empty() => return Ok(0),
            Ok(_) => {}
            Err(Errno::EAGAIN) if !nonblocking => {
                attempts.wait(thread, &source, Ready::READ, None).await?;
                continue;
            }
            Err(error) => return Err(error),
        }
        let room = wait_room(thread, &out, to, nonblocking).await?;
        match from.peek(a.size(2).min(room)) {
            // Another call has taken the bytes while this one waited for room.
            Err(Errno::EAGAIN) if !nonblocking => {}
            outcome => break outcome?,
        }
    };
    if pieces.is_empty() {
        return Ok(0);
    }
    let given = out.tenant().passage.give(&out, None, pieces).await;
    Moved { bytes: given.unwrap_or(0), error: given.err() }.outcome(thread)
}

/// `vmsplice(fd, pieces, count, flags)`: copies; programs can rely on no more.
///
/// # Errors
/// EBADF if it is no pipe; as writev and readv.
pub async fn vmsplice(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let file = usable_file(thread, a.int(0))?;
    if !is_pipe(&file) {
        return Err(Errno::EBADF);
    }
    let mut buffer = UserBuffer::from_iovecs(thread, a.word(1), a.size(2)).await?;
    if file.is_writable() {
        read_write::write_file(thread, &file, &mut buffer, None).await
    } else {
        read_write::read_file(thread, &file, &mut buffer, None).await
    }
}
