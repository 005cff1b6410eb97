//! The keeper of a plain cell: the one task that moves its parts, and outlives whatever happens to its process.
//!
//! 1. It waits until the thread has made the memory ready or given it up, then keeps the cores for the process.
//! 2. It answers questions until the cell is to end.
//! 3. It ends the process if the owner's time is over, gives the cores back to all, takes every lot away from whatever shows it, clears it, and
//!    gives it to the pool.
//!
//! Nothing else moves parts, and no death drops this task: so no step of it is half done. Lots that the process never saw are clear still.

use super::enter::{bit_of, cores_of};
use super::{Ask, Plain};
use crate::seats::Seats;
use crate::seats::history::Event;
use crate::seats::keep::{by_whom, clear, errno, note_another, note_end, note_entry};
use crate::seats::seat::{Ending, Phase, Seat};
use crate::seats::station::{Place, Station};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use gyre_cell_abi::{LOT_BYTES, LOTS_MAX};
use gyre_contract::seats::{By, Deed};
use gyre_engine::Engine;
use gyre_linux::signal::number::SIGKILL;
use gyre_linux::{Errno, Outcome};
use gyre_object::Page;

/// Keeps the seat of a plain cell from its beginning to its end.
pub async fn keep(engine: &'static Engine, seats: &'static Seats, seat: Arc<Seat>) {
    let keeper = Keeper { engine, seats, seat };
    if keeper.begins().await && keeper.have_cores().await {
        keeper.seat.set_phase(Phase::Inside);
        note_entry(seats, &keeper.seat);
        keeper.answer().await;
    }
    keeper.end().await;
}

struct Keeper {
    engine: &'static Engine,
    seats: &'static Seats,
    seat: Arc<Seat>,
}

impl Keeper {
    async fn begins(&self) -> bool {
        let begins = || match self.seat.phase() {
            _ if self.seat.is_ended() => Some(false),
            Phase::Ready => Some(true),
            _ => None,
        };
        self.seat.changed.until(begins).await
    }

    /// Keeps the cores for the process; false if they cannot be had.
    async fn have_cores(&self) -> bool {
        if let Err(error) = self.engine.keep_cores(cores_of(&self.seat), self.seat.activity).await {
            log::info!("no cores for plain cell {}: {error:?}", self.seat.number);
            self.seat.finish(Ending::Refused(errno(&error)));
            return false;
        }
        self.seat.stations.iter().for_each(|station| station.set_place(Place::Here));
        self.seat.entered.store(gyre_x86_64::now(), Ordering::Relaxed);
        true
    }

    /// Answers questions until the cell ends.
    async fn answer(&self) {
        let Some(plain) = self.seat.plain() else { return };
        loop {
            let news = || (self.seat.is_ended() || plain.has_questions()).then_some(());
            self.seat.changed.until(news).await;
            if self.seat.is_ended() {
                return;
            }
            let Some((question, reply)) = plain.next_question() else { continue };
            let outcome = match question {
                Ask::More(bytes) => self.more(&plain, bytes),
                Ask::Give(place) => self.give(&plain, place).await,
                Ask::GiveCore(number) => self.give_core(number),
                Ask::GetCore(number) => self.get_core(&plain, number).await,
                Ask::Leave => {
                    self.seat.finish(Ending::Left(0));
                    Ok(0)
                }
            };
            reply.send(Ok(outcome));
        }
    }

    fn more(&self, plain: &Plain, bytes: u64) -> Outcome {
        let count = bytes.checked_div(LOT_BYTES).filter(|_| bytes != 0 && bytes.is_multiple_of(LOT_BYTES));
        let count = count.and_then(|count| u32::try_from(count).ok()).ok_or(Errno::EINVAL)?;
        let (began, seat) = (gyre_x86_64::now(), &self.seat);
        if seat.is_asked.load(Ordering::SeqCst) || plain.memory.lot_count().saturating_add(count as usize) > LOTS_MAX {
            return Err(Errno::ENOMEM);
        }
        let lots = self.seats.pool.take_more(seat.number, count, seat.payer);
        let words = lots.as_ref().map_or_else(|error| format!("refused: {error:?}"), |_| String::new());
        self.note(Deed::More, Parts { memory_bytes: bytes, ..Parts::default() }, (began, words));
        for lot in lots? {
            if let Err(lot) = plain.memory.add(lot) {
                // The process has unmapped all: the cell is about to end, and this lot goes back with the others.
                seat.lots.lock().push(lot);
            }
        }
        Ok(0)
    }

    async fn give(&self, plain: &Plain, place: u64) -> Outcome {
        let began = gyre_x86_64::now();
        if plain.memory.lots() == [place] {
            // As long as it lives it has one.
            return Err(Errno::EINVAL);
        }
        let lot = plain.memory.take(place).await.ok_or(Errno::EINVAL)?;
        self.return_lot(lot).await;
        self.note(Deed::Give, Parts { memory_bytes: LOT_BYTES, ..Parts::default() }, (began, String::new()));
        self.seat.changed.wake_all();
        Ok(0)
    }

    async fn return_lot(&self, lot: Page) {
        clear(&lot, 1).await;
        self.seats.pool.give(self.seat.number, alloc::vec![lot], self.seat.payer);
    }

