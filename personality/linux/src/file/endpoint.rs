//! Open files as endpoints of the I/O stream resource: data moves between them by reference.

use super::cached;
use super::mount::Place;
use super::object::Object;
use super::open_file::OpenFile;
use crate::Errno;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_interface::Readiness;
use gyre_interface::io_stream::{Endpoint, Giving, StreamError, Taken, Taking};
use gyre_object::Bytes;

impl From<StreamError> for Errno {
    fn from(error: StreamError) -> Errno {
        match error {
            StreamError::Later => Errno::EAGAIN,
            StreamError::Broken => Errno::EPIPE,
            StreamError::OutOfMemory => Errno::ENOMEM,
            StreamError::Object(number) => Errno(number),
            StreamError::Gone => Errno::EIO,
        }
    }
}

impl From<Errno> for StreamError {
    fn from(error: Errno) -> StreamError {
        match error {
            Errno::EAGAIN => StreamError::Later,
            Errno::EPIPE => StreamError::Broken,
            Errno::ENOMEM => StreamError::OutOfMemory,
            Errno(number) => StreamError::Object(number),
        }
    }
}

impl Endpoint for OpenFile {
    fn take(self: Arc<Self>, offset: u64, bytes: usize) -> Taking {
        Box::pin(async move { Ok(OpenFile::take(&self, offset, bytes).await?) })
    }

    // recursion: at most 2, because the end of a native stream is no open file
    fn take_near(&self, offset: u64, bytes: usize) -> Option<Taken> {
        match self.object() {
            Object::Pipe(end) => Some(end.take(bytes).map_err(StreamError::from)),
            Object::Device(device) => Some(device.take(bytes).map_err(StreamError::from)),
            Object::Stream(end) => end.take_near(offset, bytes),
            Object::Regular => cached::take(self, offset, bytes).map(Ok),
            _ => None,
        }
    }

    fn give(self: Arc<Self>, offset: Option<u64>, data: Vec<Bytes>) -> Giving {
        Box::pin(async move { Ok(OpenFile::give(&self, offset, data).await?) })
    }

    // recursion: at most 2, because the end of a native stream is no open file
    fn give_near(&self, offset: Option<u64>, data: Vec<Bytes>) -> Result<Result<usize, StreamError>, Vec<Bytes>> {
        match self.object() {
            Object::Stream(end) => end.give_near(offset, data),
            _ => Err(data),
        }
    }

    // recursion: at most 2, because the end of a native stream is no open file
    fn readiness(&self) -> Option<Arc<Readiness>> {
        OpenFile::readiness(self)
    }
}

/// A regular file of a file system, for reads and writes whose positions their caller keeps.
impl Endpoint for Place {
    fn take(self: Arc<Self>, offset: u64, bytes: usize) -> Taking {
        Box::pin(async move {
            self.system().read(self.node, offset, bytes).await.map_err(|error| Errno::from(error).into())
        })
    }

    fn take_near(&self, offset: u64, bytes: usize) -> Option<Taken> {
        cached::pages(self, offset, bytes).map(Ok)
    }

    fn give(self: Arc<Self>, offset: Option<u64>, data: Vec<Bytes>) -> Giving {
        let offset = offset.unwrap_or(0);
        Box::pin(async move {
            self.system().write(self.node, offset, data).await.map_err(|error| Errno::from(error).into())
        })
    }

    fn give_near(&self, _offset: Option<u64>, data: Vec<Bytes>) -> Result<Result<usize, StreamError>, Vec<Bytes>> {
        Err(data)
    }

    fn readiness(&self) -> Option<Arc<Readiness>> {
        None
    }
}
