//! Revocation: the owner wants parts of a cell back, or all of it, within a time.
//!
//! The cell is asked by its page (`wanted_lots`, `wanted_cores`, or that it is to end) and gives back by its own exits. If the time is over
//! the cell is ended, and its process with it. The work is the infrastructure's: it goes on if nobody waits for the answer.

use super::Seats;
use super::history::Event;
use super::seat::{Ending, Phase, Seat};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use gyre_account::ActivityId;
use gyre_assembly::grid::id;
use gyre_cell_abi::LOT_BYTES;
use gyre_cell_memory::Wanted;
use gyre_contract::catalogue::Resource;
use gyre_contract::seats::{Answer, By, Deed, Outcome, Refusal, Returned, Revoke, WITHIN_NS_MAX};
use gyre_engine::{Engine, RESIDENT};
use gyre_linux::Errno;
use gyre_message::wait::Either;
use gyre_message::{Gone, reply_pair, select, sleep_ns};

/// The least time that a cell has, ns.
pub(super) const WITHIN_NS_MIN: u64 = 1_000_000;

/// The rest that is to remain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Goal {
    /// At most so many lots and cores.
    Less { lots: usize, cores: usize },
    /// Nothing.
    Nothing,
}

/// An order to a cell.
struct Demand {
    goal: Goal,
    order: Revoke,
    began: u64,
}

/// Has a cell give back what the order says, and waits until that is so or the cell is ended.
///
/// # Errors
/// ENOMEM; a refusal is an answer.
pub async fn revoke(engine: &'static Engine, seats: &'static Seats, order: Revoke) -> Result<Answer, Errno> {
    let Some(seat) = seats.find(&order.tenant, order.process) else { return Ok(Err(Refusal::NoCell)) };
    let demand = match demand_of(&seat, order) {
        Ok(demand) => demand,
        Err(refusal) => return Ok(Err(refusal)),
    };
    if seat.is_asked.swap(true, Ordering::SeqCst) {
        return Ok(Err(Refusal::Busy));
    }
    let (reply, call) = reply_pair::<Result<Returned, Gone>>();
    engine.spawn_for_on(RESIDENT, id(Resource::Leases), ActivityId::INFRASTRUCTURE, move || async move {
        reply.send(Ok(watch(engine, seats, &seat, demand).await));
    });
    call.await.map(Ok).map_err(|Gone| Errno::ENOMEM)
}

/// Checks an order against what the cell has.
fn demand_of(seat: &Seat, order: Revoke) -> Result<Demand, Refusal> {
    let began = gyre_x86_64::now();
    let is_sound =
        order.memory_bytes.is_multiple_of(LOT_BYTES) && (WITHIN_NS_MIN..=WITHIN_NS_MAX).contains(&order.within_ns);
    if !is_sound {
        return Err(Refusal::Wild);
    }
    if order.is_all() {
        return Ok(Demand { goal: Goal::Nothing, order, began });
    }
    let (lots, cores) = (seat.lot_count(), seat.core_count());
    let wanted_lots = usize::try_from(order.memory_bytes.checked_div(LOT_BYTES).unwrap_or(0)).unwrap_or(usize::MAX);
    let rest = |has: usize, wanted: usize| has.checked_sub(wanted).filter(|rest| *rest > 0 || wanted == 0);
    match (rest(lots, wanted_lots), rest(cores, order.cores as usize)) {
        (Some(lots), Some(cores)) => Ok(Demand { goal: Goal::Less { lots, cores }, order, began }),
        _ => Err(Refusal::TooMuch {
            cores: u32::try_from(cores.saturating_sub(1)).unwrap_or(0),
            memory_bytes: (lots.saturating_sub(1) as u64).saturating_mul(LOT_BYTES),
        }),
    }
}

/// Asks the cell and waits; the time is over at last.
async fn watch(engine: &Engine, seats: &Seats, seat: &Arc<Seat>, demand: Demand) -> Returned {
    ask(seat, &demand);
    note(seats, seat, &demand, format!("has {} us", demand.order.within_ns.checked_div(1000).unwrap_or(0)));
    let is_met = || is_met(seat, demand.goal).then_some(());
    let outcome = match select(seat.changed.until(is_met), sleep_ns(demand.order.within_ns)).await {
        Either::First(()) => Outcome::Given,
        Either::Second(()) => {
            seat.finish(Ending::Overdue);
            seat.changed.until(|| is_over(seat).then_some(())).await;
            Outcome::Ended
        }
    };
    seat.with_page(|page| page.want(Wanted::default()));
    let words = if outcome == Outcome::Given { "given back" } else { "not given back in time: ended" };
    note(seats, seat, &demand, words.into());
    seat.is_asked.store(false, Ordering::SeqCst);
    Returned { outcome, took_ns: engine.ns(gyre_x86_64::now().saturating_sub(demand.began)) }
}

fn ask(seat: &Seat, demand: &Demand) {
    let cycles_per_us = gyre_x86_64::cycles_per_ms().checked_div(1000).unwrap_or(0);
    let within = demand.order.within_ns.checked_div(1000).unwrap_or(0).saturating_mul(cycles_per_us);
    let until = gyre_x86_64::now().saturating_add(within);
    let has_lots = seat.reach().map_or_else(|| seat.lot_count(), |reach| reach.memory.lot_count());
    let has_cores = seat.core_count();
    seat.with_page(|page| match demand.goal {
        Goal::Nothing => page.ask_for_end(),
        Goal::Less { lots, cores } => {
            page.want(Wanted { lots: difference(has_lots, lots), cores: difference(has_cores, cores), until });
        }
    });
    seat.tell();
}

fn difference(has: usize, goal: usize) -> u32 {
    u32::try_from(has.saturating_sub(goal)).unwrap_or(u32::MAX)
}

fn is_over(seat: &Seat) -> bool {
    matches!(seat.phase(), Phase::Over(_))
}

/// A cell that is over has given all.
fn is_met(seat: &Seat, goal: Goal) -> bool {
    let has_less = |lots: usize, cores: usize| seat.lot_count() <= lots && seat.core_count() <= cores;
    is_over(seat) || matches!(goal, Goal::Less { lots, cores } if has_less(lots, cores))
}

fn note(seats: &Seats, seat: &Seat, demand: &Demand, result: String) {
    let event = Event {
        deed: Deed::Revoke,
        cores: Vec::new(),
        memory_bytes: demand.order.memory_bytes,
        by: By::Owner,
        began: demand.began,
        result,
    };
    seats.history.note(seat, event);
}
