//! Pipes: a bounded queue of bytes with two ends (pipe(7)).
//!
//! Nothing here waits: a call that cannot go on answers EAGAIN, and its caller waits on the end's readiness. Opening
//! a named pipe may have to wait for the other side; [`Pipe::open`] answers with the partner to wait for.
//!
//! A write of at most [`ATOMIC_BYTES`] goes in completely or not at all; of a longer one as much as there is room
//! for. Bytes lie in views of pages, so data moves by reference (take, give, peek for tee) or by copy (read, write).
//!
//! States of the readiness: a reader sees READ while bytes are there and HANG_UP when the last writer is gone; a
//! writer sees WRITE while an atomic write fits, and WRITE with ERROR when the last reader is gone. Every change
//! publishes them under the pipe's lock.

use crate::Errno;
use crate::objects::PIPES;
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_interface::{Readiness, Ready};
use gyre_message::WaitQueue;
use gyre_object::{ByteQueue, Bytes, Counter, ObjectLock};

/// Writes up to here are atomic (POSIX PIPE_BUF on Linux), bytes.
pub const ATOMIC_BYTES: usize = 4096;
/// Capacity of a new pipe, bytes.
pub const CAPACITY_BYTES: usize = 65_536;
/// Largest capacity that F_SETPIPE_SZ gives, bytes.
pub const CAPACITY_BYTES_MAX: usize = 1 << 20;

struct State {
    queue: ByteQueue,
    capacity: usize,
    readers: usize,
    writers: usize,
    /// Times that a reading and a writing end was opened, so that an opener sees a partner that came and went.
    openings: (u64, u64),
}

impl State {
    fn room(&self) -> usize {
        self.capacity.saturating_sub(self.queue.len())
    }

    /// Returns the bytes of a write of `bytes` that go in now.
    fn admit(&self, bytes: usize) -> Result<usize, Errno> {
        if self.readers == 0 {
            return Err(Errno::EPIPE);
        }
        let room = self.room();
        if room >= bytes {
            return Ok(bytes);
        }
        if bytes <= ATOMIC_BYTES || room == 0 {
            return Err(Errno::EAGAIN);
        }
        Ok(room)
    }
}

/// The pipe itself, shared by its ends.
pub struct Pipe {
    _count: Counter,
    state: ObjectLock<State>,
    readable: Arc<Readiness>,
    writable: Arc<Readiness>,
    both: Arc<Readiness>,
    opened: WaitQueue,
}

impl Pipe {
    /// Makes an empty pipe without ends.
    pub fn new() -> Arc<Pipe> {
        Arc::new(Pipe {
            _count: PIPES.count(),
            state: ObjectLock::new(State {
                queue: ByteQueue::default(),
                capacity: CAPACITY_BYTES,
                readers: 0,
                writers: 0,
                openings: (0, 0),
            }),
            opened: WaitQueue::new(),
            readable: Readiness::new(Ready::empty()),
            writable: Readiness::new(Ready::WRITE),
            both: Readiness::new(Ready::WRITE),
        })
    }

    /// Sets and clears the bits that follow from the state; `moved` says that data or room has just come.
    fn publish(&self, state: &State, moved: Ready) {
        let mut read = Ready::empty();
        read.set(Ready::READ, !state.queue.is_empty());
        read.set(Ready::HANG_UP, state.writers == 0);
        let mut write = Ready::empty();
        write.set(Ready::WRITE, state.room() >= ATOMIC_BYTES || state.readers == 0);
        write.set(Ready::ERROR, state.readers == 0);
        renew(&self.readable, read, moved & Ready::READ);
        renew(&self.writable, write, moved & Ready::WRITE);
        renew(&self.both, (read | write) & (Ready::READ | Ready::WRITE), moved);
    }

    /// Returns a new end.
    pub fn end(self: &Arc<Pipe>, side: Side) -> PipeEnd {
        self.open(side).0
    }

