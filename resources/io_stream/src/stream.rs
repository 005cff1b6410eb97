//! A stream: a bounded queue of bytes between an end that is written and one that is read (2013 paper, Fig. 7).
//!
//! A write is copied once, into pages; small ones are gathered behind the bytes of the last page. A read gets views
//! of these pages.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_interface::io_stream::{Endpoint, Giving, STREAM_BYTES_MAX, StreamEnds, StreamError, Taken, Taking};
use gyre_interface::{Readiness, Ready};
use gyre_machine::PAGE_BYTES;
use gyre_object::{ByteQueue, Bytes, ObjectLock};

#[derive(Default)]
struct State {
    queue: ByteQueue,
    reader_is_gone: bool,
    writer_is_gone: bool,
}

impl State {
    fn room(&self) -> usize {
        STREAM_BYTES_MAX.saturating_sub(self.queue.len())
    }
}

struct Stream {
    state: ObjectLock<State>,
    readable: Arc<Readiness>,
    writable: Arc<Readiness>,
}

impl Stream {
    /// Sets both ends' readiness from the state.
    fn publish(&self, state: &State) {
        let mut read = Ready::empty();
        read.set(Ready::READ, !state.queue.is_empty());
        read.set(Ready::HANG_UP, state.writer_is_gone);
        let mut write = Ready::empty();
        // Whom a byte of room would wake would wait again at once.
        write.set(Ready::WRITE, state.room() >= PAGE_BYTES);
        write.set(Ready::ERROR, state.reader_is_gone);
        renew(&self.readable, read);
        renew(&self.writable, write);
    }
}

/// Sets bits anew, so that edge-triggered users hear of data and of room even if there was some before.
fn renew(readiness: &Readiness, bits: Ready) {
    let before = readiness.now();
    readiness.clear(before.difference(bits));
    if !bits.is_empty() {
        readiness.set(bits);
    }
}

/// Returns an empty stream.
pub(crate) fn open() -> StreamEnds {
    let stream = Arc::new(Stream {
        state: ObjectLock::default(),
        readable: Readiness::new(Ready::empty()),
        writable: Readiness::new(Ready::WRITE),
    });
    StreamEnds { reader: Arc::new(Reader(stream.clone())), writer: Arc::new(Writer(stream)) }
}

struct Reader(Arc<Stream>);

struct Writer(Arc<Stream>);

impl Endpoint for Reader {
    fn take(self: Arc<Self>, offset: u64, bytes: usize) -> Taking {
        Box::pin(async move { self.take_near(offset, bytes).unwrap_or(Err(StreamError::Later)) })
    }

    fn take_near(&self, _offset: u64, bytes: usize) -> Option<Taken> {
        let mut state = self.0.state.lock();
        let taken = state.queue.take(bytes);
        if taken.is_empty() && bytes > 0 && !state.writer_is_gone {
            return Some(Err(StreamError::Later));
        }
        self.0.publish(&state);
        Some(Ok(taken))
    }

    fn give(self: Arc<Self>, _offset: Option<u64>, _data: Vec<Bytes>) -> Giving {
        Box::pin(async { Err(StreamError::Broken) })
    }

    fn give_near(&self, _offset: Option<u64>, _data: Vec<Bytes>) -> Result<Result<usize, StreamError>, Vec<Bytes>> {
        Ok(Err(StreamError::Broken))
    }

    fn readiness(&self) -> Option<Arc<Readiness>> {
        Some(self.0.readable.clone())
    }
}

impl Writer {
    /// Queues as many bytes as there is room for.
    fn push(&self, data: &[Bytes]) -> Result<usize, StreamError> {
        let mut state = self.0.state.lock();
        if state.reader_is_gone {
            return Err(StreamError::Broken);
        }
        let room = state.room();
        let mut done = 0;
        for piece in data {
            let part = piece.slice(0, room.saturating_sub(done));
            if part.is_empty() {
                continue;
            }
            match state.queue.push_gathered(&part) {
                Err(_) if done == 0 => return Err(StreamError::OutOfMemory),
                Err(_) => break,
                Ok(()) => done = usize::saturating_add(done, part.len()),
            }
        }
        if done == 0 && data.iter().any(|piece| !piece.is_empty()) {
            return Err(StreamError::Later);
        }
        self.0.publish(&state);
        Ok(done)
    }
}

impl Endpoint for Writer {
    fn take(self: Arc<Self>, _offset: u64, _bytes: usize) -> Taking {
        Box::pin(async { Err(StreamError::Broken) })
    }

    fn take_near(&self, _offset: u64, _bytes: usize) -> Option<Taken> {
        Some(Err(StreamError::Broken))
    }

    fn give(self: Arc<Self>, _offset: Option<u64>, data: Vec<Bytes>) -> Giving {
        Box::pin(async move { self.push(&data) })
    }

    fn give_near(&self, _offset: Option<u64>, data: Vec<Bytes>) -> Result<Result<usize, StreamError>, Vec<Bytes>> {
        Ok(self.push(&data))
    }

    fn readiness(&self) -> Option<Arc<Readiness>> {
        Some(self.0.writable.clone())
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.reader_is_gone = true;
        // No reader can come any more.
        let rest = core::mem::take(&mut state.queue);
        self.0.publish(&state);
        drop(state);
        drop(rest);
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.writer_is_gone = true;
        self.0.publish(&state);
    }
}
