//! The service of a disk's queue.
//!
//! While requests come it looks by itself; after some time without one it sleeps, and the cell rings ([`Watch`]). It runs in the name of the cell's
//! process: cycles, bytes and the device's time are on that one's bill.

use crate::queue::{Lie, Queue};
use crate::request::Done;
use crate::watch::{News, Watch, pause};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::{Context, Poll};
use gyre_cell_memory::{Bell, CellMemory};
use gyre_interface::block::{Geometry, block};
use gyre_message::{WaitQueue, select};

/// The cell that a queue belongs to.
pub trait Cell {
    /// Returns true once the cell is over or to end.
    fn is_over(&self) -> bool;

    /// Returns true once the cell gives the device back.
    fn gives_back(&self) -> bool;

    /// Woken when the cell rings, and with each change of these two.
    fn news(&self) -> &WaitQueue;

    /// A request has been answered.
    fn answered(&self, done: Done);

    /// A frame was lost: nothing was offered for it, or it is none that the cell may send.
    fn lost(&self);

    /// Tells the cell of answers, should it idle.
    fn tell(&self);
}

/// The end of a service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The cell is over. Requests under way end by themselves; they hold the lots that they use.
    Over,
    /// The cell gives the device back, and no request is under way.
    GivenBack,
    /// The cell lies.
    Lied(Lie),
}

/// A request under way.
pub(crate) type Performed = Pin<Box<dyn Future<Output = Done> + Send>>;

/// A disk and its size.
#[derive(Clone, Copy)]
pub struct Disk {
    /// The disk.
    pub client: block::Client,
    /// Its size.
    pub geometry: Geometry,
}

struct Service<'a> {
    disk: Disk,
    memory: &'a CellMemory,
    queue: Queue,
    under_way: Vec<Performed>,
    watch: Watch,
}

/// Serves a queue to its end.
pub async fn attend(disk: Disk, memory: &CellMemory, queue: Queue, cell: &impl Cell) -> End {
    let watch = Watch::begin(&queue);
    let mut service = Service { disk, memory, queue, under_way: Vec::new(), watch };
    // Ends with the cell, or as it wishes: each turn waits for one of three.
    loop {
        let change = cell.news().wait();
        if cell.is_over() {
            return End::Over;
        }
        let gives_back = cell.gives_back();
        if gives_back && service.under_way.is_empty() {
            return End::GivenBack;
        }
        let bell = match if gives_back { Ok(Bell::Wanted) } else { service.look() } {
            Ok(bell) => bell,
            Err(lie) => return End::Lied(lie),
        };
        let ended = select(select(change, pause(bell)), some_end(&mut service.under_way)).await;
        if let gyre_message::wait::Either::Second(answers) = ended {
            for done in answers {
                service.queue.answer(done.head, done.filled_bytes);
                cell.answered(done);
            }
            cell.tell();
        }
    }
}

impl Service<'_> {
    /// Begins all requests that are there; says who looks next.
    fn look(&mut self) -> Result<Bell, Lie> {
        let Service { disk, memory, queue, under_way, watch } = self;
        watch.look(queue, |queue| {
            let before = under_way.len();
            // The ring is no longer than its entries.
            while let Some(request) = queue.take(memory)? {
                under_way.push(Box::pin(request.perform(disk.client, disk.geometry)));
            }
            Ok(if under_way.len() > before { News::Some } else { News::None })
        })
    }
}

/// Completes when some requests have ended.
pub(crate) fn some_end(under_way: &mut Vec<Performed>) -> impl Future<Output = Vec<Done>> + '_ {
    poll_fn(move |context: &mut Context<'_>| {
        let mut answers = Vec::new();
        under_way.retain_mut(|future| match future.as_mut().poll(context) {
            Poll::Ready(answer) => {
                answers.push(answer);
                false
            }
            Poll::Pending => true,
        });
        if answers.is_empty() { Poll::Pending } else { Poll::Ready(answers) }
    })
}
