//! Moving data between descriptors without the program touching them: sendfile, splice, tee, copy_file_range. Pages go by
//! reference wherever both ends allow it.

use super::read_write::{broken_pipe, deadline_of};
use super::{Patience, usable_file, wait_ready};
use crate::file::object::{Object, TURN_BYTES};
use crate::file::open_file::OpenFile;
use crate::file::transfer::{CALL_BYTES_MAX, UserBuffer};
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_interface::Ready;
use gyre_object::Bytes;
use linux_raw_sys::general as raw;

/// Bytes read at once for a socket: what one sending takes, so that little is looked up in vain.
const SEND_TURN_BYTES: usize = 64 * 1024;

/// The bytes from `from` on.
fn rest_of(pieces: &[Bytes], from: usize) -> Vec<Bytes> {
    let mut skip = from;
    let mut rest = Vec::new();
    for piece in pieces {
        let start = skip.min(piece.len());
        skip -= start;
        if start < piece.len() {
            rest.push(piece.slice(start, piece.len()));
        }
    }
    rest
}

fn length(pieces: &[Bytes]) -> usize {
    pieces.iter().map(Bytes::len).sum()
}

/// Writes pieces, waiting for room unless `nonblocking`. Answers the bytes taken, and why it stopped early.
async fn give_all(
    thread: &Thread,
    out: &OpenFile,
    at: Option<u64>,
    pieces: Vec<Bytes>,
    nonblocking: bool,
) -> (usize, Option<Errno>) {
    let total = length(&pieces);
    let deadline = deadline_of(out, Ready::WRITE);
    let mut done = 0;
    let mut patience = Patience::default();
    while done < total {
        let rest = if done == 0 { pieces.clone() } else { rest_of(&pieces, done) };
        let at = at.map(|at| at + done as u64);
        let outcome = match out.give(at, rest).await {
            Ok(0) => return (done, None),
            Ok(count) => {
                done += count;
                patience = Patience::default();
                Ok(())
            }
            Err(Errno::EAGAIN) if !nonblocking => {
                patience.again().await;
                wait_ready(thread, out, Ready::WRITE, deadline).await
            }
            Err(error) => Err(error),
        };
        if let Err(error) = outcome {
            return (done, Some(error));
        }
    }
    (done, None)
}

/// Where the source is read: a position of its own, or the open file's.
enum Place {
    At(u64),
    Position,
}

/// `sendfile(out, in, offset, bytes)`.
pub async fn sendfile(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let (out, source) = (usable_file(thread, a.int(0))?, usable_file(thread, a.int(1))?);
    if !source.is_readable() || !out.is_writable() {
        return Err(Errno::EBADF);
    }
    if !matches!(source.object(), Object::Regular | Object::Device(_)) || out.appends() {
        return Err(Errno::EINVAL);
    }
    let place = match a.word(2) {
        0 => Place::Position,
        address => Place::At(read_offset(thread, address).await?),
    };
    let (sent, end, error) =
        pump(thread, &source, &place, &out, a.size(3).min(CALL_BYTES_MAX), out.is_nonblocking()).await;
    if let (Place::At(_), true) = (&place, a.word(2) != 0) {
        thread.copy_out(a.word(2), &end.to_le_bytes()).await?;
    }
    finish(thread, sent, error)
}

fn finish(thread: &Thread, moved: usize, error: Option<Errno>) -> Outcome {
    match error {
        Some(error) if moved == 0 => Err(broken_pipe(thread, error)),
        _ => Ok(moved as u64),
    }
}

async fn read_offset(thread: &Thread, address: u64) -> Result<u64, Errno> {
    let mut offset = [0; 8];
    thread.copy_in(address, &mut offset).await?;
    u64::try_from(i64::from_le_bytes(offset)).map_err(|_| Errno::EINVAL)
}