    /// Returns a new end, and the partner that it must wait for if the other side has no end open now.
    pub fn open(self: &Arc<Pipe>, side: Side) -> (PipeEnd, Option<Partner>) {
        let mut state = self.state.lock();
        state.readers = state.readers.saturating_add(usize::from(side != Side::Write));
        state.writers = state.writers.saturating_add(usize::from(side != Side::Read));
        state.openings.0 = state.openings.0.wrapping_add(u64::from(side != Side::Write));
        state.openings.1 = state.openings.1.wrapping_add(u64::from(side != Side::Read));
        self.publish(&state, Ready::empty());
        let partner = match side {
            Side::Read if state.writers == 0 => Some(Partner::Writer(state.openings.1)),
            Side::Write if state.readers == 0 => Some(Partner::Reader(state.openings.0)),
            _ => None,
        };
        drop(state);
        self.opened.wake_all();
        (PipeEnd { pipe: self.clone(), side }, partner)
    }

    /// Waits for the other side of a named pipe, also one that has come and gone meanwhile.
    pub async fn partner(&self, partner: Partner) {
        self.opened
            .until(|| {
                let openings = self.state.lock().openings;
                let came = match partner {
                    Partner::Writer(seen) => openings.1 > seen,
                    Partner::Reader(seen) => openings.0 > seen,
                };
                came.then_some(())
            })
            .await;
    }

    /// Returns the open ends: readers and writers.
    pub fn ends(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.readers, state.writers)
    }
}

/// Brings `readiness` to `bits`, telling everybody of bits that are new or have `moved`.
fn renew(readiness: &Readiness, bits: Ready, moved: Ready) {
    let before = readiness.now();
    readiness.clear(before.difference(bits));
    let news = bits.difference(before) | (bits & moved);
    if !news.is_empty() {
        readiness.set(news);
    }
}

/// The side of an end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Reading.
    Read,
    /// Writing.
    Write,
    /// Both (a named pipe opened for reading and writing).
    Both,
}

/// The missing partner of an opening, with the number of such openings until then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Partner {
    /// A reader.
    Reader(u64),
    /// A writer.
    Writer(u64),
}

/// One end of a pipe. Dropping it is seen at the other.
pub struct PipeEnd {
    pipe: Arc<Pipe>,
    side: Side,
}

impl PipeEnd {
    /// Returns the side of this end.
    pub fn side(&self) -> Side {
        self.side
    }

    /// Returns the pipe.
    pub fn pipe(&self) -> &Arc<Pipe> {
        &self.pipe
    }

    /// Returns the readiness of this end.
    pub fn readiness(&self) -> &Arc<Readiness> {
        match self.side {
            Side::Read => &self.pipe.readable,
            Side::Write => &self.pipe.writable,
            Side::Both => &self.pipe.both,
        }
    }

    /// Copies bytes out; 0 at the end.
    ///
    /// # Errors
    /// EAGAIN if nothing is there yet.
    pub fn read(&self, into: &mut [u8]) -> Result<usize, Errno> {
        self.take_with(|queue| {
            let count = queue.read_into(into);
            (count, count == 0)
        })
    }

    /// Takes bytes by reference; none at the end.
    ///
    /// # Errors
    /// EAGAIN if nothing is there yet.
    pub fn take(&self, bytes_max: usize) -> Result<Vec<Bytes>, Errno> {
        self.take_with(|queue| {
            let pieces = queue.take(bytes_max);
            let is_empty = pieces.is_empty();
            (pieces, is_empty)
        })
    }

    /// Returns views of the bytes, for tee.
    ///
    /// # Errors
    /// EAGAIN if nothing is there yet.
    pub fn peek(&self, bytes_max: usize) -> Result<Vec<Bytes>, Errno> {
        self.take_with(|queue| {
            let pieces = queue.peek(bytes_max);
            let is_empty = pieces.is_empty();
            (pieces, is_empty)
        })
    }

    fn take_with<T>(&self, take: impl FnOnce(&mut ByteQueue) -> (T, bool)) -> Result<T, Errno> {
        let mut state = self.pipe.state.lock();
        let (value, is_empty) = take(&mut state.queue);
        if is_empty && state.writers > 0 {
            return Err(Errno::EAGAIN);
        }
        self.pipe.publish(&state, Ready::WRITE);
        Ok(value)
    }

