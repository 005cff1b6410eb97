//! Reads and writes that start inside the call. The disk's interrupt completes them without a task.
//!
//! Past the cache the disk's answer completes one. A read through the cache is copied afterwards by a piece of work
//! of the asynchronous I/O resource, since a copy is long and its program may be at its limit. Nothing can cancel
//! them: they are at the device. Rings (io_uring) and io_submit use them.

use super::buffer::{Range, Ranges, UserBuffer};
use super::cached::{self, COPY_BYTES_MAX};
use super::calls::read_write;
use super::direct;
use super::object::Object;
use super::open_file::OpenFile;
use super::transfer_limit::TransferPlace;
use crate::{Errno, Thread};
use alloc::sync::Arc;
use gyre_interface::async_io::async_io;
use gyre_message::boxed;

/// The receiver of a transfer's end.
pub trait Completion: Send + 'static {
    /// Tells that it has ended. If it is dropped without this call, the transfer must be asked for again.
    fn complete(self, moved: Result<usize, Errno>);
}

/// The caller of a transfer.
pub struct Asker<'a> {
    /// The thread that asks.
    pub thread: &'a Thread,
    /// The resource that does later work,
    pub resource: async_io::Client,
    /// in whose name.
    pub worker: &'a dyn Fn() -> Arc<Thread>,
}

/// A read or write.
#[derive(Clone)]
pub struct Request {
    /// The file.
    pub file: Arc<OpenFile>,
    /// The memory of the program.
    pub range: Range,
    /// The offset in the file.
    pub at: u64,
    /// From the program to the file.
    pub is_write: bool,
}

/// Begins a transfer; false, and nothing has happened, if it must be an operation of its own from the start.
/// `completion` is called once it has begun; if it answers `None`, the end is told to no one.
pub fn begin<C: Completion>(asker: &Asker<'_>, request: Request, completion: impl FnOnce() -> Option<C>) -> bool {
    let Request { file, range, is_write, .. } = &request;
    let is_open = if *is_write { file.is_writable() && !file.has_slow_writes() } else { file.is_readable() };
    let is_plain = matches!(file.object(), Object::Regular) && is_open && range.bytes > 0;
    if !is_plain || asker.thread.tenant().kernel().divides_async_io() {
        return false;
    }
    let Some(place) = TransferPlace::take(asker.thread.tenant()) else { return false };
    match (file.is_direct(), is_write) {
        (true, _) => begin_direct(asker, &request, place, completion),
        (false, false) => begin_cached(asker, request, place, completion),
        (false, true) => None,
    }
    .is_some()
}

fn begin_direct<C: Completion>(
    asker: &Asker<'_>,
    request: &Request,
    place: TransferPlace,
    completion: impl FnOnce() -> Option<C>,
) -> Option<()> {
    let begin = if request.is_write { direct::begin_write } else { direct::begin_read };
    let begun = begin(&request.file, asker.thread, request.range, request.at)?;
    let completion = completion();
    begun.then(move |moved| {
        drop(place);
        if let Some(completion) = completion {
            completion.complete(moved);
        }
    });
    Some(())
}

fn begin_cached<C: Completion>(
    asker: &Asker<'_>,
    read: Request,
    place: TransferPlace,
    completion: impl FnOnce() -> Option<C>,
) -> Option<()> {
    let bytes = Some(read.range.bytes).filter(|bytes| *bytes <= COPY_BYTES_MAX)?;
    let begun = cached::fetch(&read.file, read.at, bytes)?;
    let completion = completion();
    let (resource, worker) = (asker.resource, (asker.worker)());
    begun.then(move |_| {
        drop(place);
        if let Some(completion) = completion {
            // If it is refused, `completion` is dropped, which tells the caller.
            drop(resource.run(boxed(|| copy(worker, read, completion))));
        }
    });
    Some(())
}

/// Copies the fetched pages, and waits for those that are missing all the same, as a plain read does. Returns the
/// bytes.
async fn copy<C: Completion>(worker: Arc<Thread>, read: Request, completion: C) -> u64 {
    // The process may have another program by now.
    let is_its = Arc::ptr_eq(&worker.space(), &worker.process().space());
    let copied = is_its.then(|| cached::read(&read.file, &worker, read.range, Some(read.at))).flatten();
    let result = match copied {
        Some(count) => Ok(count),
        None => boxed(|| read_random(&worker, &read)).await,
    };
    completion.complete(result);
    result.unwrap_or(0) as u64
}

async fn read_random(worker: &Arc<Thread>, read: &Request) -> Result<usize, Errno> {
    let mut buffer = UserBuffer::from_ranges(worker, Ranges::One(read.range));
    read_write::read_file(worker, &read.file, &mut buffer, Some(read.at)).await.map(|count| count as usize)
}
