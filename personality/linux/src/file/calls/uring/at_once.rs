//! What is done within the call that submits it, as Linux tries first: reads of what files have in memory, and writes over it. The older
//! asynchronous calls do so, too. Other reads, and writes past the cache, are begun there, where only the disk keeps them waiting.

use super::operation::{Operation, Transfer};
use crate::Thread;
use crate::file::begun_transfer::{self, Asker, Completion, Request};
use crate::file::object::Object;
use crate::file::resident::{self, COPY_BYTES_MAX};
use crate::file::transfer::Ranges;

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

/// Begins a transfer for which nobody has to wait but the disk's answer; false where it must be an operation of its own from the start. Nothing
/// can cancel it. `completion` as in [`begun_transfer::begin`].
pub fn begin<C: Completion>(asker: &Asker<'_>, operation: &Operation, completion: impl FnOnce() -> Option<C>) -> bool {
    let (transfer, is_write) = match operation {
        Operation::Read(transfer) => (transfer, false),
        Operation::Write(transfer) if !transfer.durable => (transfer, true),
        _ => return false,
    };
    let Transfer { file, ranges: Ranges::One(range), at: Some(at), .. } = transfer else { return false };
    let request = Request { file: file.clone(), range: *range, at: *at, is_write };
    begun_transfer::begin(asker, request, completion)
}