    fn station(&self, number: u64) -> Option<&Station> {
        usize::try_from(number).ok().and_then(|number| self.seat.stations.get(number))
    }

    fn give_core(&self, number: u64) -> Outcome {
        let began = gyre_x86_64::now();
        let station = self.station(number);
        let station = station.filter(|station| station.place() == Place::Here).ok_or(Errno::EINVAL)?;
        if station.index == 0 {
            return Err(Errno::EBUSY);
        }
        self.open(station);
        self.seats.pool.give_core(self.seat.number, station.slot());
        let cores = u32::try_from(station.slot()).into_iter().collect();
        self.note(Deed::Give, Parts { cores, memory_bytes: 0 }, (began, String::new()));
        self.seat.changed.wake_all();
        Ok(0)
    }

    /// Keeps a core of the pool in a place that has none; threads that are bound to the cell's cores may run there.
    async fn get_core(&self, plain: &Plain, number: u64) -> Outcome {
        let (began, seat) = (gyre_x86_64::now(), &self.seat);
        let station = self.station(number).ok_or(Errno::EINVAL)?;
        station.want()?;
        let outcome = self.another(station).await;
        note_another(self.seats, seat, began, outcome);
        match outcome {
            Ok(_) => bind(plain, cores_of(seat)),
            Err(error) => station.refuse(error),
        }
        seat.changed.wake_all();
        outcome.map(|_| 0)
    }

    async fn another(&self, station: &Station) -> Result<usize, Errno> {
        let (seat, pool) = (&self.seat, &self.seats.pool);
        let slot = pool.take_core(seat.number)?;
        station.begin_again(slot);
        // After it counts as the cell's: an order to give back sees it, or is seen here.
        let kept = match seat.is_asked.load(Ordering::SeqCst) {
            true => Err(Errno::EAGAIN),
            false => self.engine.keep_cores(bit_of(slot), seat.activity).await.map_err(|error| errno(&error)),
        };
        match kept {
            Ok(()) => station.set_place(Place::Here),
            Err(_) => pool.give_core(seat.number, slot),
        }
        kept.map(|()| slot)
    }

    /// Gives a core back to all.
    fn open(&self, station: &Station) {
        self.engine.give_cores(bit_of(station.slot()));
        station.set_place(Place::Gone);
    }

    fn note(&self, deed: Deed, Parts { cores, memory_bytes }: Parts, (began, result): (u64, String)) {
        let by = by_whom(&self.seat);
        self.seats.history.note(&self.seat, Event { deed, cores, memory_bytes, by, began, result });
    }

    /// Takes everything back.
    async fn end(&self) {
        let (seat, ending) = (&self.seat, self.seat.ending());
        seat.set_phase(Phase::Out(ending));
        note_end(self.seats, seat, ending);
        let began = gyre_x86_64::now();
        let plain = seat.plain();
        if let Some(plain) = &plain {
            plain.close();
            self.let_go(plain, ending);
        }
        let held = || seat.stations.iter().filter(|station| station.place() == Place::Here);
        let cores: Vec<u32> = held().filter_map(|station| u32::try_from(station.slot()).ok()).collect();
        held().for_each(|station| self.open(station));
        let lots = self.return_lots(plain.as_deref()).await;
        self.seats.pool.end(seat.number);
        let memory_bytes = (lots as u64).saturating_mul(LOT_BYTES);
        let event = Event { deed: Deed::Return, cores, memory_bytes, by: By::Kernel, began, result: String::new() };
        self.seats.history.note(seat, event);
        self.seats.remove(seat);
        seat.set_phase(Phase::Over(ending));
    }

    /// Ends the process if the owner's time is over; one that goes on has no thread that is bound to the cores.
    fn let_go(&self, plain: &Plain, ending: Ending) {
        if ending == Ending::Overdue
            && let Some(process) = plain.process.upgrade()
        {
            process.end(SIGKILL);
        }
        bind(plain, plain.bound_before);
    }

    /// Gives all lots to the pool; answers how many.
    async fn return_lots(&self, plain: Option<&Plain>) -> usize {
        // Those that never came to the process are as clear as they were.
        let unused = core::mem::take(&mut *self.seat.lots.lock());
        let mut count = unused.len();
        self.seats.pool.give(self.seat.number, unused, self.seat.payer);
        let Some(plain) = plain else { return count };
        for place in plain.memory.lots() {
            if let Some(lot) = plain.memory.take(place).await {
                self.return_lot(lot).await;
                count = count.saturating_add(1);
            }
        }
        count
    }
}

/// Binds the threads that are bound to the cell's cores to other ones.
fn bind(plain: &Plain, cores: u64) {
    let Some(process) = plain.process.upgrade() else { return };
    let before = plain.bound.swap(cores, Ordering::Relaxed);
    let threads = process.threads.lock().clone();
    let bound = threads.iter().filter(|thread| thread.cores.load(Ordering::Relaxed) == before);
    bound.for_each(|thread| thread.bind(cores));
}

/// Parts that moved.
#[derive(Default)]
struct Parts {
    cores: Vec<u32>,
    memory_bytes: u64,
}
