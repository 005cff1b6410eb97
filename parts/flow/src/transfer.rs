//! One source into the sink: parts are read ahead while earlier ones are written.
//!
//! ```text
//!   next .. end --read ahead, PARTS_MAX--> parts, in order --one at a time--> write --> moved
//! ```
//! States of a part: being read, read, being written. A read that is shorter than wanted makes the parts behind it wrong guesses: they are
//! dropped. Ended early ([`Transfer::run_until`]) a transfer stops between two writes, so that all bytes that arrived were told.
//!
//! May be called: by anybody; only the runs wait, and dropping one drops what it reads and writes.

use crate::flow::Result;
use crate::shares::Membership;
use crate::{PART_BYTES, PARTS_MAX};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::{Future, poll_fn};
use core::pin::{Pin, pin};
use core::task::{Context, Poll};
use gyre_interface::Position;
use gyre_object::Bytes;

/// A read under way: fewer bytes than asked for if there are no more now, none at the end.
pub type Reading = Pin<Box<dyn Future<Output = Result<Vec<Bytes>>> + Send>>;
/// A write under way: how many bytes were taken, at least one; none if it will take no more, which ends the transfer.
pub type Writing = Pin<Box<dyn Future<Output = Result<usize>> + Send>>;
/// The end of a transfer before its time.
pub type Stop<'a> = Pin<&'a mut (dyn Future<Output = ()> + Send)>;
/// A wait for something to read.
pub type Waiting = Pin<Box<dyn Future<Output = Result<()>> + Send>>;

/// A source of data.
pub trait Source: Send + Sync {
    /// Reads up to `bytes` from `offset` on; a stream ignores the offset.
    fn read(&self, offset: u64, bytes: usize) -> Reading;
    /// Returns whether several parts may be read at once: they have places of their own.
    fn has_offsets(&self) -> bool;
    /// Waits until a read finds something, without taking any of it; `None` if it always does.
    fn wait(&self) -> Option<Waiting> {
        None
    }
}

/// A target of data.
pub trait Sink: Send + Sync {
    /// Writes as much of `data` as there is room for, at `offset`, waiting for some room; a stream ignores the
    /// offset.
    fn write(&self, offset: u64, data: Vec<Bytes>) -> Writing;
}

/// Drops the first `count` bytes of pieces.
pub fn skip(data: &mut Vec<Bytes>, mut count: usize) {
    data.retain_mut(|piece| {
        let gone = count.min(piece.len());
        count = count.saturating_sub(gone);
        if gone > 0 {
            *piece = piece.slice(gone, piece.len());
        }
        !piece.is_empty()
    });
}

/// A part: its offset, the bytes asked for, and its progress.
struct Part {
    offset: Position,
    bytes: usize,
    reading: Reading,
    read: Option<Result<Vec<Bytes>>>,
}

impl Part {
    fn poll(&mut self, context: &mut Context<'_>) -> bool {
        if self.read.is_some() {
            return false;
        }
        match self.reading.as_mut().poll(context) {
            Poll::Ready(read) => {
                self.read = Some(read);
                true
            }
            Poll::Pending => false,
        }
    }
}

/// A part on its way into the sink, with the rest that has not arrived.
struct Write {
    writing: Writing,
    rest: Vec<Bytes>,
}

/// A transfer from one source into a sink, under way: a flow makes one of each of its sources, and calls that move
/// data use it on their slow path.
pub struct Transfer<'a> {
    /// The source of data.
    pub source: &'a Arc<dyn Source>,
    /// If it goes.
    pub sink: &'a Arc<dyn Sink>,
    /// Its share among the reads of the program's flows.
    pub membership: &'a Arc<Membership>,
    /// The next byte to be asked for.
    pub next: Position,
    /// The byte after the last one wanted.
    pub end: Position,
    /// The offset of the next byte in the sink; at [`Position::LAST`] a file takes none.
    pub sink_offset: Position,
}

