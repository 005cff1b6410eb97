//! The keeper of a cell: the task that outlives whatever happens to its process.
//!
//! 1. It waits until the thread has made the cell ready or given it up.
//! 2. It takes the cores out of the grid, and waits until they are out of the cell and back. A core that the cell gives back goes alone before, and
//!    another one comes into its place if the cell wants that.
//! 3. It clears the lots that were written to, gives all to the pool, and says that the seat is over.
//!
//! Lots to which neither the cell (dirty marks of the nested table) nor the kernel in its name (frames that it looked for by an address) can have
//! written are as clear as when they came.

use super::Seats;
use super::history::Event;
use super::seat::{Ending, Phase, Reach, Seat};
use super::station::{Place, Station};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use gyre_contract::seats::{By, Deed};
use gyre_engine::{Engine, WithdrawError, Withdrawal};
use gyre_linux::Errno;
use gyre_machine::{MemoryRegion, PAGE_BYTES};
use gyre_message::{sleep_ns, yield_now};
use gyre_object::Page;

/// The time that handlers on a core have before it counts as busy, ms.
const PATIENCE_MS: u64 = 1_000;
/// The pause between two looks whether a core is back, ns, and the most looks.
const LOOK_NS: u64 = 20_000;
const LOOKS_MAX: usize = 50_000;
/// Pages that are cleared in one turn.
const SLICE_PAGES: usize = 64;

/// Keeps a seat from its beginning to its end.
pub async fn keep(engine: &'static Engine, seats: &'static Seats, seat: Arc<Seat>) {
    let begins = || match seat.phase() {
        _ if seat.is_ended() => Some(false),
        Phase::Ready => Some(true),
        _ => None,
    };
    let cores = if seat.changed.until(begins).await { have_cores_sit(engine, seats, &seat).await } else { Vec::new() };
    let ending = seat.ending();
    seat.set_phase(Phase::Out(ending));
    note_end(seats, &seat, ending);
    let began = gyre_x86_64::now();
    let lots = give_back(seats, &seat).await;
    seats.devices.free_all(seat.number);
    let memory_bytes = (lots as u64).saturating_mul(gyre_cell_abi::LOT_BYTES);
    let event = Event { deed: Deed::Return, cores, memory_bytes, by: By::Kernel, began, result: String::new() };
    seats.history.note(&seat, event);
    seats.remove(&seat);
    seat.set_phase(Phase::Over(ending));
}

/// Takes the cores out of the grid, brings others that the cell wants later, and waits until all are back; answers those that the end brought back.
async fn have_cores_sit(engine: &'static Engine, seats: &'static Seats, seat: &Arc<Seat>) -> Vec<u32> {
    for station in &seat.stations {
        let brought = if seat.is_ended() { Err(Errno::EINTR) } else { bring(engine, seats, seat, station).await };
        if let Err(error) = brought {
            seat.finish(Ending::Refused(error));
            station.set_place(Place::Gone);
        }
    }
    let (mut entry, mut returned) = (Entry::Awaited, Vec::new());
    while seat.stations.iter().any(|station| station.place() != Place::Gone) {
        if seat.changed.until(|| news(seat, entry)).await == News::Entered {
            entry = Entry::Noted;
            note_entry(seats, seat);
        }
        for station in &seat.stations {
            match station.place() {
                Place::Left => returned.extend(take_back(engine, seats, seat, station).await),
                Place::Wanted => bring_another(engine, seats, seat, station).await,
                Place::Away | Place::Here | Place::Gone => {}
            }
        }
    }
    returned
}