    /// Puts back bytes that were taken and not used: they are read before anything else.
    pub fn put_back(&self, pieces: Vec<Bytes>) {
        let mut state = self.pipe.state.lock();
        state.queue.put_back(pieces);
        self.pipe.publish(&state, Ready::READ);
    }

    /// Queues data beyond the capacity. It was taken from elsewhere for room that other writers have used meanwhile,
    /// and would be lost otherwise.
    ///
    /// # Errors
    /// EPIPE without readers.
    pub fn give_beyond(&self, data: &[Bytes]) -> Result<usize, Errno> {
        let mut state = self.pipe.state.lock();
        if state.readers == 0 {
            return Err(Errno::EPIPE);
        }
        data.iter().for_each(|piece| state.queue.push_bytes(piece));
        self.pipe.publish(&state, Ready::READ);
        Ok(data.iter().map(Bytes::len).sum())
    }

    /// Copies data in: all of it, or of more than [`ATOMIC_BYTES`] as much as there is room for.
    ///
    /// # Errors
    /// EPIPE without readers; EAGAIN without room; ENOMEM.
    pub fn write(&self, data: &[u8]) -> Result<usize, Errno> {
        let mut state = self.pipe.state.lock();
        let count = state.admit(data.len())?;
        state.queue.push_slice(data.get(..count).unwrap_or(&[]))?;
        self.pipe.publish(&state, Ready::READ);
        Ok(count)
    }

    /// Writes as [`PipeEnd::write`] does, by reference.
    ///
    /// # Errors
    /// EPIPE without readers; EAGAIN without room.
    pub fn give(&self, data: &[Bytes]) -> Result<usize, Errno> {
        let mut state = self.pipe.state.lock();
        let count = state.admit(data.iter().map(Bytes::len).sum())?;
        let mut left = count;
        for piece in data {
            let part = piece.slice(0, left);
            left = left.saturating_sub(part.len());
            if !part.is_empty() {
                state.queue.push_bytes(&part);
            }
        }
        self.pipe.publish(&state, Ready::READ);
        Ok(count)
    }

    /// Returns the bytes that can be read now (FIONREAD).
    pub fn readable_bytes(&self) -> usize {
        self.pipe.state.lock().queue.len()
    }

    /// Tells whether a write of `bytes` could go on now, before its data are copied.
    ///
    /// # Errors
    /// EPIPE without readers; EAGAIN without room.
    pub fn check_room(&self, bytes: usize) -> Result<usize, Errno> {
        self.pipe.state.lock().admit(bytes)
    }

    /// Returns the capacity in bytes (F_GETPIPE_SZ).
    pub fn capacity(&self) -> usize {
        self.pipe.state.lock().capacity
    }

    /// Sets the capacity, rounded up to a power of two of at least a page (F_SETPIPE_SZ).
    ///
    /// # Errors
    /// EPERM above the limit, EBUSY if more is queued.
    pub fn set_capacity(&self, bytes: usize) -> Result<usize, Errno> {
        if bytes > CAPACITY_BYTES_MAX {
            return Err(Errno::EPERM);
        }
        let capacity = bytes.max(ATOMIC_BYTES).next_power_of_two();
        let mut state = self.pipe.state.lock();
        if state.queue.len() > capacity {
            return Err(Errno::EBUSY);
        }
        state.capacity = capacity;
        self.pipe.publish(&state, Ready::empty());
        Ok(capacity)
    }
}

impl Drop for PipeEnd {
    fn drop(&mut self) {
        let mut state = self.pipe.state.lock();
        state.readers = state.readers.saturating_sub(usize::from(self.side != Side::Write));
        state.writers = state.writers.saturating_sub(usize::from(self.side != Side::Read));
        self.pipe.publish(&state, Ready::empty());
    }
}

/// Makes a pipe and returns its two ends.
pub fn pipe_pair() -> (PipeEnd, PipeEnd) {
    let pipe = Pipe::new();
    (pipe.end(Side::Read), pipe.end(Side::Write))
}
