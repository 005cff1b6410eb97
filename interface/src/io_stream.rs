//! I/O streams (2013 paper, section IV-E): what programs and flows read and write by reference, as requests that cost their bytes.
//!
//! The resource stands between who moves data and what holds them, so that its scheduler can divide bytes among activities also
//! where the data are in memory. Besides it has byte streams of its own, whose ends programs write to and read from.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::Future;
use core::pin::Pin;
use gyre_machine::OutOfMemory;
use gyre_message::{Gone, protocol};
use gyre_object::Bytes;

use crate::readiness::Readiness;

/// Bytes that a stream holds at most: a writer waits beyond them.
pub const STREAM_BYTES_MAX: usize = 256 << 10;

/// Why nothing was moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StreamError {
    /// Nothing is there yet, or there is no room: again when its readiness says so (EAGAIN).
    Later,
    /// The other end is closed (EPIPE).
    Broken,
    /// No memory for it (ENOMEM).
    OutOfMemory,
    /// The object's own error: a number that its users understand.
    Object(i32),
    /// The server is gone (EIO).
    Gone,
}

impl From<Gone> for StreamError {
    fn from(_: Gone) -> StreamError {
        StreamError::Gone
    }
}

impl From<OutOfMemory> for StreamError {
    fn from(_: OutOfMemory) -> StreamError {
        StreamError::OutOfMemory
    }
}

/// Bytes taken: fewer than asked for where there are no more now, none at the end.
pub type Taken = Result<Vec<Bytes>, StreamError>;
/// A reading under way.
pub type Taking = Pin<Box<dyn Future<Output = Taken> + Send>>;
/// A writing under way; how many bytes the object has taken.
pub type Giving = Pin<Box<dyn Future<Output = Result<usize, StreamError>> + Send>>;

/// What holds data: a file, a socket, an end of a stream. Waits for devices where it must, never for who is at the other end.
pub trait Endpoint: Send + Sync {
    /// Reads up to `bytes` from `offset` on by reference; without places of its own it ignores the offset.
    fn take(self: Arc<Self>, offset: u64, bytes: usize) -> Taking;
    /// The same at once, without a message or memory for a future; `None`, and nothing taken, where that cannot be.
    fn take_near(&self, offset: u64, bytes: usize) -> Option<Taken>;
    /// Writes what it has room for, at `offset` or, where there is none, where writing goes on.
    fn give(self: Arc<Self>, offset: Option<u64>, data: Vec<Bytes>) -> Giving;
    /// The same at once; gives the data back where that cannot be.
    ///
    /// # Errors
    /// The data, nothing of which was taken.
    fn give_near(&self, offset: Option<u64>, data: Vec<Bytes>) -> Result<Result<usize, StreamError>, Vec<Bytes>>;
    /// What it is ready for; `None` where it never answers [`StreamError::Later`].
    fn readiness(&self) -> Option<Arc<Readiness>>;
}

/// The two ends of a stream. Each is closed when its last holder drops it.
pub struct StreamEnds {
    /// Only read: empty at the end, which is when the writer is gone and all is read.
    pub reader: Arc<dyn Endpoint>,
    /// Only written.
    pub writer: Arc<dyn Endpoint>,
}

/// The near part: for who looks at an object itself, in a visit of this resource.
pub trait Meter: Sync {
    /// So many bytes were moved in this visit: what it costs.
    fn passed(&'static self, bytes: usize);
}

protocol! {
    /// What the I/O stream resource does for others. All of it is bytes of who asks, counted when they have been moved.
    pub mod io_stream near Meter {
        /// An empty stream. Repeating it makes another one.
        async fn open() -> Result<StreamEnds, StreamError>;
        /// Reads by reference, see [`Endpoint::take`]. Repeating it is harmless where the object has places, else it takes more.
        async fn read(from: Arc<dyn Endpoint>, offset: u64, bytes: usize) -> Taken;
        /// Writes by reference, see [`Endpoint::give`]. Repeating it is harmless with an offset, else it writes again.
        async fn write(to: Arc<dyn Endpoint>, offset: Option<u64>, data: Vec<Bytes>) -> Result<usize, StreamError>;
        /// Counts bytes that were moved by who has bounds and a queue of its own (a socket), and answers when it is their turn.
        async fn pass(bytes: usize) -> Result<(), StreamError>;
    }
}
