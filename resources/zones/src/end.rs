//! The ends of zones in a change: told by one message, and beside each other.
//!
//! * Zones with the same grace time are told by one cast: it is in all their rings before anybody is interrupted.
//! * Each ends in a task of its own, which it pays: it has its grace time, then what is left of it is put down.
//!
//! So a change waits for the longest grace time, not for the sum of all. A change waits for all its ends, also if one of them fails: those that
//! have ended are made again then ([`crate::undo`]).
//!
//! Messages out: [`ToZone::End`]. Left out: how an instance is put down (`build.rs`).

use crate::change::Work;
use crate::handler::Zones;
use crate::plan::{Aim, Change, Course};
use crate::slot::Known;
use crate::undo::Step;
use alloc::boxed::Box;
use alloc::vec::Vec;
use gyre_contract::zones::{Refusal, State};
use gyre_interface::zone_messages::ToZone;
use gyre_interface::zones::ZonesError;
use gyre_message::runtime::LocalTask;
use gyre_message::{Call, reply_pair, spawn_on, within};

/// A zone that ends in a change, and its time to do so in order.
#[derive(Clone, Copy)]
struct End {
    place: usize,
    grace_ms: u32,
}

impl Work {
    /// Ends the instances that a change ends or makes again; all have ended when this answers.
    ///
    /// # Errors
    /// [`Refusal::Machine`] for the first whose parts did not obey; nothing can be made of the rest of it.
    pub(crate) async fn end(&mut self, change: &Change) -> Result<(), Refusal> {
        let ends = self.ends(change);
        self.zones.tell(&ends);
        let under_way: Vec<_> = ends.iter().map(|end| (end.place, self.zones.begin_end(*end))).collect();
        let mut result = Ok(());
        for (place, ended) in under_way {
            match ended.await {
                Ok(()) => self.steps.push(Step::Ended(place)),
                Err(error) => result = result.and(Err(self.zones.not_ended(place, error))),
            }
        }
        result
    }

    fn ends(&self, change: &Change) -> Vec<End> {
        let ends = |aim: &Aim| matches!(aim.course, Course::Ends | Course::BeginsAgain);
        let aims = change.aims.iter().zip(&self.before).enumerate();
        let living = aims.filter(|(_, (aim, before))| ends(aim) && Known::lives(before));
        living.map(|(place, (aim, _))| End { place, grace_ms: aim.grace_ms }).collect()
    }
}

impl Zones {
    /// Asks all that run and have a grace time to end.
    fn tell(&self, ends: &[End]) {
        let hears = |end: &&End| {
            end.grace_ms > 0 && self.slots.get(end.place).is_some_and(|slot| slot.state() == State::Running)
        };
        let mut told: Vec<End> = ends.iter().filter(hears).copied().collect();
        told.sort_by_key(|end| end.grace_ms);
        for alike in told.chunk_by(|one, next| one.grace_ms == next.grace_ms) {
            self.tell_at_once(alike);
        }
    }

    /// Asks zones with the same grace time to end.
    fn tell_at_once(&self, ends: &[End]) {
        let Some(first) = ends.first() else { return };
        let message = ToZone::End(first.grace_ms).encode(0);
        let places: Vec<usize> = ends.iter().map(|end| end.place).collect();
        // Before a zone can have heard of it: an end that it was asked for is not followed by its next instance.
        places.iter().filter_map(|place| self.slots.get(*place)).for_each(|slot| slot.set_state(State::Ending));
        if self.machine.cast(&places, &message).is_err() {
            // A full ring keeps no other zone from hearing it; its own zone has the word in its page.
            for place in &places {
                let _ = self.machine.send(*place, &message);
            }
        }
        places.iter().for_each(|place| self.machine.ask_to_end(*place));
    }

    /// Begins the end of a zone, as work of the zone's own.
    fn begin_end(&'static self, end: End) -> Call<Result<(), ZonesError>> {
        let (reply, call) = reply_pair();
        let Some(slot) = self.slots.get(end.place) else { return call };
        let work = move || -> LocalTask {
            Box::pin(async move { reply.send(self.end_one(end).await.map_err(ZonesError::Refused)) })
        };
        spawn_on(gyre_machine::core_index(), slot.activity, Box::new(work));
        call
    }

    /// Waits until a zone that was told has ended, at most for its grace time, then ends what is left of it.
    async fn end_one(&self, end: End) -> Result<(), Refusal> {
        let slot = self.slot(end.place)?;
        let has_ended = slot.changed.until(|| (slot.state() != State::Ending).then_some(()));
        within(u64::from(end.grace_ms).saturating_mul(1_000_000), has_ended).await;
        let put_down = self.put_down(end.place).await;
        if slot.known().lives() {
            slot.set_state(State::Absent);
        }
        if let Err(fault) = put_down {
            self.give_up(end.place).await;
            return Err(Refusal::Machine { why: fault.0 });
        }
        Ok(())
    }

    fn not_ended(&self, place: usize, error: ZonesError) -> Refusal {
        match error {
            ZonesError::Refused(refusal) => refusal,
            ZonesError::Unknown | ZonesError::Gone => {
                Refusal::Machine { why: alloc::format!("the end of zone {} was given up", self.name_of(place)) }
            }
        }
    }
}
