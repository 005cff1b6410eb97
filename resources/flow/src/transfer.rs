//! One source into the sink: parts are read ahead while earlier ones are written.

use crate::flow::Result;
use crate::shares::Membership;
use crate::{PART_BYTES, PARTS_MAX};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::{Context, Poll};
use gyre_object::Bytes;

/// A read under way: fewer bytes than asked for where there are no more now, none at the end.
pub type Reading = Pin<Box<dyn Future<Output = Result<Vec<Bytes>>> + Send>>;
/// A write under way: all of it.
pub type Writing = Pin<Box<dyn Future<Output = Result<()>> + Send>>;

/// What data comes from.
pub trait Source: Send + Sync {
    /// Reads up to `bytes` from `offset` on; a stream ignores the offset.
    fn read(&self, offset: u64, bytes: usize) -> Reading;
    /// True where several parts may be read at once: they have places of their own.
    fn has_offsets(&self) -> bool;
}

/// Where data goes.
pub trait Sink: Send + Sync {
    /// Writes all of `data` at `offset`; a stream ignores the offset.
    fn write(&self, offset: u64, data: Vec<Bytes>) -> Writing;
}

/// A part: where it begins, how much was asked for, and how far it is.
struct Part {
    offset: u64,
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

/// A transfer of `bytes` from a source, under way.
pub(crate) struct Transfer<'a> {
    pub(crate) source: &'a Arc<dyn Source>,
    pub(crate) sink: &'a Arc<dyn Sink>,
    pub(crate) membership: &'a Arc<Membership>,
    pub(crate) next: u64,
    pub(crate) end: u64,
    pub(crate) sink_offset: u64,
}

impl Transfer<'_> {
    /// Moves everything; `moved` is told of each part that has arrived.
    pub(crate) async fn run(mut self, moved: &mut (dyn FnMut(u64) + Send)) -> Result<()> {
        let mut parts: VecDeque<Part> = VecDeque::new();
        let mut writing: Option<(Writing, u64)> = None;
        loop {
            self.read_ahead(&mut parts);
            if let (None, Some(front)) = (&writing, parts.front_mut())
                && let Some(read) = front.read.take()
            {
                let (offset, bytes) = (front.offset, front.bytes);
                parts.pop_front();
                let data = read?;
                let count: usize = data.iter().map(Bytes::len).sum();
                if count < bytes {
                    // The parts behind it were guesses that were wrong.
                    parts.clear();
                    self.next = offset + count as u64;
                    self.end = if count == 0 { self.next } else { self.end };
                }
                if count > 0 {
                    writing = Some((self.sink.write(self.sink_offset, data), count as u64));
                    self.sink_offset += count as u64;
                }
                continue;
            }
            if writing.is_none() && parts.is_empty() {
                return Ok(());
            }
            if let Some(written) = poll_fn(|context| step(&mut parts, &mut writing, context)).await {
                written?;
                let count = writing.take().map_or(0, |(_, count)| count);
                moved(count);
            }
        }
    }

    fn read_ahead(&mut self, parts: &mut VecDeque<Part>) {
        let most = if self.source.has_offsets() { PARTS_MAX } else { 1 };
        while parts.len() < most && self.next < self.end {
            let (offset, bytes) = (self.next, (self.end - self.next).min(PART_BYTES as u64) as usize);
            let (source, membership) = (self.source.clone(), self.membership.clone());
            let reading = Box::pin(async move {
                let _grant = membership.grant(bytes).await;
                source.read(offset, bytes).await
            });
            parts.push_back(Part { offset, bytes, reading, read: None });
            self.next += bytes as u64;
        }
    }
}

/// Goes on with everything that can; ready when a part was read (`None`) or the write is over.
fn step(
    parts: &mut VecDeque<Part>,
    writing: &mut Option<(Writing, u64)>,
    context: &mut Context<'_>,
) -> Poll<Option<Result<()>>> {
    let mut any = false;
    for part in parts.iter_mut() {
        any |= part.poll(context);
    }
    if let Some((writing, _)) = writing
        && let Poll::Ready(written) = writing.as_mut().poll(context)
    {
        return Poll::Ready(Some(written));
    }
    let front_is_read = parts.front().is_some_and(|front| front.read.is_some());
    if any && front_is_read && writing.is_none() { Poll::Ready(None) } else { Poll::Pending }
}
