//! I/O streams (2013 paper, section IV-E): programs and flows read and write by reference, in requests that cost
//! their bytes.
//!
//! The resource stands between those who move data and the objects that hold them, so that its scheduler can divide
//! bytes among activities even if the data are in memory. It also has byte streams of its own, whose ends programs
//! write to and read from.

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

/// The reason why no bytes were moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StreamError {
    /// Nothing is there yet, or there is no room. Ask again when the object's readiness says so (EAGAIN).
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

/// The bytes taken: fewer than asked for if there are no more now, none at the end.
pub type Taken = Result<Vec<Bytes>, StreamError>;
/// A reading under way.
pub type Taking = Pin<Box<dyn Future<Output = Taken> + Send>>;
/// A writing under way; how many bytes the object has taken.
pub type Giving = Pin<Box<dyn Future<Output = Result<usize, StreamError>> + Send>>;

/// An object that holds data: a file, a socket, an end of a stream. Its methods may wait for devices, never for the
/// peer at the other end.
pub trait Endpoint: Send + Sync {
    /// Reads up to `bytes` from `offset` on by reference; an object without places ignores the offset.
    fn take(self: Arc<Self>, offset: u64, bytes: usize) -> Taking;
    /// Reads at once as `take` does, without a message or memory for a future. Answers `None`, and takes nothing, if
    /// that is not possible.
    fn take_near(&self, offset: u64, bytes: usize) -> Option<Taken>;
    /// Writes as much as there is room for, at `offset`, or with `None` at the object's own position.
    fn give(self: Arc<Self>, offset: Option<u64>, data: Vec<Bytes>) -> Giving;
    /// Writes at once as `give` does.
    ///
    /// # Errors
    /// The data, if that is not possible; nothing of it was taken.
    fn give_near(&self, offset: Option<u64>, data: Vec<Bytes>) -> Result<Result<usize, StreamError>, Vec<Bytes>>;
    /// Returns the object's readiness; `None` if it never answers [`StreamError::Later`].
    fn readiness(&self) -> Option<Arc<Readiness>>;
}

/// The two ends of a stream. Each is closed when its last holder drops it.
pub struct StreamEnds {
    /// Only read: empty at the end, which is when the writer is gone and all is read.
    pub reader: Arc<dyn Endpoint>,
    /// Only written.
    pub writer: Arc<dyn Endpoint>,
}

/// The near part: for callers that look at an object themselves, in a visit of this resource.
pub trait Meter: Sync {
    /// Counts the bytes that this visit has moved; they are its cost.
    fn passed(&'static self, bytes: usize);
}

protocol! {
    /// The requests of the I/O stream resource. They move bytes of the caller's activity, which are counted when they
    /// have been moved.
    pub mod io_stream near Meter {
        /// Opens an empty stream. Repeating it makes another one.
        async fn open() -> Result<StreamEnds, StreamError>;
        /// Reads by reference, see [`Endpoint::take`]. Repeating it is harmless if the object has places, else it
        /// takes more.
        async fn read(from: Arc<dyn Endpoint>, offset: u64, bytes: usize) -> Taken;
        /// Writes by reference, see [`Endpoint::give`]. Repeating it is harmless with an offset, else it writes again.
        async fn write(to: Arc<dyn Endpoint>, offset: Option<u64>, data: Vec<Bytes>) -> Result<usize, StreamError>;
        /// Counts bytes that an object with bounds and a queue of its own (a socket) has moved. Answers when the
        /// scheduler grants them.
        async fn pass(bytes: usize) -> Result<(), StreamError>;
    }
}
