//! A flow: one sink, one source after another.

use crate::shares::{Membership, Shares};
use crate::transfer::{Sink, Source, Transfer};
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};
use gyre_message::{WaitQueue, select};
use gyre_object::SpinLock;

/// What a read, a write or a flow ends with; the error is its user's number for it.
pub type Result<T> = core::result::Result<T, i32>;

/// A source to be moved.
pub struct Request {
    /// Where data comes from.
    pub source: Arc<dyn Source>,
    /// The first byte of it.
    pub offset: u64,
    /// How many bytes at most; the end of the source ends it before.
    pub bytes: u64,
    /// Where it goes in the sink.
    pub sink_offset: u64,
}

#[derive(Default)]
struct State {
    requests: VecDeque<Request>,
    closed: bool,
    cancelled: bool,
    finished: Option<Result<()>>,
}

/// A flow.
pub struct Flow {
    sink: Arc<dyn Sink>,
    membership: Arc<Membership>,
    state: SpinLock<State>,
    changed: WaitQueue,
    moved_bytes: AtomicU64,
}

impl Flow {
    /// A flow to `sink` with a share among those of the same program. [`Flow::run`] must run as a task.
    pub fn new(sink: Arc<dyn Sink>, shares: &Arc<Shares>, share: u32) -> Arc<Flow> {
        Arc::new(Flow {
            sink,
            membership: Arc::new(shares.join(share)),
            state: SpinLock::default(),
            changed: WaitQueue::new(),
            moved_bytes: AtomicU64::new(0),
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

    /// Moves data until it is closed and everything is moved, or something fails.
    pub async fn run(self: Arc<Self>) {
        let result = loop {
            match self.changed.until(|| self.next()).await {
                None => break Ok(()),
                Some(request) => {
                    if let Err(error) = self.transfer(request).await {
                        break Err(error);
                    }
                }
            }
        };
        let mut state = self.state.lock();
        state.finished = Some(result);
        let left = core::mem::take(&mut state.requests);
        drop(state);
        drop(left);
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
            end: request.offset.saturating_add(request.bytes),
            sink_offset: request.sink_offset,
        };
        let mut moved = |bytes| {
            self.moved_bytes.fetch_add(bytes, Ordering::Relaxed);
        };
        let cancelled = self.changed.until(|| self.state.lock().cancelled.then_some(()));
        match select(transfer.run(&mut moved), cancelled).await {
            gyre_message::wait::Either::First(result) => result,
            gyre_message::wait::Either::Second(()) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
