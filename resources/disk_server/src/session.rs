//! A session: one life of one zone, served by a task in the zone's activity.
//!
//! ```text
//!   serve: line --> slot is busy --> spawn: block::Client --> slot is not busy, answer --> ring
//! ```
//! A request is a task of its own, so that the disk gets all that the zone asks for, in the order of the disk's gate. The lock is held for a
//! line, never across a wait.
//!
//! Left out: how a line is checked (`ledger.rs`, [`gyre_split_disk::Ask`]).

use crate::ledger::{Ledger, Nonsense, Service};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_device::Operation;
use gyre_interface::block::{BlockError, Geometry, block};
use gyre_machine::PAGE_BYTES;
use gyre_message::{WaitQueue, spawn, yield_now};
use gyre_object::{Bytes, Page, SpinLock};
use gyre_split_disk::{Answer, Ask, Control, SLOTS, Window, slot_pages};

/// Requests that are begun before others of the core have their turn.
const BATCH: usize = 16;

/// A disk that is served.
#[derive(Clone, Copy)]
pub struct Served {
    /// The way to it.
    pub client: block::Client,
    /// Its size and kind.
    pub geometry: Geometry,
}

/// The disks of one zone, as long as it lives.
pub struct Session {
    /// The zone's name, for the log.
    zone: String,
    window: Box<dyn Window>,
    /// Pages of the slots, in order.
    pages: Vec<Page>,
    disks: Vec<Served>,
    ledger: SpinLock<Ledger>,
    rung: WaitQueue,
    answered: WaitQueue,
}

impl Session {
    /// Makes the memory ready for the zone. Nobody uses it yet. `None` if it is too small, or there are too many disks.
    #[must_use]
    pub fn new(zone: String, window: Box<dyn Window>, disks: Vec<Served>) -> Option<Arc<Session>> {
        let pages: Vec<Page> = (0..SLOTS).flat_map(slot_pages).map_while(|page| window.page(page)).collect();
        let geometries: Vec<Geometry> = disks.iter().map(|disk| disk.geometry).collect();
        let is_whole = pages.len() == slot_pages(0).len().saturating_mul(SLOTS);
        let is_ready = Control::of(window.control()).is_some_and(|control| is_whole && control.prepare(&geometries));
        is_ready.then(|| {
            Arc::new(Session {
                zone,
                window,
                pages,
                disks,
                ledger: SpinLock::default(),
                rung: WaitQueue::new(),
                answered: WaitQueue::new(),
            })
        })
    }

    /// The zone has rung, or another one has: it looks. For the handling of the interrupt's notice.
    pub fn ring(&self) {
        self.rung.wake_all();
    }

    /// Serves until the end. Called once, as a task of the zone's activity.
    pub async fn serve(self: Arc<Self>) {
        loop {
            let rung = self.rung.wait();
            if self.service() == Service::Ended {
                return;
            }
            match self.begin_some() {
                0 if self.may_sleep() => rung.await,
                _ => yield_now().await,
            }
        }
    }

    /// Ends the session: nothing begins any more. Returns when nothing is under way, so that the memory may be used again.
    pub async fn end(&self) {
        self.ledger.lock().service = Service::Ended;
        self.rung.wake_all();
        self.answered.until(|| (self.ledger.lock().under_way() == 0).then_some(())).await;
    }

    /// Returns why it was closed, if it was.
    #[must_use]
    pub fn nonsense(&self) -> Option<Nonsense> {
        match self.service() {
            Service::Closed(nonsense) => Some(nonsense),
            _ => None,
        }
    }

    fn service(&self) -> Service {
        self.ledger.lock().service
    }

    fn control(&self) -> Option<Control<'_>> {
        Control::of(self.window.control())
    }

    /// Begins requests, and returns how many lines it took.
    fn begin_some(self: &Arc<Self>) -> usize {
        for taken in 0..BATCH {
            match self.next() {
                Some(Ok(ask)) => {
                    let session = self.clone();
                    spawn(async move {
                        let result = session.carry_out(ask).await;
                        session.answer(Answer { slot: ask.slot, result });
                    });
                }
                Some(Err(nonsense)) => self.close(nonsense),
                None => return taken,
            }
        }
        BATCH
    }

    /// Takes the next line; `None` if there is none, or the session is not open.
    fn next(&self) -> Option<Result<Ask, Nonsense>> {
        let ledger = &mut *self.ledger.lock();
        let mut receiver = self.control().filter(|_| ledger.service == Service::Open)?.ask_receiver(ledger.received)?;
        let line = receiver.receive()?;
        ledger.received = receiver.position();
        Some(ledger.begin(&line, self.disks.len()))
    }

    fn may_sleep(&self) -> bool {
        let Some(control) = self.control() else { return true };
        let ledger = self.ledger.lock();
        if ledger.service != Service::Open {
            return true;
        }
        control.back_bell.leave();
        !control.ask_receiver(ledger.received).is_some_and(|receiver| receiver.has_some())
    }

    async fn carry_out(&self, ask: Ask) -> Result<(), BlockError> {
        let disk = self.disks.get(ask.disk).ok_or(BlockError::OutOfRange)?;
        let memory = self.memory(ask);
        if ask.operation != Operation::Flush {
            disk.geometry.check(ask.first_sector, &memory)?;
        }
        match ask.operation {
            Operation::Read => disk.client.read(ask.first_sector, memory).await.map(drop),
            Operation::Write if disk.geometry.read_only => Err(BlockError::Unsupported),
            Operation::Write => disk.client.write(ask.first_sector, memory).await,
            Operation::Flush => disk.client.flush().await,
        }
    }

    /// Returns the memory of a request: the first bytes of its slot.
    fn memory(&self, ask: Ask) -> Vec<Bytes> {
        let count = slot_pages(0).len();
        let pages = self.pages.iter().skip(ask.slot.saturating_mul(count)).take(count);
        let bytes_of = |place: usize| ask.bytes.saturating_sub(place.saturating_mul(PAGE_BYTES)).min(PAGE_BYTES);
        let views = pages.enumerate().map(|(place, page)| (page, bytes_of(place))).take_while(|(_, bytes)| *bytes > 0);
        views.map(|(page, bytes)| Bytes::new(page.clone(), 0, bytes)).collect()
    }

    fn answer(&self, answer: Answer) {
        let sent = {
            let ledger = &mut *self.ledger.lock();
            ledger.end(answer.slot);
            let sender = self.control().and_then(|control| control.answer_sender(ledger.sent));
            let position =
                sender.and_then(|mut sender| sender.send(&answer.message()).ok().map(|()| sender.position()));
            ledger.sent = position.unwrap_or(ledger.sent);
            position.is_some()
        };
        if !sent {
            // There are more lines than slots.
            self.close(Nonsense::Unread);
        }
        self.ring_zone();
        self.answered.wake_all();
    }

    fn ring_zone(&self) {
        if self.service() != Service::Ended && self.control().is_some_and(|control| control.front_bell.must_ring()) {
            self.window.interrupt_peer();
        }
    }

    /// Serves no more, and tells the zone.
    fn close(&self, nonsense: Nonsense) {
        {
            let ledger = &mut *self.ledger.lock();
            if ledger.service != Service::Open {
                return;
            }
            ledger.service = Service::Closed(nonsense);
        }
        log::warn!("the disks of zone {} are closed to it: {nonsense}", self.zone);
        if let Some(control) = self.control() {
            control.close();
        }
        self.window.interrupt_peer();
    }
}