/// Takes the core of a place out of the grid, for the cell.
async fn bring(
    engine: &'static Engine,
    seats: &'static Seats,
    seat: &Arc<Seat>,
    station: &Station,
) -> Result<(), Errno> {
    let slot = station.slot();
    seats.set_seat(slot, Some((seat.clone(), station.index)));
    let patience = PATIENCE_MS.saturating_mul(gyre_x86_64::cycles_per_ms());
    let deadline_cycles = gyre_x86_64::now().saturating_add(patience);
    let withdrawn = engine.withdraw_core(Withdrawal { slot, lessee: seat.activity, deadline_cycles }).await;
    withdrawn.map(drop).map_err(|error| {
        log::info!("core {slot} does not come for cell {}: {error:?}", seat.number);
        seats.set_seat(slot, None);
        errno(&error)
    })
}

/// Brings a core of the pool into a place for which the cell wants one.
async fn bring_another(engine: &'static Engine, seats: &'static Seats, seat: &Arc<Seat>, station: &Station) {
    let began = gyre_x86_64::now();
    let outcome = another(engine, seats, seat, station).await;
    note_another(seats, seat, began, outcome);
    if let Err(error) = outcome {
        station.refuse(error);
        seat.wake_cores();
    }
    seat.changed.wake_all();
}

async fn another(
    engine: &'static Engine,
    seats: &'static Seats,
    seat: &Arc<Seat>,
    station: &Station,
) -> Result<usize, Errno> {
    let slot = seats.pool.take_core(seat.number)?;
    station.begin_again(slot);
    // After it counts as the cell's: an order to give back sees it, or is seen here.
    let brought = match seat.is_asked.load(Ordering::SeqCst) || seat.is_ended() {
        true => Err(Errno::EAGAIN),
        false => bring(engine, seats, seat, station).await,
    };
    if brought.is_err() {
        seats.pool.give_core(seat.number, slot);
    }
    brought.map(|()| slot)
}

/// Notes that a cell got another core, or why not. One that asks again and again while none is free would fill the log.
pub(super) fn note_another(seats: &Seats, seat: &Seat, began: u64, outcome: Result<usize, Errno>) {
    let (cores, result) = match outcome {
        Err(Errno::EAGAIN) => return,
        Ok(slot) => (u32::try_from(slot).into_iter().collect(), String::new()),
        Err(error) => (Vec::new(), format!("no core: {error:?}")),
    };
    let event = Event { deed: Deed::More, cores, memory_bytes: 0, by: By::Process, began, result };
    seats.history.note(seat, event);
}

/// Whether the entry is in the log.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Entry {
    Awaited,
    Noted,
}

/// Something that the keeper has to deal with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum News {
    /// The first core is in the cell.
    Entered,
    /// A core has left, or one is wanted.
    Moves,
}

fn news(seat: &Seat, entry: Entry) -> Option<News> {
    if entry == Entry::Awaited && seat.entered.load(Ordering::Relaxed) != 0 {
        return Some(News::Entered);
    }
    let moves = seat.stations.iter().any(|station| matches!(station.place(), Place::Left | Place::Wanted));
    moves.then_some(News::Moves)
}

/// Waits until a core works in its slot again; it goes into the pool if the cell goes on, and is answered if not.
async fn take_back(engine: &'static Engine, seats: &Seats, seat: &Seat, station: &Station) -> Option<u32> {
    let (began, slot) = (gyre_x86_64::now(), station.slot());
    seats.set_seat(slot, None);
    for _ in 0..LOOKS_MAX {
        if !engine.is_vacant(slot) {
            break;
        }
        sleep_ns(LOOK_NS).await;
    }
    let core = u32::try_from(slot).ok();
    let goes_on = !seat.is_ended();
    if goes_on {
        seats.pool.give_core(seat.number, slot);
        let (cores, by) = (core.into_iter().collect(), by_whom(seat));
        seats.history.note(seat, Event { deed: Deed::Give, cores, memory_bytes: 0, by, began, result: String::new() });
    }
    station.set_place(Place::Gone);
    seat.changed.wake_all();
    core.filter(|_| !goes_on)
}

/// Returns whose order it is if a cell gives something.
pub fn by_whom(seat: &Seat) -> By {
    if seat.is_asked.load(Ordering::SeqCst) { By::Owner } else { By::Process }
}

