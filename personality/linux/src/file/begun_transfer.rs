//! Transfers that nobody waits for, begun within the call that asks for them, where only the disk keeps them waiting. Past the cache the disk's
//! answer completes one; else what a read brought is copied by a piece of work of the asynchronous I/O resource: a copy is long, and its
//! program may be at its limit. Nothing can cancel them: they are at the device.

use super::calls::read_write;
use super::direct;
use super::object::Object;
use super::open_file::OpenFile;
use super::resident::{self, COPY_BYTES_MAX};
use super::transfer::{Range, Ranges, UserBuffer};
use super::under_way::UnderWayPlace;
use crate::{Errno, Thread};
use alloc::sync::Arc;
use gyre_interface::async_io::async_io;
use gyre_message::boxed;

/// Who is told of a transfer.
pub trait Completion: Send + 'static {
    /// It has ended. Dropped without that, it is to be asked for again.
    fn complete(self, moved: Result<usize, Errno>);
}

/// Who asks.
pub struct Asker<'a> {
    /// The thread that asks.
    pub thread: &'a Thread,
    /// Who does what must be done later,
    pub resource: async_io::Client,
    /// in whose name.
    pub worker: &'a dyn Fn() -> Arc<Thread>,
}

/// What is read or written.
#[derive(Clone)]
pub struct Request {
    /// The file.
    pub file: Arc<OpenFile>,
    /// Where in the program.
    pub range: Range,
    /// Where in the file.
    pub at: u64,
    /// From the program to the file.
    pub is_write: bool,
}

/// Begins a transfer; false where it must be an operation of its own from the start: nothing has happened then. `completion` is asked for once
/// it has begun; without one nobody is told.
pub fn begin<C: Completion>(asker: &Asker<'_>, request: Request, completion: impl FnOnce() -> Option<C>) -> bool {
    let Request { file, range, is_write, .. } = &request;
    let is_open = if *is_write { file.is_writable() && !file.has_slow_writes() } else { file.is_readable() };
    let is_plain = matches!(file.object(), Object::Regular) && is_open && range.bytes > 0;
    if !is_plain || asker.thread.tenant().host().divides_async_io() {
        return false;
    }
    let Some(place) = UnderWayPlace::take(asker.thread.tenant()) else { return false };
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
    place: UnderWayPlace,
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
    place: UnderWayPlace,
    completion: impl FnOnce() -> Option<C>,
) -> Option<()> {
    let bytes = Some(read.range.bytes).filter(|bytes| *bytes <= COPY_BYTES_MAX)?;
    let begun = resident::fetch(&read.file, read.at, bytes)?;
    let completion = completion();
    let (resource, worker) = (asker.resource, (asker.worker)());
    begun.then(move |_| {
        drop(place);
        if let Some(completion) = completion {
            // Refused, it is dropped, and whoever asked is told so.
            drop(resource.run(boxed(|| copy(worker, read, completion))));
        }
    });
    Some(())
}

/// Copies what was brought, and waits for what is not there all the same, as a plain read does. Answers the bytes.
async fn copy<C: Completion>(worker: Arc<Thread>, read: Request, completion: C) -> u64 {
    // The process may have another program by now.
    let is_its = Arc::ptr_eq(&worker.space(), &worker.process().space());
    let copied = is_its.then(|| resident::read(&read.file, &worker, read.range, Some(read.at))).flatten();
    let result = match copied {
        Some(count) => Ok(count),
        None => boxed(|| read_alone(&worker, &read)).await,
    };
    completion.complete(result);
    result.unwrap_or(0) as u64
}

async fn read_alone(worker: &Arc<Thread>, read: &Request) -> Result<usize, Errno> {
    let mut buffer = UserBuffer::from_ranges(worker, Ranges::One(read.range));
    read_write::read_file(worker, &read.file, &mut buffer, Some(read.at)).await.map(|count| count as usize)
}
