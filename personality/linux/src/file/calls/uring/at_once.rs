//! What is done within the call that submits it, as Linux tries first: reads of what files have in memory, and writes over it. The older
//! asynchronous calls do so, too. Other reads are begun there where only the disk keeps them waiting: no task waits for its answer.

use super::operation::{Operation, Transfer, identity};
use super::ring::{Flight, Ring};
use super::submission::{SKIP_SUCCESS, Submission};
use super::submit::Batch;
use crate::file::calls::read_write;
use crate::file::direct;
use crate::file::object::Object;
use crate::file::open_file::OpenFile;
use crate::file::resident::{self, COPY_BYTES_MAX};
use crate::file::transfer::{Range, Ranges, UserBuffer};
use crate::file::under_way::UnderWayPlace;
use crate::{Errno, Thread};
use alloc::sync::Arc;
use gyre_message::boxed;

/// Does a read or write as a plain call that need not wait does it, counted and divided like one, and answers its bytes. `None` where it
/// must wait, be looked at anew, go past the cache or be durable, and where the asynchronous I/O resource divides its work: it is an
/// operation of its own then.
pub fn transfer(thread: &Thread, operation: &Operation) -> Option<usize> {
    let wanted = operation.bytes()?;
    if wanted == 0 || wanted > COPY_BYTES_MAX as u64 || thread.tenant().host().divides_async_io() {
        return None;
    }
    match operation {
        Operation::Read(Transfer { file, ranges, at, .. }) => {
            let may = matches!(file.object(), Object::Regular) && file.is_readable();
            may.then(|| resident::read_list(file, thread, ranges.as_slice(), *at))?
        }
        Operation::Write(Transfer { file, ranges, at, durable }) => {
            let may = matches!(file.object(), Object::Regular) && file.is_writable() && !durable;
            may.then(|| resident::write_list(file, thread, ranges.as_slice(), *at))?
        }
        _ => None,
    }
}

/// Begins a read that only the disk keeps waiting: past the cache it is completed by the disk's answer, else what was brought is copied by a
/// piece of work of the asynchronous I/O resource then. False where it must be an operation of its own from the start. Nothing can cancel
/// it: it is at the device.
pub fn begin(batch: &Batch<'_>, wish: &Submission, operation: &Operation) -> bool {
    let Operation::Read(Transfer { file, ranges: Ranges::One(into), at: Some(at), .. }) = operation else {
        return false;
    };
    let is_plain = matches!(file.object(), Object::Regular) && file.is_readable() && into.bytes > 0;
    if !is_plain || batch.thread.tenant().host().divides_async_io() {
        return false;
    }
    let Some(place) = UnderWayPlace::take(batch.thread.tenant()) else { return false };
    match file.is_direct() {
        true => begin_direct(batch, wish, (file, *into, *at), place),
        false => begin_cached(batch, wish, (file, *into, *at), place),
    }
    .is_some()
}

/// What is read, where to, from where on.
type Read<'a> = (&'a Arc<OpenFile>, Range, u64);

fn begin_direct(batch: &Batch<'_>, wish: &Submission, (file, into, at): Read<'_>, place: UnderWayPlace) -> Option<()> {
    let read = direct::begin_read(file, batch.thread, into, at)?;
    let landing = Landing::new(batch.ring, wish, file, into, place);
    read.then(move |read| {
        // Of a ring that is closed nobody is told.
        if let Some(mut landing) = landing {
            landing.complete(read);
        }
    });
    Some(())
}

fn begin_cached(batch: &Batch<'_>, wish: &Submission, (file, into, at): Read<'_>, place: UnderWayPlace) -> Option<()> {
    let begun = resident::fetch(file, at, into.bytes).filter(|_| into.bytes <= COPY_BYTES_MAX)?;
    let landing = Landing::new(batch.ring, wish, file, into, place);
    let (resource, worker, file) = (batch.resource, batch.worker().clone(), file.clone());
    begun.then(move |_| {
        if let Some(landing) = landing {
            drop(resource.run(boxed(|| landing.copy(worker, file, into, at))));
        }
    });
    Some(())
}

/// A read at the device; where nobody completes it, it is to be asked for again.
struct Landing {
    /// `None` once it is answered.
    ring: Option<Arc<Ring>>,
    number: u64,
    wanted: usize,
    tells_success: bool,
    _place: UnderWayPlace,
}

impl Landing {
    /// `None` once the ring is closed.
    fn new(
        ring: &Arc<Ring>,
        wish: &Submission,
        file: &Arc<OpenFile>,
        into: Range,
        place: UnderWayPlace,
    ) -> Option<Landing> {
        let flight = Flight { user_data: wish.user_data, code: wish.code, file: Some(identity(file)), cancel: None };
        let number = ring.begin(flight, false)?;
        let tells_success = wish.flags & SKIP_SUCCESS == 0;
        Some(Landing { ring: Some(ring.clone()), number, wanted: into.bytes, tells_success, _place: place })
    }

    fn complete(&mut self, read: Result<usize, Errno>) {
        let Some(ring) = self.ring.take() else { return };
        let is_told = read != Ok(self.wanted) || self.tells_success;
        let result = read.map_or_else(|error| -error.0, |bytes| bytes as i32);
        ring.complete(self.number, result, is_told, true);
    }

    /// Copies what was brought, and waits for what is not there all the same, as a plain read does. Answers the bytes.
    async fn copy(mut self, worker: Arc<Thread>, file: Arc<OpenFile>, into: Range, at: u64) -> u64 {
        // The process may have another program by now.
        let is_its = Arc::ptr_eq(&worker.space(), &worker.process().space());
        let read = match is_its.then(|| resident::read(&file, &worker, into, Some(at))).flatten() {
            Some(count) => Ok(count),
            None => boxed(|| read_alone(&worker, &file, into, at)).await,
        };
        self.complete(read);
        read.unwrap_or(0) as u64
    }
}

async fn read_alone(worker: &Arc<Thread>, file: &Arc<OpenFile>, into: Range, at: u64) -> Result<usize, Errno> {
    let mut buffer = UserBuffer::from_ranges(worker, Ranges::One(into));
    read_write::read_file(worker, file, &mut buffer, Some(at)).await.map(|count| count as usize)
}

impl Drop for Landing {
    fn drop(&mut self) {
        self.complete(Err(Errno::EAGAIN));
    }
}