fn cores_of(seat: &Seat) -> Vec<u32> {
    seat.stations.iter().filter_map(|station| u32::try_from(station.slot()).ok()).collect()
}

/// Notes that the first core is in the cell.
pub(super) fn note_entry(seats: &Seats, seat: &Seat) {
    let took = seat.entered.load(Ordering::Relaxed).saturating_sub(seat.began);
    let event = Event {
        deed: Deed::Enter,
        cores: cores_of(seat),
        memory_bytes: 0,
        by: By::Process,
        // The time from the request to the first instruction, whenever this is noted.
        began: gyre_x86_64::now().saturating_sub(took),
        result: String::new(),
    };
    seats.history.note(seat, event);
}

/// Notes why a cell ends.
pub(super) fn note_end(seats: &Seats, seat: &Seat, ending: Ending) {
    let (by, result) = match ending {
        Ending::Refused(error) => (By::Kernel, format!("did not begin: {error:?}")),
        Ending::Left(_) => (By::Process, "left, and goes on as a process".into()),
        Ending::Exited(status) => (By::Process, format!("exited with status {}", status & 0xff)),
        Ending::Failed { why, rip } => (By::Kernel, format!("failed at {rip:#x}: {why:?}")),
        Ending::Overdue => (By::Owner, "ended, as it did not give back in time".into()),
        Ending::Ended => (By::Process, "its process has ended".into()),
    };
    let event = Event { deed: Deed::Exit, cores: Vec::new(), memory_bytes: 0, by, began: seat.began, result };
    seats.history.note(seat, event);
}

/// Returns the error of a core that does not come.
pub(super) fn errno(error: &WithdrawError) -> Errno {
    match error {
        WithdrawError::Resident | WithdrawError::NoWay => Errno::ENODEV,
        WithdrawError::NoLine | WithdrawError::NoMemory | WithdrawError::Gone => Errno::ENOMEM,
        WithdrawError::Vacant | WithdrawError::Leaving | WithdrawError::Busy(_) => Errno::EAGAIN,
    }
}

/// Gives all to the pool, and clears the lots before, but for those that nobody has written to; answers how many lots.
async fn give_back(seats: &Seats, seat: &Seat) -> usize {
    // From here on no call finds a lot.
    let unused = seat.reach().map_or_else(Vec::new, |reach| unused_lots(&reach));
    seat.set_reach(None);
    let lots = core::mem::take(&mut *seat.lots.lock());
    let count = lots.len();
    for lot in lots.iter().filter(|lot| !unused.iter().any(|other| other.same(lot))) {
        clear(lot, 1).await;
    }
    drop(unused);
    seats.pool.give(seat.number, lots, seat.payer);
    seats.pool.end(seat.number);
    count
}

/// Takes the lots from a cell whose cores are out; returns those that are as clear as they were when they came: neither the cell nor the kernel
/// has written there.
fn unused_lots(reach: &Reach) -> Vec<Page> {
    let lots = reach.memory.take_lots().into_iter().filter(|lot| !lot.is_reached).map(|lot| lot.page);
    lots.filter(|lot| !reach.table.is_written(range_of(lot))).collect()
}

/// Returns the range of a lot.
pub fn range_of(lot: &Page) -> MemoryRegion {
    MemoryRegion { start: lot.pa(), bytes: lot.len() as u64 }
}

/// Clears a lot, in turns, once nobody but its `owners` holds it: a disk may still move data there.
pub async fn clear(lot: &Page, owners: usize) {
    while lot.holders() > owners {
        sleep_ns(LOOK_NS).await;
    }
    const ZEROS: [u8; PAGE_BYTES] = [0; PAGE_BYTES];
    for (number, at) in (0..lot.len()).step_by(PAGE_BYTES).enumerate() {
        lot.write(at, &ZEROS);
        if number.is_multiple_of(SLICE_PAGES) {
            yield_now().await;
        }
    }
}
