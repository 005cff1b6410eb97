//! Regular files: contents by reference from the file system's server, positions kept here.

use super::direct;
use super::mount::Place;
use super::object::TURN_BYTES;
use super::open_file::OpenFile;
use super::transfer::UserBuffer;
use crate::{Errno, Thread};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use gyre_interface::near::{FEW_PAGES, NEAR_BYTES_MAX, NEAR_PAGES_MAX};
use gyre_machine::PAGE_BYTES;
use gyre_object::{Bytes, Page};
use linux_raw_sys::general::{IN_ACCESS, IN_MODIFY, O_APPEND, O_DSYNC};

/// Bytes of a file that a call copies at once at most: long copies let others have their turn.
pub(super) const COPY_BYTES_MAX: usize = 128 << 10;
/// Pages that they may lie in.
const COPY_PAGES_MAX: usize = COPY_BYTES_MAX / PAGE_BYTES + 1;
/// Largest offset (off_t).
pub const OFFSET_MAX: u64 = i64::MAX as u64;

/// Flags of files that are not written over in memory at once.
const SLOW_WRITES: u32 = O_APPEND | O_DSYNC;

fn place_of(file: &OpenFile) -> Result<&Place, Errno> {
    file.place().ok_or(Errno::EBADF)
}

/// Reads at `at` or the position.
pub(super) async fn read(file: &OpenFile, buffer: &mut UserBuffer<'_>, at: Option<u64>) -> Result<usize, Errno> {
    let place = place_of(file)?;
    if let Some(offset) = at {
        return read_at(file, place, buffer, offset).await;
    }
    let position = file.position.hold().await;
    let count = read_at(file, place, buffer, position.get()).await?;
    position.set(position.get() + count as u64);
    Ok(count)
}

