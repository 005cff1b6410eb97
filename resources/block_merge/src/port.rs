//! The way in: a port that lets requests join before they are queued.

use crate::batch::{Answer, Batch};
use crate::waiting::{Arriving, Ticket, Waiting};
use gyre_account::current_activity;
use gyre_interface::block::block::Request;
use gyre_interface::block::{BlockError, Geometry};
use gyre_message::{Labels, Port, Reply};

/// What comes to the gate.
pub enum Work {
    /// The turn of a batch.
    Turn(Ticket),
    /// Asks for size and kind.
    Geometry(Reply<Result<Geometry, BlockError>>),
    /// Asks that what was written is made durable.
    Flush(Reply<Result<(), BlockError>>),
}

/// What stands behind the queue and may take a request that would not have to wait in it.
pub trait AtOnce: Send + Sync {
    /// Begins a request within its sender's turn; gives it back where it must wait in the queue.
    fn begin(&self, batch: Batch, labels: Labels) -> Option<Batch>;
}

/// The port of a disk whose gate takes [`Work`] from `queue`.
pub struct Merging {
    waiting: &'static Waiting,
    queue: &'static dyn Port<Work>,
    at_once: Option<&'static dyn AtOnce>,
}

impl Merging {
    /// A port before that queue.
    pub fn new(waiting: &'static Waiting, queue: &'static dyn Port<Work>) -> Merging {
        Merging { waiting, queue, at_once: None }
    }

    /// The same, whose requests are begun at once where nobody waits and it takes them.
    pub fn with(self, at_once: &'static dyn AtOnce) -> Merging {
        Merging { at_once: Some(at_once), ..self }
    }

    /// A request that goes by itself, if somebody takes it so; else it is given back.
    fn begin(&self, request: Arriving) -> Option<Arriving> {
        let Some(at_once) = self.at_once.filter(|_| request.labels.dependency == 0 && self.waiting.is_empty()) else {
            return Some(request);
        };
        let (activity, labels) = (request.activity, request.labels);
        let left = at_once.begin(request.alone(), labels)?;
        left.into_one().map(|part| Arriving::of(part, activity, labels))
    }
}

impl Port<Request> for Merging {
    // recursion: at most 3, because the assembler puts no more ports one before another
    fn send(&self, request: Request, labels: Labels) {
        let (first, views, answer) = match request {
            Request::read { first_sector, into, reply } => (first_sector, into, Answer::Read(reply)),
            Request::write { first_sector, from, reply } => (first_sector, from, Answer::Write(reply)),
            Request::geometry { reply } => return self.queue.send(Work::Geometry(reply), labels),
            Request::flush { reply } => return self.queue.send(Work::Flush(reply), labels),
        };
        let request = Arriving { activity: current_activity(), labels, first, views, answer };
        if let Some(ticket) = self.begin(request).and_then(|request| self.waiting.add(request)) {
            self.queue.send(Work::Turn(ticket), labels);
        }
    }
}
