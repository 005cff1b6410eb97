//! Slow path of sendfile, splice and copy_file_range: it runs as a flow of share 1 beside the program's own. Parts
//! are read ahead while earlier ones are written, within the same bounds.

use super::Moved;
use super::file_move::FileMove;
use crate::file::calls::Attempts;
use crate::file::calls::read_write::deadline_of;
use crate::file::flow::{End, number};
use crate::file::object::Object;
use crate::file::open_file::OpenFile;
use crate::{Errno, Thread};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use gyre_flow::{Reading, Sink, Source, Transfer, Writing};
use gyre_interface::{Position, Ready};
use gyre_object::{Bytes, ObjectLock};

/// A call's share among the flows of its program.
const SHARE: u32 = 1;

/// The sink of a call: it waits for room as the call may, until a signal comes or the socket's time is over.
struct SinkOfCall {
    thread: Arc<Thread>,
    out: Arc<OpenFile>,
    has_place: bool,
    /// True once something has been written: a signal ends the call then.
    has_begun: AtomicBool,
}

impl SinkOfCall {
    async fn write(&self, offset: u64, data: Vec<Bytes>) -> Result<usize, Errno> {
        if self.has_begun.swap(true, Ordering::Relaxed) {
            self.thread.breathe().await?;
        }
        let at = self.has_place.then_some(offset);
        let deadline = deadline_of(&self.out, Ready::WRITE);
        let mut attempts = Attempts::default();
        loop {
            match self.out.tenant().passage.give(&self.out, at, data.clone()).await {
                Err(Errno::EAGAIN) => {
                    attempts.wait(&self.thread, &self.out, Ready::WRITE, deadline).await?;
                }
                result => return result,
            }
        }
    }
}

/// The sink, shared with the writes under way.
struct WaitingSink(Arc<SinkOfCall>);

impl Sink for WaitingSink {
    fn write(&self, offset: u64, data: Vec<Bytes>) -> Writing {
        let sink = self.0.clone();
        Box::pin(async move { sink.write(offset, data).await.map_err(number) })
    }
}

/// Data that was taken from a stream and has not been written.
struct TakenData(ObjectLock<Vec<Bytes>>);

impl Source for TakenData {
    fn read(&self, _offset: u64, _bytes: usize) -> Reading {
        let data = core::mem::take(&mut *self.0.lock());
        Box::pin(async { Ok(data) })
    }

    fn has_offsets(&self) -> bool {
        false
    }
}

/// Returns the rest of a move, after its first `moved` bytes.
pub(super) async fn rest(of: &FileMove<'_>, moved: usize) -> Moved {
    let source: Arc<dyn Source> = Arc::new(End { file: of.source.clone(), label: 0 });
    let (next, end) = (of.from.advanced(moved as u64), of.from.advanced(of.bytes as u64));
    let (to, done) = (of.to.map(|to| to.advanced(moved as u64)), moved as u64);
    transfer(of.thread, &source, of.out, (next, end), to, done).await
}

/// Writes data that was taken from a stream, waiting for room.
pub(super) async fn held(thread: &Arc<Thread>, data: Vec<Bytes>, out: &Arc<OpenFile>, to: Option<Position>) -> Moved {
    let end = Position::START.advanced(super::length(&data) as u64);
    let source: Arc<dyn Source> = Arc::new(TakenData(ObjectLock::new(data)));
    transfer(thread, &source, out, (Position::START, end), to, 0).await
}

async fn transfer(
    thread: &Arc<Thread>,
    source: &Arc<dyn Source>,
    out: &Arc<OpenFile>,
    (next, end): (Position, Position),
    to: Option<Position>,
    mut done: u64,
) -> Moved {
    let has_place = to.is_some() && matches!(out.object(), Object::Regular);
    let sink: Arc<dyn Sink> = Arc::new(WaitingSink(Arc::new(SinkOfCall {
        thread: thread.clone(),
        out: out.clone(),
        has_place,
        has_begun: AtomicBool::new(false),
    })));
    let membership = Arc::new(thread.process().flow_shares.join(SHARE));
    let transfer =
        Transfer { source, sink: &sink, membership: &membership, next, end, sink_offset: to.unwrap_or_default() };
    let result = transfer.run(&mut |bytes| done = done.saturating_add(bytes)).await;
    Moved { bytes: done as usize, error: result.err().map(Errno) }
}
