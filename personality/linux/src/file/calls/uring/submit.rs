//! From submissions to operations that are done at once, and to chains of the others.

use super::at_once;
use super::chain::{Chain, Step};
use super::memory::at;
use super::operation::Operation;
use super::ring::{Cancel, Flight, Ring};
use super::ring_transfer::RingTransfer;
use super::submission::{ASYNC, DRAIN, SKIP_SUCCESS, Submission};
use super::under_way::Place;
use crate::file::begun_io::Asker;
use crate::{Errno, Thread};
use alloc::sync::Arc;
use core::cell::OnceCell;
use gyre_interface::async_io::async_io;

/// Submits up to `count` operations; answers how many were taken.
///
/// # Errors
/// EBUSY if completions wait for room, or too much is under way already; ENOSYS.
pub async fn submit(thread: &Arc<Thread>, ring: &Arc<Ring>, count: u32) -> Result<u32, Errno> {
    let resource = thread.tenant().kernel().async_io().ok_or(Errno::ENOSYS)?;
    if ring.is_overflown() {
        return Err(Errno::EBUSY);
    }
    let tail = ring.memory.load(at::SUBMIT_TAIL);
    let mut batch = Batch { thread, ring, resource, chain: None, worker: OnceCell::new() };
    let mut taken = 0;
    while taken < count {
        if !ring.has_room() {
            if taken == 0 {
                return Err(Errno::EBUSY);
            }
            break;
        }
        let Some(Some(raw)) = ring.take_submission(tail) else { break };
        taken = u32::saturating_add(taken, 1);
        let wish = Submission::parse(&raw);
        let operation = Operation::prepare(thread, ring, &wish).await;
        if !batch.is_done_at_once(&wish, &operation) && !batch.begin(wish, operation).await {
            break;
        }
    }
    batch.end().await;
    Ok(taken)
}

/// The submissions of one call.
struct Batch<'a> {
    thread: &'a Thread,
    ring: &'a Arc<Ring>,
    resource: async_io::Client,
    /// The chain that the next operation belongs to, if there was one before.
    chain: Option<Chain>,
    worker: OnceCell<Arc<Thread>>,
}

impl Batch<'_> {
    /// Begins a transfer that only the disk keeps waiting.
    fn is_begun(&self, wish: &Submission, operation: &Operation) -> bool {
        let worker = || self.worker().clone();
        let asker = Asker { thread: self.thread, resource: self.resource, worker: &worker };
        let transfer = || RingTransfer::new(self.ring, wish, operation.file(), operation.bytes().unwrap_or(0));
        at_once::begin(&asker, operation, transfer)
    }

    /// Returns the thread that does later work: like Linux's workers of the process, but no signal finds it.
    fn worker(&self) -> &Arc<Thread> {
        self.worker.get_or_init(|| Thread::worker(self.thread))
    }

    /// Does an operation that stands alone, if it need not wait, or if only a device is to be waited for.
    fn is_done_at_once(&self, wish: &Submission, operation: &Operation) -> bool {
        let is_linked = wish.is_linked() || self.chain.as_ref().is_some_and(|chain| !chain.is_empty());
        if is_linked || wish.flags & (ASYNC | DRAIN) != 0 || self.ring.is_held_back() {
            return false;
        }
        let Some(moved) = at_once::transfer(self.thread, operation) else {
            return self.is_begun(wish, operation);
        };
        let is_short = operation.bytes() != Some(moved as u64);
        self.ring.complete_at_once(wish.user_data, moved as i32, is_short || wish.flags & SKIP_SUCCESS == 0);
        true
    }

    /// Adds an operation to its chain, which is launched with its last one; false once the ring is closed.
    async fn begin(&mut self, wish: Submission, operation: Operation) -> bool {
        let cancel = Arc::new(Cancel::default());
        let flight =
            Flight { user_data: wish.user_data, code: wish.code, file: operation.file(), cancel: Some(cancel.clone()) };
        let Some(number) = self.ring.begin(flight, wish.flags & DRAIN != 0) else { return false };
        let worker = self.worker().clone();
        let place = Place::take(&worker, &cancel);
        let chain = self.chain.get_or_insert_with(|| Chain::new(self.ring, worker));
        chain.push(Step { number, wish, operation: Some(operation), cancel, _place: place });
        if !wish.is_linked() {
            let next = chain.next();
            core::mem::replace(chain, next).launch(self.resource).await;
        }
        true
    }

    /// Launches the rest: a chain whose end was not submitted.
    async fn end(self) {
        if let Some(chain) = self.chain.filter(|chain| !chain.is_empty()) {
            chain.launch(self.resource).await;
        }
    }
}