/// Moves up to `bytes` from a file to anything. Answers the bytes moved, where reading would go on, and why it stopped early.
async fn pump(
    thread: &Thread,
    source: &OpenFile,
    place: &Place,
    out: &OpenFile,
    bytes: usize,
    nonblocking: bool,
) -> (usize, u64, Option<Errno>) {
    let held = match place {
        // One description at both ends has one position, and writing needs it.
        Place::Position if !core::ptr::eq(source, out) => Some(source.position.hold().await),
        _ => None,
    };
    let start = match (place, &held) {
        (Place::At(at), _) => *at,
        (Place::Position, Some(held)) => held.get(),
        (Place::Position, None) => source.position.peek(),
    };
    let mut moved = 0;
    let mut error = None;
    while moved < bytes && error.is_none() {
        let wanted = (bytes - moved).min(SEND_TURN_BYTES);
        // nothing is read that there is no room for
        if nonblocking && is_full_socket(out) {
            error = Some(Errno::EAGAIN);
            break;
        }
        let pieces = match source.take(start + moved as u64, wanted).await {
            Err(failed) => {
                error = Some(failed);
                break;
            }
            Ok(pieces) => pieces,
        };
        let found = length(&pieces);
        if found == 0 {
            break;
        }
        let (count, failed) = give_all(thread, out, None, pieces, nonblocking).await;
        moved += count;
        error = failed;
        if let Some(held) = &held {
            held.set(start + moved as u64);
        }
        if count < found {
            break;
        }
    }
    (moved, start + moved as u64, error)
}

fn is_full_socket(out: &OpenFile) -> bool {
    matches!(out.object(), Object::Socket(_)) && !out.ready().intersects(Ready::WRITE | Ready::ERROR | Ready::HANG_UP)
}

/// `splice(in, in_offset, out, out_offset, bytes, flags)`: one of both is a pipe.
pub async fn splice(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let (source, out) = (usable_file(thread, a.int(0))?, usable_file(thread, a.int(2))?);
    let (from_pipe, to_pipe) = (is_pipe(&source), is_pipe(&out));
    if !from_pipe && !to_pipe {
        return Err(Errno::EINVAL);
    }
    if from_pipe && a.word(1) != 0 || to_pipe && a.word(3) != 0 {
        return Err(Errno::ESPIPE);
    }
    let bytes = a.size(4).min(TURN_BYTES);
    if bytes == 0 {
        return Ok(0);
    }
    let nonblocking = a.unsigned(5) & raw::SPLICE_F_NONBLOCK != 0;
    let bytes = match out.object() {
        Object::Pipe(end) => bytes.min(wait_room(thread, &out, end, nonblocking).await?),
        _ => bytes,
    };
    if matches!(source.object(), Object::Regular) {
        return splice_file(thread, &source, &out, a.word(1), bytes, nonblocking).await;
    }
    let pieces = take_some(thread, &source, bytes, nonblocking).await?;
    let at = match a.word(3) {
        0 => None,
        address => Some(read_offset(thread, address).await?),
    };
    let (moved, error) = match (out.object(), at) {
        (Object::Regular, None) => {
            let position = out.position.hold().await;
            let moved = give_all(thread, &out, Some(position.get()), pieces, nonblocking).await;
            position.set(position.get() + moved.0 as u64);
            moved
        }
        _ => give_all(thread, &out, at, pieces, nonblocking && out.is_nonblocking()).await,
    };
    if let Some(at) = at {
        thread.copy_out(a.word(3), &(at + moved as u64).to_le_bytes()).await?;
    }
    finish(thread, moved, error)
}

async fn splice_file(
    thread: &Thread,
    source: &OpenFile,
    out: &OpenFile,
    offset: u64,
    bytes: usize,
    nonblocking: bool,
) -> Outcome {
    let place = match offset {
        0 => Place::Position,
        address => Place::At(read_offset(thread, address).await?),
    };
    let (moved, end, error) = pump(thread, source, &place, out, bytes, nonblocking).await;
    if offset != 0 {
        thread.copy_out(offset, &end.to_le_bytes()).await?;
    }
    finish(thread, moved, error)
}

