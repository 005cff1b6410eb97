//! read, write and their vectored and positioned forms.
//!
//! Each call has up to two forms: one that runs at once, in a few hundred instructions, if the data is in memory or
//! the object has some (`…_at_once`, which answers `None` before it has changed anything), and one that may wait.
//!
//! [`read_file`] and [`write_file`] are the waiting ones for all kinds of objects; io_uring and io_submit use them,
//! too. They repeat an attempt that answers EAGAIN when the file is ready again ([`Attempts`]). A short read is an
//! answer; a short write to a stream is continued until all is written. A broken pipe sends SIGPIPE.

use super::{Attempts, may_wait, usable_file};
use crate::file::buffer::{Range, UserBuffer};
use crate::file::cached::{self, COPY_BYTES_MAX};
use crate::file::device::Device;
use crate::file::losses;
use crate::file::object::Object;
use crate::file::open_file::OpenFile;
use crate::task::shortage;
use crate::time::cycles_from_now;
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use gyre_interface::Ready;
use linux_raw_sys::general as raw;

/// `read(fd, buffer, bytes)`.
pub async fn read(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let file = usable_file(thread, a.int(0))?;
    let mut buffer = UserBuffer::new(thread, a.word(1), a.size(2));
    read_file(thread, &file, &mut buffer, None).await
}

/// `write(fd, buffer, bytes)`.
pub async fn write(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let file = usable_file(thread, a.int(0))?;
    let mut buffer = UserBuffer::new(thread, a.word(1), a.size(2));
    write_file(thread, &file, &mut buffer, None).await
}

/// Times that one write waits for memory before it fails: other calls may take the memory that was made free for it.
const REFUSALS_MAX: usize = 64;
/// Bytes that a call moves at once at most.
const AT_ONCE_BYTES: usize = 64;

/// A few bytes on their way through the stack.
struct Few {
    bytes: [u8; AT_ONCE_BYTES],
    count: usize,
}

impl AsRef<[u8]> for Few {
    fn as_ref(&self) -> &[u8] {
        self.bytes.get(..self.count).unwrap_or(&[])
    }
}

/// `pread64` of a file that is in memory.
pub fn pread64_at_once(thread: &Arc<Thread>, a: Arguments) -> Option<Outcome> {
    let (bytes, offset) = (a.size(2), u64::try_from(a.signed(3)).ok()?);
    let file = usable_file(thread, a.int(0)).ok().filter(|file| file.is_readable())?;
    if bytes == 0 || bytes > COPY_BYTES_MAX || !matches!(file.object(), Object::Regular) {
        return None;
    }
    cached::read(&file, thread, Range { address: a.word(1), bytes }, Some(offset)).map(|count| Ok(count as u64))
}

/// `read` of a file in memory, or of a few bytes from an object that has some, into present pages.
pub fn read_at_once(thread: &Arc<Thread>, a: Arguments) -> Option<Outcome> {
    let bytes = a.size(2);
    if bytes == 0 || bytes > COPY_BYTES_MAX {
        return None;
    }
    let file = usable_file(thread, a.int(0)).ok().filter(|file| file.is_readable())?;
    match file.object() {
        Object::Regular => {
            return cached::read(&file, thread, Range { address: a.word(1), bytes }, None)
                .map(|count| Ok(count as u64));
        }
        Object::Pipe(_) | Object::Event(_) if bytes <= AT_ONCE_BYTES => {}
        Object::Device(Device::Zero | Device::Full) if bytes <= AT_ONCE_BYTES => {
            let zeroes = [0; AT_ONCE_BYTES];
            let zeroes = zeroes.get(..bytes)?;
            let done = thread.with_space(|space| space.copy_out_at_once(a.word(1), zeroes));
            return done.then_some(Ok(bytes as u64));
        }
        Object::Device(Device::Null) => return Some(Ok(0)),
        _ => return None,
    }
    let take = |few: &mut Few| match file.object() {
        Object::Pipe(end) => end.read(few.bytes.get_mut(..bytes)?).ok(),
        Object::Event(event) => event.read(few.bytes.get_mut(..bytes)?).ok(),
        _ => None,
    };
    let source = || {
        let mut few = Few { bytes: [0; AT_ONCE_BYTES], count: 0 };
        few.count = take(&mut few)?;
        Some(few)
    };
    thread.space().fill_at_once(a.word(1), bytes, source).map(|count| Ok(count as u64))
}

/// `pwrite64` over pages of a file in memory.
pub fn pwrite64_at_once(thread: &Arc<Thread>, a: Arguments) -> Option<Outcome> {
    let (bytes, offset) = (a.size(2), u64::try_from(a.signed(3)).ok()?);
    let file = usable_file(thread, a.int(0)).ok().filter(|file| file.is_writable())?;
    if bytes == 0 || bytes > COPY_BYTES_MAX || !matches!(file.object(), Object::Regular) {
        return None;
    }
    cached::write(&file, thread, Range { address: a.word(1), bytes }, Some(offset)).map(|count| Ok(count as u64))
}

