//! `splice` between a pipe and any object: data moves by reference.
//!
//! Data from a file goes as in sendfile; data from a pipe or socket is taken, given at once as far as there is room,
//! and the rest on the slow path. Data that finds no room goes back into a pipe, but cannot into a socket: it is then
//! queued beyond the capacity.
//!
//! States of a call: wait for room in the target pipe, take, give, then the slow path for the rest. Only the first of
//! these waits while nothing is taken, so a signal loses no data. A [`Taken`] that is dropped gives the rest back to
//! its pipe.
//!
//! Offsets are of files alone (ESPIPE for pipes); one given by the program is advanced by the bytes that were moved.

use super::{Moved, is_pipe, length, read_offset, sendfile, slow_path};
use crate::file::calls::read_write::{broken_pipe, deadline_of};
use crate::file::calls::{Attempts, usable_file};
use crate::file::object::{CHUNK_BYTES, Object};
use crate::file::open_file::OpenFile;
use crate::file::pipe::PipeEnd;
use crate::file::size_limit;
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_interface::{Position, Ready};
use gyre_object::Bytes;
use linux_raw_sys::general as raw;

/// `splice(in, in_offset, out, out_offset, bytes, flags)`: one of both is a pipe.
///
/// # Errors
/// EBADF, EINVAL, ESPIPE, EFAULT, EAGAIN; those of both ends if nothing was moved.
pub async fn splice(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let bytes = a.size(4).min(CHUNK_BYTES);
    if bytes == 0 {
        return Ok(0);
    }
    if a.unsigned(5) & !FLAGS != 0 {
        return Err(Errno::EINVAL);
    }
    let (source, out) = (usable_file(thread, a.int(0))?, usable_file(thread, a.int(2))?);
    let (from_pipe, to_pipe) = (is_pipe(&source), is_pipe(&out));
    if from_pipe && a.word(1) != 0 || to_pipe && a.word(3) != 0 {
        return Err(Errno::ESPIPE);
    }
    check_ends(&source, &out)?;
    if !from_pipe && !to_pipe {
        return Err(Errno::EINVAL);
    }
    let nonblocking = a.unsigned(5) & raw::SPLICE_F_NONBLOCK != 0;
    match out.object() {
        Object::Pipe(end) => {
            let nonblocking = nonblocking || out.is_nonblocking();
            to_pipe_end(thread, &source, a.word(1), &out, end, bytes, nonblocking).await
        }
        _ => from_pipe_end(thread, &source, &out, a.word(3), bytes, nonblocking).await,
    }
}

/// The known flags of splice and tee.
pub(super) const FLAGS: u32 = raw::SPLICE_F_MOVE | raw::SPLICE_F_NONBLOCK | raw::SPLICE_F_MORE | raw::SPLICE_F_GIFT;

/// Checks that the one may be read, the other written, and that they are not the same pipe.
///
/// # Errors
/// EBADF, EINVAL.
pub(super) fn check_ends(source: &OpenFile, out: &OpenFile) -> Result<(), Errno> {
    if !source.is_readable() || !out.is_writable() {
        return Err(Errno::EBADF);
    }
    match (source.object(), out.object()) {
        (Object::Pipe(from), Object::Pipe(to)) if Arc::ptr_eq(from.pipe(), to.pipe()) => Err(Errno::EINVAL),
        _ => Ok(()),
    }
}

async fn to_pipe_end(
    thread: &Arc<Thread>,
    source: &Arc<OpenFile>,
    offset: u64,
    out: &Arc<OpenFile>,
    end: &PipeEnd,
    bytes: usize,
    nonblocking: bool,
) -> Outcome {
    loop {
        let bytes = bytes.min(wait_room(thread, out, end, nonblocking).await?);
        if matches!(source.object(), Object::Regular) {
            return sendfile::send(thread, source, offset, out, bytes, nonblocking).await;
        }
        let mut taken = take_some(thread, source, bytes, nonblocking).await?;
        let moved = into_room(&mut taken, out, end).await.map_err(|error| broken_pipe(thread, error))?;
        if moved > 0 || taken.pieces.is_empty() {
            return Ok(moved as u64);
        }
        if nonblocking {
            return Err(Errno::EAGAIN);
        }
    }
}

