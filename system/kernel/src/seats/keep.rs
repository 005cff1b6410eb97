//! The keeper of a cell: the task that outlives whatever happens to its process.
//!
//! 1. It waits until the thread has made the cell ready or given it up.
//! 2. It takes the cores out of the grid, and waits until they are out of the cell and back. A core that the cell gives back goes alone before.
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
    if seat.changed.until(begins).await {
        have_cores_sit(engine, seats, &seat).await;
    }
    let ending = seat.ending();
    seat.set_phase(Phase::Out(ending));
    note_end(seats, &seat, ending);
    let began = gyre_x86_64::now();
    let lots = give_back(seats, &seat).await;
    seats.devices.free_all(seat.number);
    let memory_bytes = (lots as u64).saturating_mul(gyre_cell_abi::LOT_BYTES);
    let cores = cores_of(&seat);
    let event = Event { deed: Deed::Return, cores, memory_bytes, by: By::Kernel, began, result: String::new() };
    seats.history.note(&seat, event);
    seats.remove(&seat);
    seat.set_phase(Phase::Over(ending));
}

/// Takes the cores out of the grid, and waits until all are back.
async fn have_cores_sit(engine: &'static Engine, seats: &'static Seats, seat: &Arc<Seat>) {
    let mut came = 0usize;
    for station in &seat.stations {
        seats.set_seat(station.slot, Some((seat.clone(), station.index)));
        let patience = PATIENCE_MS.saturating_mul(gyre_x86_64::cycles_per_ms());
        let deadline_cycles = gyre_x86_64::now().saturating_add(patience);
        let withdrawal = Withdrawal { slot: station.slot, lessee: seat.activity, deadline_cycles };
        if let Err(error) = engine.withdraw_core(withdrawal).await {
            log::info!("core {} does not come for cell {}: {error:?}", station.slot, seat.number);
            seats.set_seat(station.slot, None);
            seat.finish(Ending::Refused(errno(&error)));
            break;
        }
        came = came.saturating_add(1);
    }
    let mut entry = Entry::Awaited;
    let mut back = 0usize;
    while back < came {
        let (gone, entered) = seat.changed.until(|| news(seat, back, entry)).await;
        if entered && entry == Entry::Awaited {
            entry = Entry::Noted;
            note_entry(seats, seat);
        }
        // In any order: those that are gone and have a seat still.
        for station in gone.iter().filter_map(|index| seat.stations.get(*index)) {
            if seats.set_seat(station.slot, None) {
                take_back(engine, seats, seat, station).await;
                back = back.saturating_add(1);
            }
        }
    }
}

/// Whether the entry is in the log.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Entry {
    Awaited,
    Noted,
}

/// Returns the cores that are gone, if they are more than before, and whether the cell has begun, if that is new.
fn news(seat: &Seat, back: usize, entry: Entry) -> Option<(Vec<usize>, bool)> {
    let gone = seat.stations.iter().filter(|station| station.place() == Place::Gone);
    let gone: Vec<usize> = gone.map(|station| station.index).collect();
    let entered = seat.entered.load(Ordering::Relaxed) != 0;
    (gone.len() > back || entered && entry == Entry::Awaited).then_some((gone, entered))
}

/// Waits until a core works in its slot again; it goes into the pool if the cell goes on.
async fn take_back(engine: &'static Engine, seats: &Seats, seat: &Seat, station: &Station) {
    let began = gyre_x86_64::now();
    for _ in 0..LOOKS_MAX {
        if !engine.is_vacant(station.slot) {
            break;
        }
        sleep_ns(LOOK_NS).await;
    }
    if seat.is_ended() {
        return;
    }
    seats.pool.give_core(seat.number, station.slot);
    let cores = u32::try_from(station.slot).into_iter().collect();
    let by = by_whom(seat);
    seats.history.note(seat, Event { deed: Deed::Give, cores, memory_bytes: 0, by, began, result: String::new() });
    seat.changed.wake_all();
}

/// Returns whose order it is if a cell gives something.
pub fn by_whom(seat: &Seat) -> By {
    if seat.is_asked.load(Ordering::SeqCst) { By::Owner } else { By::Process }
}

fn cores_of(seat: &Seat) -> Vec<u32> {
    seat.stations.iter().filter_map(|station| u32::try_from(station.slot).ok()).collect()
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
