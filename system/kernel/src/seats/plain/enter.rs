//! The way of a process into a plain cell and out of it, in its own thread.
//!
//! 1. The shared page and the window are mapped, and the lots that the seat has are cut into pages that the window shows.
//! 2. The keeper keeps the cores for the process; then the thread is bound to them and goes on.
//! 3. If something cannot be, the seat ends with the error, and the process has none of the mappings any more.
//!
//! Whatever this thread holds goes back if it is dropped at any wait: lots are the seat's or the memory's, and the guard lies in the memory.

use super::ask::{self, Asked};
use super::{Ask, Plain, keep};
use crate::seats::Seats;
use crate::seats::enter::{map_shared, tell_of};
use crate::seats::seat::{Ending, Guard, Phase, Seat};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use gyre_account::ActivityId;
use gyre_address_space::SharedMemory;
use gyre_assembly::grid::id;
use gyre_cell_abi::CellRequest;
use gyre_cell_memory::{Lines, PlainMemory, Shape};
use gyre_contract::catalogue::Resource;
use gyre_engine::{Engine, RESIDENT};
use gyre_linux::{Errno, Outcome, Thread};
use gyre_machine::PAGE_BYTES;
use gyre_object::{Page, SpinLock};

/// Makes the process of a thread, whose parts the seat has already, a plain cell; returns 0 with its cores and lots.
///
/// # Errors
/// ENOMEM, EEXIST if the shared page's place is taken, EAGAIN if a core cannot be had now. Nothing is held then.
pub async fn begin(
    engine: &'static Engine,
    seats: &'static Seats,
    thread: &Arc<Thread>,
    seat: Arc<Seat>,
    request: &CellRequest,
) -> Outcome {
    let guard = Arc::new(Guard(seat.clone()));
    let kept = seat.clone();
    let keeper = move || keep::keep(engine, seats, kept);
    engine.spawn_for_on(RESIDENT, id(Resource::Leases), ActivityId::INFRASTRUCTURE, keeper);
    // From here on the guard ends the cell: with this call, or with the memory that it makes.
    let memory = Arc::new(SharedMemory::of_comings(guard));
    let outcome = become_plain(thread, &seat, &memory, request).await;
    if let Err(error) = outcome {
        seat.finish(Ending::Refused(error));
        drop(memory);
        tell_of(&seat).await;
        return Err(error);
    }
    thread.bind(cores_of(&seat));
    Ok(0)
}

/// Returns the cores of a seat, a bit each.
pub fn cores_of(seat: &Seat) -> u64 {
    seat.stations.iter().filter(|station| station.is_held()).fold(0, |all, station| all | bit_of(station.slot()))
}

/// Returns the bit of a core.
pub fn bit_of(slot: usize) -> u64 {
    u32::try_from(slot).ok().and_then(|slot| 1u64.checked_shl(slot)).unwrap_or(0)
}

async fn become_plain(
    thread: &Arc<Thread>,
    seat: &Arc<Seat>,
    memory: &Arc<SharedMemory>,
    request: &CellRequest,
) -> Result<(), Errno> {
    let space = thread.space();
    let page = Page::zeroed().map_err(|_| Errno::ENOMEM)?;
    let lines = Lines::new(Vec::from([page.clone()]), Shape { cores: request.cores, lines: 0 });
    let plain = Arc::new(Plain {
        memory: PlainMemory::new(lines, &space, memory),
        process: Arc::downgrade(thread.process()),
        window: AtomicU64::new(0),
        page: request.page,
        bound_before: thread.cores.load(Ordering::Relaxed),
        bound: AtomicU64::new(cores_of(seat)),
        questions: SpinLock::new(Some(Vec::new())),
    });
    seat.set_plain(plain.clone());
    map_shared(&space, request.page, PAGE_BYTES as u64, &[page]).await?;
    let made = fill(thread, seat, &plain).await;
    let entered = match made {
        Ok(()) => wait_for_cores(seat).await,
        Err(error) => Err(error),
    };
    if entered.is_err() {
        hide(thread, &plain).await;
    }
    entered
}

/// Shows the window and cuts the lots into it. A lot is the seat's or the memory's at each wait.
async fn fill(thread: &Thread, seat: &Seat, plain: &Plain) -> Result<(), Errno> {
    let tsc_hz = gyre_x86_64::cycles_per_ms().saturating_mul(1000);
    let window = plain.memory.show(&thread.space(), tsc_hz).await?;
    plain.window.store(window, Ordering::Relaxed);
    loop {
        let lot = seat.lots.lock().pop();
        let Some(lot) = lot else { return Ok(()) };
        if let Err(lot) = plain.memory.add(lot) {
            seat.lots.lock().push(lot);
            return Err(Errno::ENOMEM);
        }
        thread.breathe().await.map_err(|_| Errno::EINTR)?;
    }
}

async fn wait_for_cores(seat: &Seat) -> Result<(), Errno> {
    seat.set_phase(Phase::Ready);
    let decided = || match seat.phase() {
        Phase::Inside => Some(Ok(())),
        Phase::Out(ending) | Phase::Over(ending) => Some(Err(ending)),
        Phase::Preparing | Phase::Ready => None,
    };
    seat.changed.until(decided).await.map_err(|ending| match ending {
        Ending::Refused(error) => error,
        _ => Errno::EINTR,
    })
}

/// Takes the shared page and the window away from the process.
async fn hide(thread: &Thread, plain: &Plain) {
    let space = thread.space();
    // They are this call's own mappings; a program that has unmapped them has none.
    let _ = space.unmap(plain.page, PAGE_BYTES as u64).await;
    if plain.window() != 0 {
        let _ = plain.memory.hide(&space, plain.window()).await;
    }
}

/// Ends the plain cell of a thread's process, which goes on as an ordinary one without its lots.
///
/// # Errors
/// ESRCH if it is none.
pub async fn leave(seats: &Seats, thread: &Arc<Thread>) -> Outcome {
    let Asked { seat, plain, answer } = ask::put(seats, thread, Ask::Leave).await?;
    answer?;
    tell_of(&seat).await;
    hide(thread, &plain).await;
    Ok(0)
}