fn is_pipe(file: &OpenFile) -> bool {
    matches!(file.object(), Object::Pipe(_))
}

/// Room in a pipe, at least one byte.
async fn wait_room(
    thread: &Thread,
    file: &OpenFile,
    end: &crate::file::pipe::PipeEnd,
    nonblocking: bool,
) -> Result<usize, Errno> {
    loop {
        match end.check_room(TURN_BYTES) {
            Err(Errno::EAGAIN) if !nonblocking => wait_ready(thread, file, Ready::WRITE, None).await?,
            Err(error) => return Err(broken_pipe(thread, error)),
            Ok(room) => return Ok(room),
        }
    }
}

/// Takes something from a stream, waiting for it unless `nonblocking`.
async fn take_some(thread: &Thread, source: &OpenFile, bytes: usize, nonblocking: bool) -> Result<Vec<Bytes>, Errno> {
    let nonblocking = nonblocking || source.is_nonblocking();
    let mut patience = Patience::default();
    loop {
        match source.take(0, bytes).await {
            Err(Errno::EAGAIN) if !nonblocking => {
                patience.again().await;
                wait_ready(thread, source, Ready::READ, deadline_of(source, Ready::READ)).await?;
            }
            outcome => return outcome,
        }
    }
}

/// `tee(in, out, bytes, flags)`: both are pipes; what is copied stays in the first.
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
    let (moved, error) = give_all(thread, &out, None, pieces, true).await;
    finish(thread, moved, error)
}

/// `vmsplice(fd, pieces, count, flags)`: copies, which is what a program can rely on.
pub async fn vmsplice(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let file = usable_file(thread, a.int(0))?;
    if !is_pipe(&file) {
        return Err(Errno::EBADF);
    }
    let mut buffer = UserBuffer::from_iovecs(thread, a.word(1), a.size(2)).await?;
    if file.is_writable() {
        super::read_write::write_file(thread, &file, &mut buffer, None).await
    } else {
        super::read_write::read_file(thread, &file, &mut buffer, None).await
    }
}

/// `copy_file_range(in, in_offset, out, out_offset, bytes, flags)`.
pub async fn copy_file_range(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let (source, out) = (usable_file(thread, a.int(0))?, usable_file(thread, a.int(2))?);
    if !source.is_readable() || !out.is_writable() || out.appends() {
        return Err(Errno::EBADF);
    }
    if !matches!((source.object(), out.object()), (Object::Regular, Object::Regular)) || a.unsigned(5) != 0 {
        return Err(Errno::EINVAL);
    }
    let bytes = a.size(4).min(CALL_BYTES_MAX);
    let from = position_or(thread, &source, a.word(1)).await?;
    let to = position_or(thread, &out, a.word(3)).await?;
    let mut moved = 0;
    let mut error = None;
    while moved < bytes && error.is_none() {
        let pieces = source.take(from + moved as u64, (bytes - moved).min(TURN_BYTES)).await?;
        if length(&pieces) == 0 {
            break;
        }
        let (count, failed) = give_all(thread, &out, Some(to + moved as u64), pieces, false).await;
        moved += count;
        error = failed;
    }
    move_position(thread, &source, a.word(1), from + moved as u64).await?;
    move_position(thread, &out, a.word(3), to + moved as u64).await?;
    finish(thread, moved, error)
}

async fn position_or(thread: &Thread, file: &OpenFile, address: u64) -> Result<u64, Errno> {
    match address {
        0 => Ok(file.position.peek()),
        address => read_offset(thread, address).await,
    }
}

async fn move_position(thread: &Thread, file: &OpenFile, address: u64, to: u64) -> Result<(), Errno> {
    match address {
        0 => {
            file.position.hold().await.set(to);
            Ok(())
        }
        address => thread.copy_out(address, &to.to_le_bytes()).await,
    }
}
