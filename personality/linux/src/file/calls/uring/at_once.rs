//! Operations that are done within the call that submits them, which Linux tries first, too: reads of cached pages,
//! and writes over them. The older asynchronous calls do so, too. Other reads, and writes past the cache, are begun
//! there if only the disk keeps them waiting.

use super::operation::{FileRange, Operation};
use crate::Thread;
use crate::file::begun_io::{self, Asker, Completion, Request};
use crate::file::buffer::Ranges;
use crate::file::cached::{self, COPY_BYTES_MAX};
use crate::file::object::Object;

/// Does a read or write as a plain call without waiting does it, counted and divided like one, and returns its bytes.
/// Returns `None` if it must wait, be tried anew, go past the cache or be durable, and if the asynchronous I/O
/// resource divides its work: it is an operation of its own then.
pub fn transfer(thread: &Thread, operation: &Operation) -> Option<usize> {
    let wanted = operation.bytes()?;
    if wanted == 0 || wanted > COPY_BYTES_MAX as u64 || thread.tenant().kernel().divides_async_io() {
        return None;
    }
    match operation {
        Operation::Read(FileRange { file, ranges, at, .. }) => {
            let may = matches!(file.object(), Object::Regular) && file.is_readable();
            may.then(|| cached::read_list(file, thread, ranges.as_slice(), *at))?
        }
        Operation::Write(FileRange { file, ranges, at, durable }) => {
            let may = matches!(file.object(), Object::Regular) && file.is_writable() && !durable;
            may.then(|| cached::write_list(file, thread, ranges.as_slice(), *at))?
        }
        _ => None,
    }
}

/// Begins a transfer that only the disk's answer must complete; false if it must be an operation of its own from the
/// start. Nothing can cancel it. `completion` as in [`begun_io::begin`].
pub fn begin<C: Completion>(asker: &Asker<'_>, operation: &Operation, completion: impl FnOnce() -> Option<C>) -> bool {
    let (transfer, is_write) = match operation {
        Operation::Read(transfer) => (transfer, false),
        Operation::Write(transfer) if !transfer.durable => (transfer, true),
        _ => return false,
    };
    let FileRange { file, ranges: Ranges::One(range), at: Some(at), .. } = transfer else { return false };
    let request = Request { file: file.clone(), range: *range, at: *at, is_write };
    begun_io::begin(asker, request, completion)
}
