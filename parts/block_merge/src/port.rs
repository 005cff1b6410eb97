//! The way in: a port that lets requests join before they are queued.

use crate::batch::{Answer, Batch};
use crate::waiting::{Arriving, Ticket, Waiting};
use gyre_account::current_activity;
use gyre_interface::block::block::Request;
use gyre_interface::block::{BlockError, Geometry};
use gyre_message::{Labels, Port, Reply};

/// The work that comes to the gate.
pub enum Work {
    /// A batch whose turn it is.
    Turn(Ticket),
    /// Asks for size and kind.
    Geometry(Reply<Result<Geometry, BlockError>>),
    /// A request to make written data durable.
    Flush(Reply<Result<(), BlockError>>),
}

/// The server behind the queue, which may take a request that need not wait in it.
pub trait AtOnce: Send + Sync {
    /// Begins a request within its sender's turn; gives it back if it must wait in the queue.
    fn begin(&self, batch: Batch, labels: Labels) -> Option<Batch>;
}

/// The port of a disk whose gate takes [`Work`] from `queue`.
pub struct Merging {
    waiting: &'static Waiting,
    queue: &'static dyn Port<Work>,
    at_once: Option<&'static dyn AtOnce>,
}

impl Merging {
    /// Makes a port before that queue.
    pub fn new(waiting: &'static Waiting, queue: &'static dyn Port<Work>) -> Merging {
        Merging { waiting, queue, at_once: None }
    }

    /// Makes a port whose requests are begun at once if none waits and `at_once` takes them.
    pub fn with(self, at_once: &'static dyn AtOnce) -> Merging {
        Merging { at_once: Some(at_once), ..self }
    }

    /// Offers a request to the server behind the queue; returns it if it was not taken.
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