impl Transfer<'_> {
    /// Moves everything; `moved` is told the bytes that have arrived, at once.
    ///
    /// # Errors
    /// The first one of the source or the sink.
    pub async fn run(self, moved: &mut (dyn FnMut(u64) + Send)) -> Result<()> {
        self.run_until(moved, pin!(core::future::pending())).await
    }

    /// As [`Transfer::run`], until `stop` is ready: then it ends at the next border between two writes, so that `moved` has been told all
    /// bytes that have arrived.
    ///
    /// # Errors
    /// The first one of the source or the sink.
    pub async fn run_until(mut self, moved: &mut (dyn FnMut(u64) + Send), mut stop: Stop<'_>) -> Result<()> {
        let mut parts: VecDeque<Part> = VecDeque::new();
        let mut write: Option<Write> = None;
        loop {
            self.read_ahead(&mut parts);
            if write.is_none()
                && let Some(read) = parts.front_mut().and_then(|front| front.read.take())
            {
                write = self.next_write(&mut parts, read?);
                continue;
            }
            if write.is_none() && parts.is_empty() {
                return Ok(());
            }
            let stepped = poll_fn(|context| {
                if write.is_none() && stop.as_mut().poll(context).is_ready() {
                    return Poll::Ready(None);
                }
                step(&mut parts, &mut write, context).map(Some)
            });
            let Some(stepped) = stepped.await else { return Ok(()) };
            if let Some(written) = stepped {
                let count = written?;
                if count == 0 {
                    return Ok(());
                }
                moved(count as u64);
                self.sink_offset = self.sink_offset.advanced(count as u64);
                let is_stopped = poll_fn(|context| Poll::Ready(stop.as_mut().poll(context).is_ready())).await;
                if is_stopped {
                    return Ok(());
                }
                write = write.take().and_then(|write| self.go_on(write.rest, count));
            }
        }
    }

    /// Hands the first part to the sink, after it has been read. The parts behind it were wrong guesses if it is
    /// shorter than wanted.
    fn next_write(&mut self, parts: &mut VecDeque<Part>, data: Vec<Bytes>) -> Option<Write> {
        let part = parts.pop_front()?;
        let count: usize = data.iter().map(Bytes::len).sum();
        if count < part.bytes {
            parts.clear();
            self.next = part.offset.advanced(count as u64);
            self.end = if count == 0 { self.next } else { self.end };
        }
        self.go_on(data, 0)
    }

    /// Writes the rest behind the first `count` bytes.
    fn go_on(&self, mut rest: Vec<Bytes>, count: usize) -> Option<Write> {
        skip(&mut rest, count);
        (!rest.is_empty()).then(|| Write { writing: self.sink.write(self.sink_offset.get(), rest.clone()), rest })
    }

    fn read_ahead(&mut self, parts: &mut VecDeque<Part>) {
        let most = if self.source.has_offsets() { PARTS_MAX } else { 1 };
        while parts.len() < most && self.next < self.end {
            let (offset, bytes) = (self.next, self.next.until(self.end).min(PART_BYTES as u64) as usize);
            let (source, membership) = (self.source.clone(), self.membership.clone());
            let reading = Box::pin(async move {
                // A flow that waits for a writer holds nothing that others could read by.
                if let Some(waiting) = source.wait() {
                    waiting.await?;
                }
                let _grant = membership.grant(bytes).await;
                source.read(offset.get(), bytes).await
            });
            parts.push_back(Part { offset, bytes, reading, read: None });
            self.next = offset.advanced(bytes as u64);
        }
    }
}

/// Goes on with everything that can; ready when a part was read (`None`) or the write is over.
fn step(
    parts: &mut VecDeque<Part>,
    write: &mut Option<Write>,
    context: &mut Context<'_>,
) -> Poll<Option<Result<usize>>> {
    let mut any = false;
    for part in parts.iter_mut() {
        any |= part.poll(context);
    }
    if let Some(write) = write
        && let Poll::Ready(written) = write.writing.as_mut().poll(context)
    {
        return Poll::Ready(Some(written));
    }
    let front_is_read = parts.front().is_some_and(|front| front.read.is_some());
    if any && front_is_read && write.is_none() { Poll::Ready(None) } else { Poll::Pending }
}
