//! A flow: one sink, one source after another.
//!
//! Protocol of use: make it ([`Flow::new`]), have its work done by a task ([`Flow::run`]), add sources, and close it.
//! Under a guard ([`Flow::guarded`]) it may end early, between two writes, with what has arrived.
//! [`Flow::finished`] waits for its end, [`Flow::complete`] takes the result once. States: open, closed (no more
//! sources), cancelled, ending (early), finished with the bytes or an error.
//!
//! May be called: by anybody; only [`Flow::run`] and [`Flow::finished`] wait.

use crate::guard::{Guard, Visit};
use crate::shares::{Claim, Membership, Shares};
use crate::transfer::{Sink, Source, Transfer};
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::pin::pin;
use core::sync::atomic::{AtomicU64, Ordering};
use gyre_interface::{Position, Readiness, Ready};
use gyre_message::{WaitQueue, select};
use gyre_object::{ObjectLock, SpinLock};

/// The result of a read, a write or a flow; the error is its user's number for it.
pub type Result<T> = core::result::Result<T, i32>;

/// A source to be moved.
pub struct Request {
    /// The source of data.
    pub source: Arc<dyn Source>,
    /// The first byte of it.
    pub offset: Position,
    /// How many bytes at most; the end of the source ends it before.
    pub bytes: u64,
    /// If it goes in the sink.
    pub sink_offset: Position,
}

/// How a flow has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// The value that its maker passed.
    pub cookie: u64,
    /// The bytes that have arrived, or the first error that a source or the sink had.
    pub result: core::result::Result<u64, i32>,
}

#[derive(Default)]
struct State {
    requests: VecDeque<Request>,
    closed: bool,
    cancelled: bool,
    /// It ends at the next border between two writes, with this error.
    ending: Option<i32>,
    /// It has had a source.
    is_begun: bool,
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
    /// Its place in the tenant's overload controller until it ends, and the error of a flow that is ended early.
    visit: SpinLock<Option<Visit>>,
    early: i32,
}

impl Flow {
    /// Makes a flow to `sink` with a share among those of the same program; its completion brings `cookie` back. A
    /// task must run [`Flow::run`].
    pub fn new(sink: Arc<dyn Sink>, shares: &Arc<Shares>, claim: impl Into<Claim>, cookie: u64) -> Arc<Flow> {
        Arc::new(Flow::made(sink, shares, claim.into(), cookie))
    }

    /// Makes a flow under a guard, which may end it early; the bytes that have arrived are true then
    /// ([`Flow::moved_bytes`]), and its user goes on behind them with another flow.
    pub fn guarded(
        sink: Arc<dyn Sink>,
        shares: &Arc<Shares>,
        claim: impl Into<Claim>,
        cookie: u64,
        guard: &Arc<Guard>,
    ) -> Arc<Flow> {
        Arc::new_cyclic(|flow| Flow {
            visit: SpinLock::new(Some(guard.enter(flow))),
            early: guard.early(),
            ..Flow::made(sink, shares, claim.into(), cookie)
        })
    }

    fn made(sink: Arc<dyn Sink>, shares: &Arc<Shares>, claim: Claim, cookie: u64) -> Flow {
        Flow {
            sink,
            membership: Arc::new(shares.join(claim)),
            state: ObjectLock::default(),
            changed: WaitQueue::new(),
            moved_bytes: AtomicU64::new(0),
            cookie,
            ended: Readiness::new(Ready::empty()),
            visit: SpinLock::new(None),
            early: 0,
        }
    }

    /// Adds a source behind those that are there.
    ///
    /// # Errors
    /// The request itself, if the flow is closed or has failed.
    pub fn add(&self, request: Request) -> core::result::Result<(), Request> {
        let mut state = self.state.lock();
        if state.closed || state.finished.is_some() {
            return Err(request);
        }
        state.requests.push_back(request);
        let is_first = !core::mem::replace(&mut state.is_begun, true);
        drop(state);
        if is_first {
            self.visit.lock().iter().for_each(Visit::on_wait);
        }
        self.changed.wake_all();
        Ok(())
    }

    /// Takes no more sources: it ends when the present ones are moved.
    pub fn close(&self) {
        self.state.lock().closed = true;
        self.changed.wake_all();
    }

    /// Ends it now; data that has not arrived is not moved.
    pub fn cancel(&self) {
        let mut state = self.state.lock();
        (state.closed, state.cancelled) = (true, true);
        drop(state);
        self.changed.wake_all();
    }

    /// Ends it before its time, after the write that is under way.
    pub(crate) fn end_early(&self) {
        self.state.lock().ending = Some(self.early);
        self.changed.wake_all();
    }

    /// Returns the bytes that have arrived.
    pub fn moved_bytes(&self) -> u64 {
        self.moved_bytes.load(Ordering::Relaxed)
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// The first one of a source or the sink; earlier data has arrived.
    pub async fn finished(&self) -> Result<()> {
        self.changed.until(|| self.state.lock().finished).await
    }

    /// Returns its readiness: READ once it has ended, when its completion is there.
    pub fn readiness(&self) -> &Arc<Readiness> {
        &self.ended
    }

    /// Takes the completion: `None` while it runs, `Some(None)` once it has been taken.
    pub fn complete(&self) -> Option<Option<Completion>> {
        let mut state = self.state.lock();
        let finished = state.finished?;
        let result = finished.map(|()| self.moved_bytes());
        let is_told = core::mem::replace(&mut state.is_told, true);
        Some((!is_told).then_some(Completion { cookie: self.cookie, result }))
    }

    /// Returns the work of a flow: it moves data until the flow is closed and everything is moved, or something
    /// fails. Dropped earlier, perhaps because the resource refused it, it ends the flow with the error `abandoned`.
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
        self.state.lock().ending.map_or(Ok(()), Err)
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
        let visit = self.visit.lock().take();
        drop(visit);
        self.ended.set(Ready::READ);
        self.changed.wake_all();
    }

    /// Returns the next source; `Some(None)` if there is none any more.
    fn next(&self) -> Option<Option<Request>> {
        let mut state = self.state.lock();
        if state.cancelled || state.ending.is_some() {
            return Some(None);
        }
        match state.requests.pop_front() {
            Some(request) => Some(Some(request)),
            None => state.closed.then_some(None),
        }
    }

    fn note_moved(&self, bytes: u64) {
        let before = self.moved_bytes.fetch_add(bytes, Ordering::Relaxed);
        if before == 0 {
            self.visit.lock().iter().for_each(Visit::on_first_bytes);
        }
        self.look();
    }

    /// Its guard may look now; that may end this flow, so no lock is held.
    fn look(&self) {
        let guard = self.visit.lock().as_ref().map(Visit::guard);
        if let Some(guard) = guard {
            guard.look_when_due();
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
            self.note_moved(bytes);
        };
        let mut ending = pin!(self.changed.until(|| self.state.lock().ending.map(|_| ())));
        let cancelled = self.changed.until(|| self.state.lock().cancelled.then_some(()));
        let work = pin!(transfer.run_until(&mut moved, ending.as_mut()));
        match select(work, cancelled).await {
            gyre_message::wait::Either::First(result) => result,
            gyre_message::wait::Either::Second(()) => Ok(()),
        }
    }
}

/// The work of a flow.
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
impl Flow {
    /// It waits from now on, as if it had a source.
    pub(crate) fn visit_for_tests(&self) {
        self.visit.lock().iter().for_each(Visit::on_wait);
    }

    /// It was told to end early.
    pub(crate) fn is_ending(&self) -> bool {
        self.state.lock().ending.is_some()
    }
}

#[cfg(test)]
mod tests;
