//! Operations that are linked: done one after the other, as one piece of work of the asynchronous I/O resource.

use super::operation::Operation;
use super::ring::{Cancel, Ring};
use super::submission::{HARD_LINK, SKIP_SUCCESS, Submission, code};
use super::under_way::Place;
use crate::{Errno, Outcome, Thread};
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::pin::pin;
use gyre_interface::async_io::async_io;
use gyre_message::wait::Either;
use gyre_message::{boxed, select, sleep_until};

/// One operation of a chain.
pub struct Step {
    /// The ring's number of it.
    pub number: u64,
    pub wish: Submission,
    /// `None` once it was begun.
    pub operation: Option<Operation>,
    pub cancel: Arc<Cancel>,
    /// Its program waits for its end if another one follows.
    pub _place: Place,
}

/// Operations that are done one after the other. An operation that is left when it is dropped was not done, and is
/// answered so.
pub struct Chain {
    ring: Arc<Ring>,
    worker: Arc<Thread>,
    steps: VecDeque<Step>,
    /// The answer of operations that never began.
    left: Errno,
}

impl Drop for Chain {
    fn drop(&mut self) {
        for step in self.steps.drain(..) {
            self.ring.complete(step.number, self.left.negated() as i32, true, step.wish.code != code::TIMEOUT);
        }
    }
}

impl Chain {
    /// Makes an empty one, whose operations a worker of the process does.
    pub fn new(ring: &Arc<Ring>, worker: Arc<Thread>) -> Chain {
        Chain { ring: ring.clone(), worker, steps: VecDeque::new(), left: Errno::EAGAIN }
    }

    /// Returns an empty one of the same ring.
    pub fn next(&self) -> Chain {
        Chain { ring: self.ring.clone(), worker: self.worker.clone(), steps: VecDeque::new(), left: self.left }
    }

    /// Returns whether it has no operation yet.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Adds an operation that follows the others.
    pub fn push(&mut self, step: Step) {
        self.steps.push_back(step);
    }

    /// Launches it; an operation that needs no request is done at once.
    pub async fn launch(self, resource: async_io::Client) {
        let is_immediate = self.steps.len() == 1
            && !self.ring.is_held_back()
            && self.steps.front().and_then(|step| step.operation.as_ref()).is_some_and(Operation::is_immediate);
        match is_immediate {
            true => drop(boxed(|| self.run()).await),
            // Refused, it is dropped, and its operations are answered with EAGAIN.
            false => drop(resource.run(boxed(|| self.run()))),
        }
    }

    /// Does one after the other, and answers how many bytes they moved.
    async fn run(mut self) -> u64 {
        let mut moved_bytes = 0;
        self.left = Errno::ECANCELED;
        while let Some(step) = self.steps.front_mut() {
            let (number, wish, cancel) = (step.number, step.wish, step.cancel.clone());
            let Some(operation) = step.operation.take() else { break };
            let wanted = operation.bytes();
            let limit = match self.steps.get(1).map(|next| (next.wish.code, &next.operation)) {
                Some((code::LINK_TIMEOUT, Some(Operation::Timeout { deadline_cycles, .. }))) if wish.is_linked() => {
                    Some(*deadline_cycles)
                }
                _ => None,
            };
            let (outcome, is_late) = self.perform(number, operation, &cancel, limit).await;
            let result = result_of(outcome);
            moved_bytes = u64::saturating_add(moved_bytes, wanted.map_or(0, |_| u64::try_from(result).unwrap_or(0)));
            let is_short = wanted.is_some_and(|wanted| i64::from(result) != wanted as i64);
            let has_failed = result < 0 || is_short;
            let is_told = has_failed || wish.flags & SKIP_SUCCESS == 0;
            self.steps.pop_front();
            self.ring.complete(number, result, is_told, wish.code != code::TIMEOUT);
            if limit.is_some()
                && let Some(limit) = self.steps.pop_front()
            {
                let result = if is_late { Errno::ETIME } else { Errno::ECANCELED };
                self.ring.complete(limit.number, result.negated() as i32, true, true);
            }
            if has_failed && wish.flags & HARD_LINK == 0 {
                break;
            }
        }
        moved_bytes
    }

    /// Does one operation, unless it is cancelled or its time is over first.
    async fn perform(&self, number: u64, operation: Operation, cancel: &Cancel, limit: Option<u64>) -> (Outcome, bool) {
        if cancel.is_asked() {
            return (Err(Errno::ECANCELED), false);
        }
        // Pinned in place, once: if it were moved, the task would have room for it twice.
        let work = pin!(async {
            self.ring.turn_of(number).await;
            operation.perform(&self.worker, &self.ring).await
        });
        let work = pin!(select(work, cancel.asked()));
        let ended = match limit {
            None => work.await,
            Some(deadline) => match select(work, sleep_until(deadline)).await {
                Either::First(ended) => ended,
                Either::Second(()) => return (Err(Errno::ECANCELED), true),
            },
        };
        match ended {
            Either::First(outcome) => (outcome, false),
            Either::Second(()) => (Err(Errno::ECANCELED), false),
        }
    }
}

fn result_of(outcome: Outcome) -> i32 {
    match outcome {
        Ok(value) => i32::try_from(value).unwrap_or(i32::MAX),
        Err(error) if error.asks_restart() => Errno::EINTR.negated() as i32,
        Err(error) => error.negated() as i32,
    }
}
