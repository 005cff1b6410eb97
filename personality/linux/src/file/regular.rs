//! Regular files: contents by reference from the file system's server, positions kept here.
//!
//! A read first tries the pages in memory ([`super::cached`]); then it has the disk asked in a look at the file
//! system and tries again; only then it sends a request. A write sends requests of at most [`CHUNK_BYTES`]. With
//! O_DIRECT both go past the cache ([`super::direct`]). With O_SYNC a write is answered when it is durable.
//!
//! The position is locked for the whole call, also across waits, so that calls on one description do not mix. Short
//! results: the end of the file, a signal, no space; an error counts only if nothing was moved before.

use super::buffer::UserBuffer;
use super::cached::{self, COPY_BYTES_MAX};
use super::direct;
use super::mount::Place;
use super::object::CHUNK_BYTES;
use super::open_file::OpenFile;
use super::size_limit;
use crate::Errno;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use gyre_interface::Position;
use gyre_machine::PAGE_BYTES;
use gyre_object::Bytes;

/// Largest offset (off_t).
pub const OFFSET_MAX: u64 = Position::LAST.get();

fn place_of(file: &OpenFile) -> Result<&Place, Errno> {
    file.place().ok_or(Errno::EBADF)
}

/// Returns the first byte of a range that ends at the last place or before it; EINVAL for others, as on Linux.
fn checked(offset: u64, buffer: &UserBuffer<'_>) -> Result<u64, Errno> {
    let start = Position::new(offset).ok_or(Errno::EINVAL)?;
    start.plus(buffer.left() as u64).map(|_| offset).ok_or(Errno::EINVAL)
}

/// Reads at `at` or the position.
pub(super) async fn read(file: &OpenFile, buffer: &mut UserBuffer<'_>, at: Option<u64>) -> Result<usize, Errno> {
    let place = place_of(file)?;
    if let Some(offset) = at {
        return read_at(file, place, buffer, checked(offset, buffer)?).await;
    }
    let position = file.position.hold().await;
    let count = read_at(file, place, buffer, checked(position.get(), buffer)?).await?;
    position.advance(count);
    Ok(count)
}

async fn read_at(file: &OpenFile, place: &Place, buffer: &mut UserBuffer<'_>, offset: u64) -> Result<usize, Errno> {
    if buffer.left() > 0 && direct::is_wanted(file, place).await? {
        return direct::read(file, place, buffer, offset).await;
    }
    if let Some(count) = read_fetched(file, place, buffer, offset).await {
        return Ok(count);
    }
    let before = buffer.done();
    while buffer.left() > 0 {
        let wanted = buffer.left().min(CHUNK_BYTES);
        let at = offset.saturating_add(buffer.done_since(before) as u64);
        let pieces = match fetch(file, place, at, wanted).await {
            Err(error) if buffer.done() == before => return Err(error),
            Err(_) => break,
            Ok(pieces) => pieces,
        };
        let count: usize = pieces.iter().map(Bytes::len).sum();
        match buffer.put_pieces(&pieces).await {
            Err(error) if buffer.done() == before => return Err(error),
            Err(_) => break,
            Ok(copied) if copied < wanted || count < wanted => break,
            Ok(_) => {}
        }
    }
    Ok(buffer.done_since(before))
}

/// Reads into one piece of present memory after the disk has been asked without a task; the data is copied once.
/// Returns `None`, with the buffer unchanged, if it must be read in pieces.
async fn read_fetched(file: &OpenFile, place: &Place, buffer: &mut UserBuffer<'_>, offset: u64) -> Option<usize> {
    // A worker's memory is not the process', which may have another program by now.
    let into = buffer.only().filter(|into| into.bytes <= COPY_BYTES_MAX && !buffer.thread().is_worker())?;
    // Other tasks may evict fetched pages; each round fetches at least one.
    for _ in 0..=into.bytes / PAGE_BYTES {
        cached::fetch(file, offset, into.bytes)?.done().await.ok()?;
        if let Some(count) = cached::copy_near(place, buffer.thread(), into, offset) {
            buffer.used(count);
            return Some(count);
        }
    }
    None
}