/// `write` over pages of a file in memory, or of a few bytes from a present page to a pipe or event counter that has
/// room.
pub fn write_at_once(thread: &Arc<Thread>, a: Arguments) -> Option<Outcome> {
    let bytes = a.size(2);
    if bytes == 0 || bytes > COPY_BYTES_MAX {
        return None;
    }
    let file = usable_file(thread, a.int(0)).ok().filter(|file| file.is_writable())?;
    let object = file.object();
    if matches!(object, Object::Regular) {
        return cached::write(&file, thread, Range { address: a.word(1), bytes }, None).map(|count| Ok(count as u64));
    }
    if bytes > AT_ONCE_BYTES {
        return None;
    }
    if !matches!(object, Object::Pipe(_)) && !(matches!(object, Object::Event(_)) && bytes == 8) {
        return None;
    }
    let mut few = Few { bytes: [0; AT_ONCE_BYTES], count: bytes };
    if !thread.space().copy_in_at_once(a.word(1), few.bytes.get_mut(..bytes)?) {
        return None;
    }
    match object {
        // A small write goes in as a whole or not at all; the waiting form finds its error again.
        Object::Pipe(end) => end.write(few.as_ref()).ok().map(|count| Ok(count as u64)),
        Object::Event(event) => event.add(u64::from_le_bytes(*few.bytes.first_chunk()?)).ok().map(|_| Ok(bytes as u64)),
        _ => None,
    }
}

/// `readv(fd, pieces, count)`.
pub async fn readv(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let file = usable_file(thread, a.int(0))?;
    let mut buffer = UserBuffer::from_iovecs(thread, a.word(1), a.size(2)).await?;
    read_file(thread, &file, &mut buffer, None).await
}

/// `writev(fd, pieces, count)`.
pub async fn writev(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let file = usable_file(thread, a.int(0))?;
    let mut buffer = UserBuffer::from_iovecs(thread, a.word(1), a.size(2)).await?;
    write_file(thread, &file, &mut buffer, None).await
}

/// `pread64(fd, buffer, bytes, offset)`.
pub async fn pread64(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let file = usable_file(thread, a.int(0))?;
    let offset = offset_in(&file, a.signed(3))?;
    let mut buffer = UserBuffer::new(thread, a.word(1), a.size(2));
    read_file(thread, &file, &mut buffer, Some(offset)).await
}

/// `pwrite64(fd, buffer, bytes, offset)`.
pub async fn pwrite64(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let file = usable_file(thread, a.int(0))?;
    let offset = offset_in(&file, a.signed(3))?;
    let mut buffer = UserBuffer::new(thread, a.word(1), a.size(2));
    write_file(thread, &file, &mut buffer, Some(offset)).await
}

/// `preadv(fd, pieces, count, offset)`.
pub async fn preadv(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let file = usable_file(thread, a.int(0))?;
    let offset = offset_in(&file, a.signed(3))?;
    let mut buffer = UserBuffer::from_iovecs(thread, a.word(1), a.size(2)).await?;
    read_file(thread, &file, &mut buffer, Some(offset)).await
}

/// `pwritev(fd, pieces, count, offset)`.
pub async fn pwritev(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let file = usable_file(thread, a.int(0))?;
    let offset = offset_in(&file, a.signed(3))?;
    let mut buffer = UserBuffer::from_iovecs(thread, a.word(1), a.size(2)).await?;
    write_file(thread, &file, &mut buffer, Some(offset)).await
}

/// Flags of pwritev2 that make the written bytes durable.
const DURABLE: u32 = raw::RWF_DSYNC | raw::RWF_SYNC;
/// Flags of preadv2 and pwritev2 that are known here.
const KNOWN: u32 = raw::RWF_HIPRI | raw::RWF_NOWAIT | raw::RWF_APPEND | DURABLE;

/// `preadv2(fd, pieces, count, offset, -, flags)`; offset -1 is the position. RWF_NOWAIT answers EOPNOTSUPP: no file here tells whether it would wait.
pub async fn preadv2(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    if a.unsigned(5) & (!KNOWN | raw::RWF_NOWAIT | raw::RWF_APPEND) != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    if a.signed(3) == -1 { readv(thread, a).await } else { preadv(thread, a).await }
}

/// `pwritev2(fd, pieces, count, offset, -, flags)`; offset -1 is the position.
pub async fn pwritev2(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let flags = a.unsigned(5);
    if flags & (!KNOWN | raw::RWF_NOWAIT) != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    let file = usable_file(thread, a.int(0))?;
    let mut buffer = UserBuffer::from_iovecs(thread, a.word(1), a.size(2)).await?;
    let at = if a.signed(3) == -1 { None } else { Some(offset_in(&file, a.signed(3))?) };
    let written = if flags & raw::RWF_APPEND != 0 && matches!(file.object(), Object::Regular) {
        let written = crate::file::regular::append_from(&file, &mut buffer, at.is_none()).await?;
        file.tell_some(written, raw::IN_MODIFY);
        written as u64
    } else {
        write_file(thread, &file, &mut buffer, at).await?
    };
    if flags & DURABLE != 0 {
        make_durable(&file).await?;
    }
    Ok(written)
}

