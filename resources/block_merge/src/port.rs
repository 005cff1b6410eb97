//! The way in: a port that lets requests join before they are queued.

use crate::batch::Answer;
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

/// The port of a disk whose gate takes [`Work`] from `queue`.
pub struct Merging {
    waiting: &'static Waiting,
    queue: &'static dyn Port<Work>,
}

impl Merging {
    /// A port before that queue.
    pub fn new(waiting: &'static Waiting, queue: &'static dyn Port<Work>) -> Merging {
        Merging { waiting, queue }
    }
}

impl Port<Request> for Merging {
    fn send(&self, request: Request, labels: Labels) {
        let (first, views, answer) = match request {
            Request::read { first_sector, into, reply } => (first_sector, into, Answer::Read(reply)),
            Request::write { first_sector, from, reply } => (first_sector, from, Answer::Write(reply)),
            Request::geometry { reply } => return self.queue.send(Work::Geometry(reply), labels),
            Request::flush { reply } => return self.queue.send(Work::Flush(reply), labels),
        };
        let request = Arriving { activity: current_activity(), labels, first, views, answer };
        if let Some(ticket) = self.waiting.add(request) {
            self.queue.send(Work::Turn(ticket), labels);
        }
    }
}
