//! The native calls about cells, for the system tenant. In an instance that keeps no memory for cells they answer ENOSYS.

use super::seat::{Phase, Seat};
use super::{Seats, demand, offer};
use crate::kernel::Kernel;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use gyre_account::ActivityId;
use gyre_contract::seats::{Kind, Offer, Record, Revoke, Seat as View, Seats as All, State};
use gyre_engine::Engine;
use gyre_engine::snapshot::Spent;
use gyre_linux::{Arguments, Errno, Outcome, Thread};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Longest order, bytes.
const REQUEST_BYTES_MAX: usize = 4096;

fn seats(kernel: &Kernel) -> Result<&'static Seats, Errno> {
    kernel.seats.ok_or(Errno::ENOSYS)
}

fn encoded(value: &impl Serialize) -> Result<Vec<u8>, Errno> {
    postcard::to_allocvec(value).map_err(|_| Errno::ENOMEM)
}

/// `cell_list(buffer, length)`.
pub async fn list(kernel: &'static Kernel, thread: &Thread, arguments: Arguments) -> Outcome {
    let bytes = encoded(&all(kernel.base.engine, seats(kernel)?))?;
    if bytes.len() <= arguments.size(1) {
        thread.copy_out(arguments.word(0), &bytes).await?;
    }
    Ok(bytes.len() as u64)
}

/// `cell_log(number, buffer, length)`.
pub async fn log(kernel: &'static Kernel, thread: &Thread, arguments: Arguments) -> Outcome {
    let records = seats(kernel)?.history.since(arguments.word(0));
    let bytes = fitting(&records, arguments.size(2))?;
    thread.copy_out(arguments.word(1), &bytes).await?;
    Ok(bytes.len() as u64)
}

/// Returns the form of as many records as there is room for.
///
/// # Errors
/// ENOSPC if there is no room for an empty list, or for the first record.
fn fitting(all: &[Record], room: usize) -> Result<Vec<u8>, Errno> {
    let mut count = all.len();
    loop {
        let bytes = encoded(&all.get(..count).unwrap_or(&[]))?;
        if bytes.len() <= room {
            return Ok(bytes);
        }
        // Half of them, until they fit.
        count = count.checked_div(2).filter(|half| *half > 0).ok_or(Errno::ENOSPC)?;
    }
}

/// `cell_pool(bytes)`.
pub fn pool(kernel: &'static Kernel, arguments: Arguments) -> Outcome {
    seats(kernel)?.pool.resize(arguments.word(0))
}

/// `cell_revoke(request, length, answer, room)`.
pub async fn revoke(kernel: &'static Kernel, thread: &Thread, arguments: Arguments) -> Outcome {
    let seats = seats(kernel)?;
    let order: Revoke = order(thread, arguments).await?;
    answer(thread, arguments, &demand::revoke(kernel.base.engine, seats, order).await?).await
}

/// `cell_offer(request, length, answer, room)`.
pub async fn offer(kernel: &'static Kernel, thread: &Thread, arguments: Arguments) -> Outcome {
    let seats = seats(kernel)?;
    let order: Offer = order(thread, arguments).await?;
    answer(thread, arguments, &offer::offer(kernel.base.engine, seats, order).await?).await
}

async fn order<T: DeserializeOwned>(thread: &Thread, arguments: Arguments) -> Result<T, Errno> {
    if arguments.size(1) > REQUEST_BYTES_MAX {
        return Err(Errno::EINVAL);
    }
    let bytes = thread.read_vec(arguments.word(0), arguments.size(1)).await?;
    postcard::from_bytes(&bytes).map_err(|_| Errno::EINVAL)
}

async fn answer(thread: &Thread, arguments: Arguments, value: &impl Serialize) -> Outcome {
    let answer = encoded(value)?;
    if answer.len() > arguments.size(3) {
        return Err(Errno::ENOSPC);
    }
    thread.copy_out(arguments.word(2), &answer).await?;
    Ok(answer.len() as u64)
}

fn all(engine: &Engine, seats: &Seats) -> All {
    let free = seats.pool.free();
    All {
        now_ns: engine.ns(gyre_x86_64::now()),
        pool_bytes: free.pool_bytes,
        free_bytes: free.bytes,
        free_cores: free.cores,
        seats: seats.all().iter().map(|seat| view(engine, seat)).collect(),
        devices: seats.devices.list(),
    }
}

fn view(engine: &Engine, seat: &Arc<Seat>) -> View {
    let live = seat.stations.iter().filter(|station| station.is_held());
    let used = used(engine, seat.activity);
    View {
        cell: seat.number,
        kind: seat.kind,
        tenant: seat.owner.tenant.clone(),
        process: seat.owner.process,
        cores: live.filter_map(|station| u32::try_from(station.slot()).ok()).collect(),
        memory_bytes: (seat.lot_count() as u64).saturating_mul(gyre_cell_abi::LOT_BYTES),
        since_ns: engine.ns(seat.began),
        state: state(seat),
        runtime: seat.owner.runtime.clone(),
        exits: seat.exits.load(Ordering::Relaxed),
        own_cycles: own_cycles(seat, &used),
        serving_cycles: used.serving.saturating_sub(seat.served_before),
    }
}

/// Returns the state of a cell.
pub fn state(seat: &Seat) -> State {
    match seat.phase() {
        _ if seat.is_ended() => State::Ends,
        Phase::Preparing | Phase::Ready => State::Preparing,
        Phase::Inside if seat.is_asked.load(Ordering::SeqCst) => State::Asked,
        Phase::Inside => State::Runs,
        Phase::Out(_) | Phase::Over(_) => State::Ends,
    }
}

/// Returns the cycles of a cell's own cores: a plain cell's programs run there as ordinary ones.
fn own_cycles(seat: &Seat, used: &Used) -> u64 {
    match seat.kind {
        Kind::Privileged => used.own,
        Kind::Plain => used.own.saturating_add(used.run.saturating_sub(seat.run_before)),
    }
}

/// Cycles of a process.
pub struct Used {
    /// In its programs.
    pub run: u64,
    /// On cores that it has for itself.
    pub own: u64,
    /// On others, in the kernel.
    pub serving: u64,
}

/// Returns the cycles of a process up to now.
pub fn used(engine: &Engine, activity: ActivityId) -> Used {
    let spent = Spent::of(&engine.figures(activity));
    Used { run: spent.user, own: spent.leased, serving: spent.kernel }
}
