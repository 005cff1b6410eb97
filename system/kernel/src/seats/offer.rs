//! An offer: the owner lets a cell have cores again in the place of those that it gave back.
//!
//! The page of the cell says how many (`offered_cores`); the cell gets each by an exit of its own, as it may without an offer. If the time is over,
//! what it has not taken is not offered any more. The work is the infrastructure's: it goes on if nobody waits for the answer.

use super::Seats;
use super::demand::WITHIN_NS_MIN;
use super::seat::{Phase, Seat};
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use gyre_account::ActivityId;
use gyre_assembly::grid::id;
use gyre_contract::catalogue::Resource;
use gyre_contract::seats::{Offer, OfferAnswer, Refusal, Taken, WITHIN_NS_MAX};
use gyre_engine::{Engine, RESIDENT};
use gyre_linux::Errno;
use gyre_message::{Gone, reply_pair, select, sleep_ns};

/// Offers cores to a cell, and waits until it has taken them or the time is over.
///
/// # Errors
/// ENOMEM; a refusal is an answer.
pub async fn offer(engine: &'static Engine, seats: &'static Seats, order: Offer) -> Result<OfferAnswer, Errno> {
    let Some(seat) = seats.find(&order.tenant, order.process) else { return Ok(Err(Refusal::NoCell)) };
    if let Err(refusal) = check(seats, &seat, &order) {
        return Ok(Err(refusal));
    }
    if seat.is_asked.load(Ordering::SeqCst) || seat.is_offered.swap(true, Ordering::SeqCst) {
        return Ok(Err(Refusal::Busy));
    }
    let (reply, call) = reply_pair::<Result<Taken, Gone>>();
    engine.spawn_for_on(RESIDENT, id(Resource::Leases), ActivityId::INFRASTRUCTURE, move || async move {
        reply.send(Ok(watch(engine, &seat, &order).await));
    });
    call.await.map(Ok).map_err(|Gone| Errno::ENOMEM)
}

fn check(seats: &Seats, seat: &Seat, order: &Offer) -> Result<(), Refusal> {
    if order.cores == 0 || !(WITHIN_NS_MIN..=WITHIN_NS_MAX).contains(&order.within_ns) {
        return Err(Refusal::Wild);
    }
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let missing = number(seat.stations.len().saturating_sub(seat.core_count()));
    if order.cores > missing {
        return Err(Refusal::NotMissing { cores: missing });
    }
    let free = number(seats.pool.free().cores.len());
    if order.cores > free { Err(Refusal::NotFree { cores: free }) } else { Ok(()) }
}

async fn watch(engine: &Engine, seat: &Arc<Seat>, order: &Offer) -> Taken {
    let (began, before) = (gyre_x86_64::now(), seat.core_count());
    let taken = || seat.core_count().saturating_sub(before);
    seat.with_page(|page| page.offer(order.cores));
    seat.tell();
    let is_over = || matches!(seat.phase(), Phase::Out(_) | Phase::Over(_));
    let is_met = || (is_over() || taken() >= order.cores as usize && seat.is_settled()).then_some(());
    select(seat.changed.until(is_met), sleep_ns(order.within_ns)).await;
    let cores = u32::try_from(taken()).unwrap_or(u32::MAX).min(order.cores);
    seat.with_page(|page| page.offer(0));
    seat.is_offered.store(false, Ordering::SeqCst);
    Taken { cores, took_ns: engine.ns(gyre_x86_64::now().saturating_sub(began)) }
}
