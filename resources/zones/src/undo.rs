//! The undoing of a change that failed in the middle: its steps, backwards.
//!
//! A zone may refuse to take back what it gave, or to give back what it was just offered. The first is free then; the second stays where it
//! is. Either is said in the log, and the pool knows it: nothing is in two hands.

use crate::change::{NotTaken, OFFER_MS, Work};
use crate::handler::Zones;
use alloc::vec::Vec;
use gyre_contract::zones::State;
use gyre_interface::leases::{Goods, Holder, Move, Parts, Terms};

/// A step of a change, as far as it must be undone.
pub(crate) enum Step {
    /// A zone gave parts, which are still its own in the pool.
    Collected(usize, Parts),
    /// A zone's instance was ended.
    Ended(usize),
    /// Parts were moved in the pool: these, exactly.
    Exchanged(Vec<Move>),
    /// A zone's instance was made.
    Begun(usize),
    /// A zone took a part.
    Offered(usize, Parts),
}

impl Work {
    /// Undoes all steps.
    pub(crate) async fn undo(&mut self) {
        let zones = self.zones;
        while let Some(step) = self.steps.pop() {
            match step {
                Step::Offered(place, part) => {
                    if !zones.ask_back(place, &part).await {
                        log::warn!("zone {} keeps parts of a change that failed", zones.name_of(place));
                        self.stuck.extend(part);
                    }
                }
                Step::Begun(place) => zones.unmake(place).await,
                Step::Exchanged(moves) => zones.move_back(moves, &self.stuck).await,
                Step::Ended(place) => zones.make_again(place).await,
                Step::Collected(place, parts) => zones.return_to(place, parts.without(&self.stuck)).await,
            }
        }
    }
}

impl Zones {
    async fn ask_back(&self, place: usize, part: &Parts) -> bool {
        if let [core] = part.cores[..] {
            return self.ask_core(place, Some(core), OFFER_MS).await == Ok(core);
        }
        if let [device] = part.devices[..] {
            return self.ask_device(place, device, OFFER_MS).await.is_ok();
        }
        // Other lots than those that it took are as good, but the exchange names these.
        let count = u32::try_from(part.lot_count()).unwrap_or(u32::MAX);
        match self.ask_lots(place, count, OFFER_MS).await {
            Ok(lots) if lots == part.lots => true,
            Ok(lots) => {
                self.return_to(place, Parts { lots, ..Parts::default() }).await;
                false
            }
            Err(_) => false,
        }
    }

    async fn unmake(&self, place: usize) {
        if let Err(fault) = self.put_down(place).await {
            log::error!("{}", fault.0);
        }
        if let Ok(slot) = self.slot(place)
            && slot.known().lives()
        {
            slot.set_state(State::Absent);
        }
    }

    async fn move_back(&self, moves: Vec<Move>, stuck: &Parts) {
        let back = |one: Move| {
            let goods = match one.goods {
                Goods::These(parts) => Goods::These(parts.without(stuck)),
                other => other,
            };
            // A loan that goes back is none, and what was to pay one back is owed again.
            Move { from: one.to, to: one.from, goods, terms: one.terms }
        };
        let moves: Vec<Move> = moves.into_iter().rev().map(back).collect();
        if let Err(error) = self.leases.exchange(moves).await {
            // Parts that did not obey are the supervisor's by now; the pool says so.
            log::error!("a change could not be undone in the pool: {error:?}");
        }
        self.refresh().await;
    }

    async fn make_again(&self, place: usize) {
        if let Err(refusal) = self.begin(place).await {
            log::error!("zone {} cannot be made again: {refusal:?}", self.name_of(place));
            self.give_up(place).await;
        }
    }

    /// Gives a zone back what it gave; what it does not take is free.
    pub(crate) async fn return_to(&self, place: usize, parts: Parts) {
        if !self.slots.get(place).is_some_and(|slot| slot.state() == State::Running) {
            // It died meanwhile: in the pool the parts are still its own, and its watch sees to them.
            return;
        }
        for part in parts.single() {
            let Err(NotTaken { kept, .. }) = self.hand_over(place, &part).await else { continue };
            let free = part.without(&kept);
            if !free.is_empty() {
                log::warn!("zone {} does not take back what it gave: it is free", self.name_of(place));
                let _ = self.leases.give(Holder::Zone(place as u16), free).await;
            }
        }
        self.refresh().await;
    }

    /// Frees all parts of a zone that has no instance.
    pub(crate) async fn give_up(&self, place: usize) {
        let goods = Goods::All;
        let all = Move { from: Holder::Zone(place as u16), to: Holder::Free, goods, terms: Terms::Kept };
        let _ = self.leases.exchange(alloc::vec![all]).await;
        self.refresh().await;
    }
}