/// Reads for a plain read, as a request of the I/O stream resource if that has a gate.
async fn fetch(file: &OpenFile, place: &Place, at: u64, bytes: usize) -> Result<Vec<Bytes>, Errno> {
    if file.is_random.load(Ordering::Relaxed) {
        return fetch_alone(file, place, at, bytes).await;
    }
    match file.tenant().passage.gate() {
        None => fetch_now(place, at, bytes, true).await,
        Some(gate) => Ok(gate.read(Arc::new(place.clone()), at, bytes).await?),
    }
}

/// Begins the disk's reads in looks at the file system as long as possible, so that no task of the file system waits.
async fn fetch_now(place: &Place, at: u64, bytes: usize, may_guess: bool) -> Result<Vec<Bytes>, Errno> {
    // Other tasks may evict fetched pages; each round fetches at least one.
    for _ in 0..=bytes / PAGE_BYTES {
        let Some(begun) = place.system().visit(|near| near.fetch(place.node, at, bytes, may_guess)).flatten() else {
            break;
        };
        // An error is met again, and told.
        if begun.done().await.is_err() {
            break;
        }
        if let Some(pieces) = cached::pages(place, at, bytes) {
            return Ok(pieces);
        }
    }
    match may_guess {
        true => Ok(place.system().read(place.node, at, bytes).await?),
        false => Ok(place.system().read_random(place.node, at, bytes).await?),
    }
}

/// Reads without read-ahead (POSIX_FADV_RANDOM); the I/O stream resource counts the bytes read.
async fn fetch_alone(file: &OpenFile, place: &Place, at: u64, bytes: usize) -> Result<Vec<Bytes>, Errno> {
    let pieces = fetch_now(place, at, bytes, false).await?;
    if let Some(gate) = file.tenant().passage.gate() {
        gate.pass(pieces.iter().map(Bytes::len).sum()).await?;
    }
    Ok(pieces)
}

/// Writes at `at`, the position, or the end with O_APPEND.
pub(super) async fn write(file: &OpenFile, buffer: &mut UserBuffer<'_>, at: Option<u64>) -> Result<usize, Errno> {
    let place = place_of(file)?;
    if file.appends() {
        // Linux appends also if an offset is given; the position stays then (pwrite(2), BUGS).
        return if at.is_some() { append_from(file, buffer, false).await } else { append(file, place, buffer).await };
    }
    if let Some(offset) = at {
        return write_at(file, place, buffer, checked(offset, buffer)?).await;
    }
    let position = file.position.hold().await;
    let count = write_at(file, place, buffer, checked(position.get(), buffer)?).await?;
    position.advance(count);
    Ok(count)
}

async fn write_at(file: &OpenFile, place: &Place, buffer: &mut UserBuffer<'_>, offset: u64) -> Result<usize, Errno> {
    buffer.cut(size_limit::permitted(buffer.thread(), offset, buffer.left())?);
    if buffer.left() > 0 && offset < OFFSET_MAX && direct::is_wanted(file, place).await? {
        return direct::write(file, place, buffer, offset).await;
    }
    write_cached(file, place, buffer, offset).await
}

/// Writes by the cache.
pub(super) async fn write_cached(
    file: &OpenFile,
    place: &Place,
    buffer: &mut UserBuffer<'_>,
    offset: u64,
) -> Result<usize, Errno> {
    let before = buffer.done();
    while buffer.left() > 0 {
        let at = offset.saturating_add(buffer.done_since(before) as u64);
        if at >= OFFSET_MAX {
            return Err(Errno::EFBIG);
        }
        let head = CHUNK_BYTES.saturating_sub(at as usize % CHUNK_BYTES);
        let gathered_from = buffer.done();
        let sent = match buffer.gather(head).await {
            Ok(pieces) => store(file, place, at, pieces).await,
            Err(error) => Err(error),
        };
        if sent.is_err() {
            // Bytes that were not taken do not count as written.
            buffer.give_back(buffer.done_since(gathered_from));
        }
        match sent {
            Err(error) if buffer.done() == before => return Err(error),
            Err(_) => break,
            Ok((gathered, written)) => {
                buffer.give_back(gathered.saturating_sub(written));
                if written < gathered {
                    break;
                }
            }
        }
    }
    Ok(buffer.done_since(before))
}

