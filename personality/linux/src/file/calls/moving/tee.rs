//! `tee` and `vmsplice`: what copies into or out of pipes.

use super::splice::wait_room;
use super::{Moved, is_pipe};
use crate::file::calls::{read_write, usable_file, wait_ready};
use crate::file::object::Object;
use crate::file::transfer::UserBuffer;
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::sync::Arc;
use gyre_interface::Ready;
use linux_raw_sys::general as raw;

/// `tee(in, out, bytes, flags)`: both are pipes; what is copied stays in the first.
///
/// # Errors
/// EINVAL for what is no pipe, or one pipe; EAGAIN, EPIPE.
pub async fn tee(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let (source, out) = (usable_file(thread, a.int(0))?, usable_file(thread, a.int(1))?);
    let (Object::Pipe(from), Object::Pipe(to)) = (source.object(), out.object()) else {
        return Err(Errno::EINVAL);
    };
    if Arc::ptr_eq(from.pipe(), to.pipe()) {
        return Err(Errno::EINVAL);
    }
    let nonblocking = a.unsigned(3) & raw::SPLICE_F_NONBLOCK != 0;
    let room = wait_room(thread, &out, to, nonblocking).await?;
    let bytes = a.size(2).min(room);
    let pieces = loop {
        match from.peek(bytes) {
            Err(Errno::EAGAIN) if !nonblocking => wait_ready(thread, &source, Ready::READ, None).await?,
            outcome => break outcome?,
        }
    };
    if pieces.is_empty() {
        return Ok(0);
    }
    let given = out.tenant().passage.give(&out, None, pieces).await;
    Moved { bytes: given.unwrap_or(0), error: given.err() }.outcome(thread)
}

/// `vmsplice(fd, pieces, count, flags)`: copies, which is what a program can rely on.
///
/// # Errors
/// EBADF for what is no pipe; as writev and readv.
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