/// Makes a file's contents durable, if it has a place on a disk.
pub(super) async fn make_durable(file: &OpenFile) -> Result<(), Errno> {
    match (file.object(), file.place()) {
        (Object::Regular, Some(place)) => losses::sync(file, place).await,
        _ => Ok(()),
    }
}

/// Returns the offset of a positioned call.
fn offset_in(file: &OpenFile, offset: i64) -> Result<u64, Errno> {
    if !file.object().is_seekable() {
        return Err(Errno::ESPIPE);
    }
    u64::try_from(offset).map_err(|_| Errno::EINVAL)
}

/// When a wait for a socket (SO_RCVTIMEO, SO_SNDTIMEO) or for what is typed (VTIME) ends.
#[inline]
pub(super) fn deadline_of(file: &OpenFile, wanted: Ready) -> Option<u64> {
    if let Object::Terminal(end) = file.object() {
        return end.read_wait_ns().filter(|_| wanted == Ready::READ).map(cycles_from_now);
    }
    let Object::Socket(socket) = file.object() else {
        return None;
    };
    let options = socket.options();
    let timeout = if wanted == Ready::READ { &options.receive_timeout_ns } else { &options.send_timeout_ns };
    match timeout.load(Ordering::Relaxed) {
        0 => None,
        ns => Some(cycles_from_now(ns)),
    }
}

/// Reads once there is something, or at once without waiting.
pub(in crate::file) async fn read_file(
    thread: &Thread,
    file: &OpenFile,
    buffer: &mut UserBuffer<'_>,
    at: Option<u64>,
) -> Outcome {
    let deadline = deadline_of(file, Ready::READ);
    let mut attempts = Attempts::default();
    loop {
        match file.read(buffer, at).await {
            Err(Errno::EAGAIN) if may_wait(thread, file) => {
                match attempts.wait(thread, file, Ready::READ, deadline).await {
                    // Nothing was typed in time.
                    Err(Errno::EAGAIN) if matches!(file.object(), Object::Terminal(_)) => return Ok(0),
                    waited => waited?,
                }
            }
            outcome => return outcome.map(|count| count as u64),
        }
    }
}

/// Writes everything, or as much as goes in without waiting. The answer is the bytes written before an error or
/// signal.
pub(super) async fn write_file(
    thread: &Thread,
    file: &OpenFile,
    buffer: &mut UserBuffer<'_>,
    at: Option<u64>,
) -> Outcome {
    let written = write_some(thread, file, buffer, at).await?;
    if file.is_durable() {
        alloc::boxed::Box::pin(make_durable(file)).await?;
    }
    Ok(written)
}

async fn write_some(thread: &Thread, file: &OpenFile, buffer: &mut UserBuffer<'_>, at: Option<u64>) -> Outcome {
    let deadline = deadline_of(file, Ready::WRITE);
    let mut attempts = Attempts::default();
    let mut refusals = 0;
    loop {
        let at = at.map(|at| at.saturating_add(buffer.done() as u64));
        let outcome = match file.write(buffer, at).await {
            Ok(0) => return Ok(buffer.done() as u64),
            Ok(_) if buffer.left() == 0 || !goes_on(file) => return Ok(buffer.done() as u64),
            Ok(_) => {
                attempts.renew();
                refusals = 0;
                continue;
            }
            Err(Errno::EAGAIN) if may_wait(thread, file) => attempts.wait(thread, file, Ready::WRITE, deadline).await,
            // Programs hardly look whether a message went out: it waits for memory as it waits for room.
            Err(Errno::ENOMEM) if goes_on(file) && refusals < REFUSALS_MAX => {
                refusals = usize::saturating_add(refusals, 1);
                shortage::wait_for_buffer(thread).await
            }
            Err(error) => Err(error),
        };
        match outcome {
            Ok(()) => {}
            Err(_) if buffer.done() > 0 => return Ok(buffer.done() as u64),
            Err(error) => return Err(broken_pipe(thread, error)),
        }
    }
}

/// Returns whether a short write is followed by another one: streams, which wait for room.
fn goes_on(file: &OpenFile) -> bool {
    match file.object() {
        Object::Pipe(_) | Object::Terminal(_) | Object::Stream(_) => true,
        Object::Socket(socket) => !socket.keeps_borders(),
        _ => false,
    }
}

/// Sends SIGPIPE with the error EPIPE.
pub(super) fn broken_pipe(thread: &Thread, error: Errno) -> Errno {
    if error == Errno::EPIPE {
        thread.broken_pipe();
    }
    error
}