async fn read_at(file: &OpenFile, place: &Place, buffer: &mut UserBuffer<'_>, offset: u64) -> Result<usize, Errno> {
    if buffer.left() > 0 && direct::is_wanted(file, place).await? {
        return direct::read(file, place, buffer, offset).await;
    }
    let before = buffer.done();
    while buffer.left() > 0 {
        let wanted = buffer.left().min(TURN_BYTES);
        let at = offset.saturating_add((buffer.done() - before) as u64);
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
    Ok(buffer.done() - before)
}

/// Reads for a plain read, as a request of the I/O stream resource where that divides bytes.
async fn fetch(file: &OpenFile, place: &Place, at: u64, bytes: usize) -> Result<Vec<Bytes>, Errno> {
    if file.is_random.load(Ordering::Relaxed) {
        return fetch_alone(file, place, at, bytes).await;
    }
    match file.tenant().passage.gate() {
        None => Ok(place.system().read(place.node, at, bytes).await?),
        Some(gate) => Ok(gate.read(Arc::new(place.clone()), at, bytes).await?),
    }
}

/// The same for who reads here and there (POSIX_FADV_RANDOM); the I/O stream resource counts what was read.
async fn fetch_alone(file: &OpenFile, place: &Place, at: u64, bytes: usize) -> Result<Vec<Bytes>, Errno> {
    let pieces = place.system().read_alone(place.node, at, bytes).await?;
    if let Some(gate) = file.tenant().passage.gate() {
        gate.pass(pieces.iter().map(Bytes::len).sum()).await?;
    }
    Ok(pieces)
}

/// Writes at `at`, the position, or the end with O_APPEND.
pub(super) async fn write(file: &OpenFile, buffer: &mut UserBuffer<'_>, at: Option<u64>) -> Result<usize, Errno> {
    let place = place_of(file)?;
    if file.appends() {
        return append(file, place, buffer).await;
    }
    if let Some(offset) = at {
        return write_at(file, place, buffer, offset).await;
    }
    let position = file.position.hold().await;
    let count = write_at(file, place, buffer, position.get()).await?;
    position.set(position.get() + count as u64);
    Ok(count)
}

async fn write_at(file: &OpenFile, place: &Place, buffer: &mut UserBuffer<'_>, offset: u64) -> Result<usize, Errno> {
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
        let at = offset.saturating_add((buffer.done() - before) as u64);
        if at >= OFFSET_MAX {
            return Err(Errno::EFBIG);
        }
        let head = TURN_BYTES - at as usize % TURN_BYTES;
        let gathered_from = buffer.done();
        let sent = match buffer.gather(head).await {
            Ok(pieces) => store(file, place, at, pieces).await,
            Err(error) => Err(error),
        };
        if sent.is_err() {
            // What was not taken does not count as written.
            buffer.give_back(buffer.done() - gathered_from);
        }
        match sent {
            Err(error) if buffer.done() == before => return Err(error),
            Err(_) => break,
            Ok((gathered, written)) => {
                buffer.give_back(gathered - written);
                if written < gathered {
                    break;
                }
            }
        }
    }
    Ok(buffer.done() - before)
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

/// Bytes offered and bytes taken.
async fn send(place: &Place, at: Option<u64>, pieces: Vec<Bytes>) -> Result<(usize, usize), Errno> {
    let gathered = pieces.iter().map(Bytes::len).sum();
    let written = match at {
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
    let is_direct = direct::check_append(file, place, buffer).await?;
    while buffer.left() > 0 {
        let pieces = buffer.gather(TURN_BYTES).await?;
        let bytes: usize = pieces.iter().map(Bytes::len).sum();
        if let Some(gate) = file.tenant().passage.gate() {
            gate.pass(bytes).await?;
        }
        match place.system().append(place.node, pieces).await {
            Ok(offset) => position.set(offset + bytes as u64),
            Err(error) => {
                buffer.give_back(bytes);
                if buffer.done() == before {
                    return Err(error.into());
                }
                break;
            }
        }
    }
    let count = buffer.done() - before;
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

/// Reads by reference what is in memory; `None` where it must wait, or be looked at anew. The I/O stream resource counts it.
pub(super) fn take_near(file: &OpenFile, at: u64, bytes: usize) -> Option<Vec<Bytes>> {
    let pieces = cached(file.place()?, at, bytes)?;
    file.tell_some(pieces.len(), IN_ACCESS);
    Some(pieces)
}

/// The pages of a file that are in memory, by reference; `None` where not all of those asked for are.
pub(super) fn cached(place: &Place, at: u64, bytes: usize) -> Option<Vec<Bytes>> {
    let mut pieces = Vec::with_capacity(bytes.min(TURN_BYTES) / PAGE_BYTES + 1);
    let mut done = 0;
    while done < bytes {
        let (offset, wanted) = (at.checked_add(done as u64)?, (bytes - done).min(NEAR_BYTES_MAX));
        let mut pages = [const { None }; NEAR_PAGES_MAX];
        let count = place.system().visit(|near| near.read(place.node, offset, wanted, &mut pages))??.ok()?;
        let (mut start, mut left) = ((offset % PAGE_BYTES as u64) as usize, count);
        for page in pages.into_iter().take((start + count).div_ceil(PAGE_BYTES)) {
            let piece = Bytes::new(page?, start, left.min(PAGE_BYTES - start));
            left -= piece.len();
            start = 0;
            pieces.push(piece);
        }
        done += count;
        if count < wanted {
            break;
        }
    }
    Some(pieces)
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
    position.set(position.get() + written as u64);
    Ok(written)
}

/// `read` of what is in memory into memory that is there, at `at` or the position; `None` where it must wait, or be looked at anew.
pub(super) fn read_near(
    file: &OpenFile,
    thread: &Thread,
    address: u64,
    bytes: usize,
    at: Option<u64>,
) -> Option<usize> {
    if file.is_direct() {
        return None;
    }
    let count = file.tenant().passage.count_plain(|| read_here(file, thread, address, bytes, at))?;
    file.tell_some(count, IN_ACCESS);
    Some(count)
}

#[inline(always)]
fn read_here(file: &OpenFile, thread: &Thread, address: u64, bytes: usize, at: Option<u64>) -> Option<usize> {
    let place = file.place()?;
    let count = match at {
        Some(offset) => copy_near(place, thread, address, bytes, offset)?,
        None => {
            let position = file.position.try_hold()?;
            let offset = position.get();
            let count = copy_near(place, thread, address, bytes, offset)?;
            position.set(offset + count as u64);
            count
        }
    };
    Some(count)
}

/// Nothing is copied before all pages are known to be here: else the rest waits, and what was copied is copied again.
fn copy_near(place: &Place, thread: &Thread, address: u64, bytes: usize, offset: u64) -> Option<usize> {
    if bytes <= PAGE_BYTES {
        return copy_some(place, thread, address, bytes, offset, &mut [const { None }; FEW_PAGES]);
    }
    if bytes <= NEAR_BYTES_MAX {
        return copy_some(place, thread, address, bytes, offset, &mut [const { None }; NEAR_PAGES_MAX]);
    }
    copy_long(place, thread, address, bytes, offset)
}

/// Up to [`COPY_BYTES_MAX`].
fn copy_long(place: &Place, thread: &Thread, address: u64, bytes: usize, offset: u64) -> Option<usize> {
    let start = (offset % PAGE_BYTES as u64) as usize;
    let mut pages = [const { None }; COPY_PAGES_MAX];
    let total = show_near(place, offset, bytes, &mut pages)?;
    let mut done = 0;
    while done < total {
        let from = pages.get((start + done) / PAGE_BYTES..)?;
        let (within, to) = ((start + done) % PAGE_BYTES, address.wrapping_add(done as u64));
        let count = (total - done).min(NEAR_BYTES_MAX - within);
        if !thread.process().with_space(|space| space.copy_pages_at_once(to, from, within, count)) {
            return None;
        }
        done += count;
    }
    Some(total)
}

/// The pages of a range that are in memory; `None` where not all are. Answers the bytes, fewer at the end of the file.
fn show_near(place: &Place, offset: u64, bytes: usize, into: &mut [Option<Page>]) -> Option<usize> {
    let start = (offset % PAGE_BYTES as u64) as usize;
    let mut done = 0;
    while done < bytes {
        let within = (start + done) % PAGE_BYTES;
        let wanted = (bytes - done).min(NEAR_BYTES_MAX - within);
        let at = offset.checked_add(done as u64)?;
        let into = into.get_mut((start + done) / PAGE_BYTES..)?;
        let count = place.system().visit(|near| near.read(place.node, at, wanted, into))??.ok()?;
        done += count;
        if count < wanted {
            break;
        }
    }
    Some(done)
}

/// Copies bytes that lie in as many pages as `pages` has room for.
#[inline]
fn copy_some(
    place: &Place,
    thread: &Thread,
    to: u64,
    bytes: usize,
    offset: u64,
    pages: &mut [Option<Page>],
) -> Option<usize> {
    let count = place.system().visit(|near| near.read(place.node, offset, bytes, pages))??.ok()?;
    let start = (offset % PAGE_BYTES as u64) as usize;
    thread.process().with_space(|space| space.copy_pages_at_once(to, pages, start, count)).then_some(count)
}

/// `write` over what the file has in memory, from memory that is there, at `at` or the position; `None` where it must wait, grow, or be
/// looked at anew.
pub(super) fn write_near(
    file: &OpenFile,
    thread: &Thread,
    address: u64,
    bytes: usize,
    at: Option<u64>,
) -> Option<usize> {
    file.tenant().passage.count_plain(|| write_here(file, thread, address, bytes, at))?;
    file.tell_some(bytes, IN_MODIFY);
    Some(bytes)
}

#[inline(always)]
fn write_here(file: &OpenFile, thread: &Thread, address: u64, bytes: usize, at: Option<u64>) -> Option<usize> {
    let place = file.place().filter(|_| file.flags() & SLOW_WRITES == 0 && !file.is_direct())?;
    match at {
        Some(offset) => overwrite_near(place, thread, address, bytes, offset)?,
        None => {
            let position = file.position.try_hold()?;
            let offset = position.get();
            overwrite_near(place, thread, address, bytes, offset)?;
            position.set(offset + bytes as u64);
        }
    }
    Some(bytes)
}

/// What was written before it turns out that the rest must wait is written again.
fn overwrite_near(place: &Place, thread: &Thread, address: u64, bytes: usize, offset: u64) -> Option<()> {
    let mut done = 0;
    while done < bytes {
        let (at, wanted) = (offset.checked_add(done as u64)?, (bytes - done).min(NEAR_BYTES_MAX));
        let from = address.wrapping_add(done as u64);
        let mut fill = |pages: &[Option<Page>], start: usize, count: usize| {
            thread.process().with_space(|space| space.fill_pages_at_once(from, pages, start, count))
        };
        place.system().visit(|near| near.overwrite(place.node, at, wanted, &mut fill))??;
        done += wanted;
    }
    Some(())
}

/// Tells the server that this use has ended. Nobody waits for the answer: a server that is gone has nothing left to close.
pub(super) fn close(place: Place) {
    if place.system().visit(|near| near.close(place.node)) == Some(true) {
        return;
    }
    if let Some(client) = place.system().client() {
        drop(client.close(place.node));
    }
}