/// Puts taken data into a pipe that had room for it. If others have used the room meanwhile, data from a socket goes
/// beyond the capacity, for it has no way back.
async fn into_room(taken: &mut Taken<'_>, out: &Arc<OpenFile>, end: &PipeEnd) -> Result<usize, Errno> {
    if taken.pieces.is_empty() {
        return Ok(0);
    }
    let given = match out.tenant().passage.give(out, None, taken.pieces.clone()).await {
        Err(Errno::EAGAIN) => 0,
        result => result?,
    };
    taken.skip(given);
    if taken.pieces.is_empty() || is_pipe(taken.from) {
        return Ok(given);
    }
    Ok(given.saturating_add(end.give_beyond(&core::mem::take(&mut taken.pieces))?))
}

async fn from_pipe_end(
    thread: &Arc<Thread>,
    source: &Arc<OpenFile>,
    out: &Arc<OpenFile>,
    offset: u64,
    bytes: usize,
    nonblocking: bool,
) -> Outcome {
    // The flag is about pipes; a socket has its own.
    let nonblocking_out = out.is_nonblocking();
    let at = if offset == 0 { None } else { Some(read_offset(thread, offset).await?) };
    at.map_or(Some(Position::START), |at| at.plus(bytes as u64)).ok_or(Errno::EINVAL)?;
    let bytes = size_limit::permitted_in(thread, out, at.map(Position::get), bytes)?;
    let taken = take_some(thread, source, bytes, nonblocking).await?;
    let moved = match (out.object(), at) {
        (Object::Regular, None) => {
            let position = out.position.hold().await;
            let moved = give_all(thread, taken, out, Position::new(position.get()), nonblocking_out).await;
            position.advance(moved.bytes);
            moved
        }
        _ => give_all(thread, taken, out, at, nonblocking_out).await,
    };
    if let Some(at) = at {
        thread.copy_out(offset, &at.advanced(moved.bytes as u64).get().to_le_bytes()).await?;
    }
    moved.outcome(thread)
}

/// Data taken from a stream. If that is a pipe, the rest goes back when this is dropped.
struct Taken<'a> {
    pieces: Vec<Bytes>,
    from: &'a OpenFile,
}

impl Taken<'_> {
    fn skip(&mut self, count: usize) {
        gyre_flow::skip(&mut self.pieces, count);
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if let (Object::Pipe(end), false) = (self.from.object(), self.pieces.is_empty()) {
            end.put_back(core::mem::take(&mut self.pieces));
        }
    }
}

/// Writes taken data: at once as much as there is room for, the rest on the slow path unless `nonblocking`.
async fn give_all(
    thread: &Arc<Thread>,
    mut taken: Taken<'_>,
    out: &Arc<OpenFile>,
    at: Option<Position>,
    nonblocking: bool,
) -> Moved {
    if taken.pieces.is_empty() {
        return Moved { bytes: 0, error: None };
    }
    let total = length(&taken.pieces);
    let given = out.tenant().passage.give(out, at.map(Position::get), taken.pieces.clone()).await;
    let bytes = given.unwrap_or(0);
    taken.skip(bytes);
    let goes_on = match given {
        Ok(count) => 0 < count && count < total && !nonblocking,
        Err(error) => error == Errno::EAGAIN && !nonblocking,
    };
    if !goes_on {
        return Moved { bytes, error: given.err() };
    }
    let at = at.map(|at| at.advanced(bytes as u64));
    let rest = Box::pin(slow_path::held(thread, taken.pieces.clone(), out, at)).await;
    taken.skip(rest.bytes);
    Moved { bytes: bytes.saturating_add(rest.bytes), error: rest.error }
}

/// Waits for room in a pipe, at least one byte.
pub(super) async fn wait_room(
    thread: &Thread,
    file: &OpenFile,
    end: &PipeEnd,
    nonblocking: bool,
) -> Result<usize, Errno> {
    let mut attempts = Attempts::default();
    loop {
        match end.check_room(CHUNK_BYTES) {
            Err(Errno::EAGAIN) if !nonblocking => attempts.wait(thread, file, Ready::WRITE, None).await?,
            Err(error) => return Err(broken_pipe(thread, error)),
            Ok(room) => return Ok(room),
        }
    }
}

/// Takes something from a stream, waiting for it unless `nonblocking`.
async fn take_some<'a>(
    thread: &Thread,
    source: &'a Arc<OpenFile>,
    bytes: usize,
    nonblocking: bool,
) -> Result<Taken<'a>, Errno> {
    let nonblocking = nonblocking || source.is_nonblocking();
    let mut attempts = Attempts::default();
    loop {
        match source.tenant().passage.take(source, 0, bytes).await {
            Err(Errno::EAGAIN) if !nonblocking => {
                attempts.wait(thread, source, Ready::READ, deadline_of(source, Ready::READ)).await?;
            }
            outcome => return outcome.map(|pieces| Taken { pieces, from: source }),
        }
    }
}
