//! Moving data between descriptors without the program touching it: sendfile, splice, tee, vmsplice, copy_file_range.
//!
//! Data in memory that finds room goes at once, part after part ([`file_move`]); a part that must wait, for a disk or
//! for room, takes the [`slow_path`]. Pages go by reference wherever both ends allow it, and pass the I/O stream
//! resource.

mod copy;
mod file_move;
mod sendfile;
mod slow_path;
mod splice;
mod tee;

pub use copy::copy_file_range;
pub use sendfile::sendfile;
pub use splice::splice;
pub use tee::{tee, vmsplice};

use super::read_write::broken_pipe;
use crate::file::object::Object;
use crate::file::open_file::OpenFile;
use crate::{Errno, Outcome, Thread};
use gyre_interface::Position;
use gyre_object::Bytes;

/// How far a call came.
#[derive(Clone, Copy)]
struct Moved {
    /// Bytes that have arrived.
    bytes: usize,
    /// Why it stopped early.
    error: Option<Errno>,
}

impl Moved {
    /// Returns the call's answer: the bytes moved before an error, else the error; a pipe without readers also sends
    /// a signal.
    fn outcome(self, thread: &Thread) -> Outcome {
        match self.error {
            Some(error) if self.bytes == 0 => Err(broken_pipe(thread, error)),
            _ => Ok(self.bytes as u64),
        }
    }
}

fn length(pieces: &[Bytes]) -> usize {
    pieces.iter().map(Bytes::len).sum()
}

fn is_pipe(file: &OpenFile) -> bool {
    matches!(file.object(), Object::Pipe(_))
}

/// Returns an offset in a program's memory.
///
/// # Errors
/// EFAULT; EINVAL for a negative one.
async fn read_offset(thread: &Thread, address: u64) -> Result<Position, Errno> {
    let mut offset = [0; 8];
    thread.copy_in(address, &mut offset).await?;
    Position::new(u64::from_le_bytes(offset)).ok_or(Errno::EINVAL)
}