/// Writes for a plain write, as [`fetch`] reads. Bytes offered and bytes taken.
async fn store(file: &OpenFile, place: &Place, at: u64, pieces: Vec<Bytes>) -> Result<(usize, usize), Errno> {
    let Some(gate) = file.tenant().passage.gate() else {
        return send(place, Some(at), pieces).await;
    };
    let gathered = pieces.iter().map(Bytes::len).sum();
    let written = gate.write(Arc::new(place.clone()), Some(at), pieces).await?;
    Ok((gathered, written.min(gathered)))
}

/// Returns the bytes offered and bytes taken.
async fn send(place: &Place, at: Option<u64>, pieces: Vec<Bytes>) -> Result<(usize, usize), Errno> {
    let gathered = pieces.iter().map(Bytes::len).sum();
    let written = match at {
        Some(OFFSET_MAX..) => return Err(Errno::EFBIG),
        Some(at) => place.system().write(place.node, at, pieces).await?,
        None => {
            place.system().append(place.node, pieces).await?;
            gathered
        }
    };
    Ok((gathered, written.min(gathered)))
}

/// Writes at the end (RWF_APPEND); `moves` says whether the position goes there.
pub(super) async fn append_from(file: &OpenFile, buffer: &mut UserBuffer<'_>, moves: bool) -> Result<usize, Errno> {
    if !file.is_writable() {
        return Err(Errno::EBADF);
    }
    let position = file.position.peek();
    let written = append(file, place_of(file)?, buffer).await?;
    if !moves {
        file.position.hold().await.set(position);
    }
    Ok(written)
}

async fn append(file: &OpenFile, place: &Place, buffer: &mut UserBuffer<'_>) -> Result<usize, Errno> {
    let before = buffer.done();
    let position = file.position.hold().await;
    if !size_limit::is_free(buffer.thread()) {
        let size = place.system().attributes(place.node).await?.size_bytes;
        buffer.cut(size_limit::permitted(buffer.thread(), size, buffer.left())?);
    }
    let is_direct = direct::check_append(file, place, buffer).await?;
    while buffer.left() > 0 {
        let pieces = buffer.gather(CHUNK_BYTES).await?;
        let bytes: usize = pieces.iter().map(Bytes::len).sum();
        if let Some(gate) = file.tenant().passage.gate() {
            gate.pass(bytes).await?;
        }
        match place.system().append(place.node, pieces).await {
            Ok(offset) => position.set(offset.saturating_add(bytes as u64)),
            Err(error) => {
                buffer.give_back(bytes);
                if buffer.done() == before {
                    return Err(error.into());
                }
                break;
            }
        }
    }
    let count = buffer.done_since(before);
    if is_direct {
        direct::bring_out(place, position.get().saturating_sub(count as u64), count).await?;
    }
    Ok(count)
}

/// Reads by reference.
pub(super) async fn take(file: &OpenFile, at: u64, bytes: usize) -> Result<Vec<Bytes>, Errno> {
    let place = place_of(file)?;
    Ok(place.system().read(place.node, at, bytes).await?)
}

/// Writes by reference, at `at`, the position, or the end with O_APPEND.
pub(super) async fn give(file: &OpenFile, at: Option<u64>, data: Vec<Bytes>) -> Result<usize, Errno> {
    let place = place_of(file)?;
    if at.is_some() || file.appends() {
        let at = at.filter(|_| !file.appends());
        return send(place, at, data).await.map(|(_, written)| written);
    }
    let position = file.position.hold().await;
    let (_, written) = send(place, Some(position.get()), data).await?;
    position.advance(written);
    Ok(written)
}

/// Tells the server that this use has ended, without waiting for the answer: a server that is gone has nothing left
/// to close.
pub(super) fn close(place: Place) {
    if place.system().visit(|near| near.close(place.node)) == Some(true) {
        return;
    }
    if let Some(client) = place.system().client() {
        drop(client.close(place.node));
    }
}
