//! A flow: one sink, one source after another.

use crate::shares::{Membership, Shares};
use crate::transfer::{Sink, Source, Transfer};
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::pin::pin;
use core::sync::atomic::{AtomicU64, Ordering};
use gyre_interface::{Position, Readiness, Ready};
use gyre_message::{WaitQueue, select};
use gyre_object::ObjectLock;

/// What a read, a write or a flow ends with; the error is its user's number for it.
pub type Result<T> = core::result::Result<T, i32>;

/// A source to be moved.
pub struct Request {
    /// Where data comes from.
    pub source: Arc<dyn Source>,
    /// The first byte of it.
    pub offset: Position,
    /// How many bytes at most; the end of the source ends it before.
    pub bytes: u64,
    /// Where it goes in the sink.
    pub sink_offset: Position,
}

/// How a flow has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// What its maker passed.
    pub cookie: u64,
    /// The bytes that have arrived, or the first error that a source or the sink had.
    pub result: core::result::Result<u64, i32>,
}

#[derive(Default)]
struct State {
    requests: VecDeque<Request>,
    closed: bool,
    cancelled: bool,
    finished: Option<Result<()>>,
    /// The completion has been taken.
    is_told: bool,
}

/// A flow.
pub struct Flow {
    sink: Arc<dyn Sink>,
    membership: Arc<Membership>,
    state: ObjectLock<State>,
    changed: WaitQueue,
    moved_bytes: AtomicU64,
    cookie: u64,
    ended: Arc<Readiness>,
}

impl Flow {
    /// A flow to `sink` with a share among those of the same program; its completion brings `cookie` back. [`Flow::run`] must be run by
    /// somebody.
    pub fn new(sink: Arc<dyn Sink>, shares: &Arc<Shares>, share: u32, cookie: u64) -> Arc<Flow> {
        Arc::new(Flow {
            sink,
            membership: Arc::new(shares.join(share)),
            state: ObjectLock::default(),
            changed: WaitQueue::new(),
            moved_bytes: AtomicU64::new(0),
            cookie,
            ended: Readiness::new(Ready::empty()),
        })
    }

    /// One more source, behind those that are there; gives it back where the flow is closed or has failed.
    pub fn add(&self, request: Request) -> core::result::Result<(), Request> {
        let mut state = self.state.lock();
        if state.closed || state.finished.is_some() {
            return Err(request);
        }
        state.requests.push_back(request);
        drop(state);
        self.changed.wake_all();
        Ok(())
    }

    /// No more sources: it ends when those that are there are moved.
    pub fn close(&self) {
        self.state.lock().closed = true;
        self.changed.wake_all();
    }

    /// Ends it now; what has not arrived does not.
    pub fn cancel(&self) {
        let mut state = self.state.lock();
        (state.closed, state.cancelled) = (true, true);
        drop(state);
        self.changed.wake_all();
    }

    /// Bytes that have arrived.
    pub fn moved_bytes(&self) -> u64 {
        self.moved_bytes.load(Ordering::Relaxed)
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// The first one that a source or the sink had; what came before it has arrived.
    pub async fn finished(&self) -> Result<()> {
        self.changed.until(|| self.state.lock().finished).await
    }

    /// Ready for reading once it has ended: its completion is there then.
    pub fn readiness(&self) -> &Arc<Readiness> {
        &self.ended
    }

    /// Takes the completion: `None` as long as it runs, `Some(None)` once somebody has taken it.
    pub fn complete(&self) -> Option<Option<Completion>> {
        let mut state = self.state.lock();
        let finished = state.finished?;
        let result = finished.map(|()| self.moved_bytes());
        let is_told = core::mem::replace(&mut state.is_told, true);
        Some((!is_told).then_some(Completion { cookie: self.cookie, result }))
    }

    /// The work of a flow: moves data until it is closed and everything is moved, or something fails. Dropped before that, refused
    /// perhaps by who should have done it, it ends the flow with the error `abandoned`.
    pub fn run(self: Arc<Self>, abandoned: i32) -> impl Future<Output = ()> + Send {
        let running = Running { flow: self, abandoned };
        async move {
            let result = running.flow.move_all().await;
            running.flow.end(result);
        }
    }

    async fn move_all(&self) -> Result<()> {
        while let Some(request) = self.changed.until(|| self.next()).await {
            self.transfer(request).await?;
        }
        Ok(())
    }

    fn end(&self, result: Result<()>) {
        let mut state = self.state.lock();
        if state.finished.is_some() {
            return;
        }
        state.finished = Some(result);
        let left = core::mem::take(&mut state.requests);
        drop(state);
        drop(left);
        self.ended.set(Ready::READ);
        self.changed.wake_all();
    }

    /// The next source; `Some(None)` where there is none any more.
    fn next(&self) -> Option<Option<Request>> {
        let mut state = self.state.lock();
        if state.cancelled {
            return Some(None);
        }
        match state.requests.pop_front() {
            Some(request) => Some(Some(request)),
            None => state.closed.then_some(None),
        }
    }

    async fn transfer(&self, request: Request) -> Result<()> {
        let transfer = Transfer {
            source: &request.source,
            sink: &self.sink,
            membership: &self.membership,
            next: request.offset,
            end: request.offset.advanced(request.bytes),
            sink_offset: request.sink_offset,
        };
        let mut moved = |bytes| {
            self.moved_bytes.fetch_add(bytes, Ordering::Relaxed);
        };
        let cancelled = self.changed.until(|| self.state.lock().cancelled.then_some(()));
        let work = pin!(transfer.run(&mut moved));
        match select(work, cancelled).await {
            gyre_message::wait::Either::First(result) => result,
            gyre_message::wait::Either::Second(()) => Ok(()),
        }
    }
}

/// The work of a flow, whoever does it.
struct Running {
    flow: Arc<Flow>,
    abandoned: i32,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.flow.end(Err(self.abandoned));
    }
}

#[cfg(test)]
mod tests;
