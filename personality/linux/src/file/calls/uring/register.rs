//! io_uring_register: buffers, files, an event counter, and the list of offered operations.

use super::ring::ToldEvent;
use super::submission::code;
use super::{Ring, ring_of};
use crate::file::buffer::{half, read_iovecs, word};
use crate::file::calls::usable_file;
use crate::file::object::Object;
use crate::file::open_file::OpenFile;
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

const BUFFERS: u32 = 0;
const BUFFERS_END: u32 = 1;
const FILES: u32 = 2;
const FILES_END: u32 = 3;
const EVENT: u32 = 4;
const EVENT_END: u32 = 5;
const FILES_UPDATE: u32 = 6;
const EVENT_ASYNC: u32 = 7;
const PROBE: u32 = 8;

/// Most buffers, as many as a list may have pieces.
const BUFFERS_MAX: usize = 1024;
/// Longest buffer.
const BUFFER_BYTES_MAX: usize = 1 << 30;
/// Most files.
const FILES_MAX: usize = 4096;
/// A place among registered files that is to stay as it is.
const SKIP: i32 = -2;
/// Operations that a probe may ask for.
const PROBE_MAX: usize = 256;

/// `io_uring_register(fd, what, argument, count)`.
pub async fn register(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let file = usable_file(thread, a.int(0))?;
    let ring = ring_of(&file)?;
    let (argument, count) = (a.word(2), a.unsigned(3) as usize);
    match a.unsigned(1) {
        BUFFERS => buffers(thread, ring, argument, count).await,
        BUFFERS_END => ring.registered.lock().buffers.take().map(|_| 0).ok_or(Errno::ENXIO),
        FILES => files(thread, ring, argument, count).await,
        FILES_END => {
            let files = ring.registered.lock().files.take();
            files.map(|_| 0).ok_or(Errno::ENXIO)
        }
        EVENT | EVENT_ASYNC => event(thread, ring, (argument, count), a.unsigned(1) == EVENT_ASYNC).await,
        EVENT_END => {
            let event = ring.registered.lock().event.take();
            event.map(|_| 0).ok_or(Errno::ENXIO)
        }
        FILES_UPDATE => update(thread, ring, argument, count).await,
        PROBE => probe(thread, argument, count).await,
        _ => Err(Errno::EINVAL),
    }
}

/// Buffers are checked when they are used: nothing is ever swapped, so nothing has to be held.
async fn buffers(thread: &Thread, ring: &Ring, address: u64, count: usize) -> Outcome {
    if ring.registered.lock().buffers.is_some() {
        return Err(Errno::EBUSY);
    }
    if count == 0 || count > BUFFERS_MAX {
        return Err(Errno::EINVAL);
    }
    let found = read_iovecs(thread, address, count).await?;
    if found.iter().any(|range| range.bytes > BUFFER_BYTES_MAX || (range.address == 0) != (range.bytes == 0)) {
        return Err(Errno::EFAULT);
    }
    let mut registered = ring.registered.lock();
    if registered.buffers.is_some() {
        return Err(Errno::EBUSY);
    }
    registered.buffers = Some(found);
    Ok(0)
}

/// Returns the open files of a list of descriptors; -1 is an empty place. A ring in itself would never end.
async fn read_files(thread: &Thread, address: u64, count: usize) -> Result<Vec<(i32, Option<Arc<OpenFile>>)>, Errno> {
    let raw = thread.read_vec(address, count.saturating_mul(4)).await?;
    let mut found = Vec::with_capacity(count);
    for descriptor in raw.chunks_exact(4).map(|word| half(word, 0) as i32) {
        found.push(match descriptor {
            -1 | SKIP => (descriptor, None),
            _ => (descriptor, Some(usable_file(thread, descriptor)?)),
        });
    }
    let is_ring = |file: &Arc<OpenFile>| matches!(file.object(), Object::Ring(_));
    if found.iter().any(|(_, file)| file.as_ref().is_some_and(is_ring)) { Err(Errno::EBADF) } else { Ok(found) }
}

async fn files(thread: &Thread, ring: &Ring, address: u64, count: usize) -> Outcome {
    if ring.registered.lock().files.is_some() {
        return Err(Errno::EBUSY);
    }
    if count == 0 {
        return Err(Errno::EINVAL);
    }
    if count > FILES_MAX {
        return Err(Errno::EMFILE);
    }
    let found = read_files(thread, address, count).await?;
    if found.iter().any(|(descriptor, _)| *descriptor == SKIP) {
        return Err(Errno::EBADF);
    }
    let mut registered = ring.registered.lock();
    if registered.files.is_some() {
        return Err(Errno::EBUSY);
    }
    registered.files = Some(found.into_iter().map(|(_, file)| file).collect());
    Ok(0)
}

/// `struct io_uring_files_update`: offset u32, reserved u32, descriptors u64.
async fn update(thread: &Thread, ring: &Ring, address: u64, count: usize) -> Outcome {
    let wish = thread.read_vec(address, 16).await?;
    let offset = half(&wish, 0) as usize;
    if half(&wish, 4) != 0 || count > FILES_MAX {
        return Err(Errno::EINVAL);
    }
    let found = read_files(thread, word(&wish, 8), count).await?;
    let mut before = Vec::new();
    let mut registered = ring.registered.lock();
    let files = registered.files.as_mut().ok_or(Errno::ENXIO)?;
    let end = offset.checked_add(count).ok_or(Errno::EOVERFLOW)?;
    let places = files.get_mut(offset..end).ok_or(Errno::EINVAL)?;
    for (place, (descriptor, file)) in places.iter_mut().zip(found) {
        if descriptor != SKIP {
            before.push(core::mem::replace(place, file));
        }
    }
    drop(registered);
    Ok(count as u64)
}

async fn event(thread: &Thread, ring: &Ring, (address, count): (u64, usize), is_later_only: bool) -> Outcome {
    if count != 1 {
        return Err(Errno::EINVAL);
    }
    let descriptor = half(&thread.read_vec(address, 4).await?, 0) as i32;
    let file = usable_file(thread, descriptor)?;
    if !matches!(file.object(), Object::Event(_)) {
        return Err(Errno::EINVAL);
    }
    let mut registered = ring.registered.lock();
    if registered.event.is_some() {
        return Err(Errno::EBUSY);
    }
    registered.event = Some(ToldEvent { file, is_later_only });
    Ok(0)
}

/// `struct io_uring_probe`: last operation u8, entries u8, 14 bytes, then 8 bytes for each: operation u8, 0, flags u16 (1 is offered), 0.
async fn probe(thread: &Thread, address: u64, count: usize) -> Outcome {
    const HEAD_BYTES: usize = 16;
    const ENTRY_BYTES: usize = 8;
    if count > PROBE_MAX {
        return Err(Errno::EINVAL);
    }
    let mut answer = vec![0; count.saturating_mul(ENTRY_BYTES).saturating_add(HEAD_BYTES)];
    let given = thread.read_vec(address, answer.len()).await?;
    if given.iter().any(|byte| *byte != 0) {
        return Err(Errno::EINVAL);
    }
    let told = count.min(usize::from(code::END));
    let (head, entries) = answer.split_at_mut(HEAD_BYTES);
    (head[0], head[1]) = (code::END - 1, told as u8);
    for (entry, operation) in entries.chunks_exact_mut(ENTRY_BYTES).zip(0..code::END) {
        (entry[0], entry[2]) = (operation, u8::from(code::OFFERED.contains(&operation)));
    }
    thread.copy_out(address, &answer).await?;
    Ok(0)
}
