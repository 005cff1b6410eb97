//! A change carried out: all of it, or nothing.
//!
//! Steps that may be refused come before those that cannot be taken back:
//!
//! 1. Zones that shrink are asked for the parts. A zone that is in no hurry makes the change fail after its deadline.
//! 2. Zones that end, end beside each other ([`crate::end`]).
//! 3. One exchange moves all parts in the pool.
//! 4. New instances begin and stand.
//! 5. Zones that grow are offered the parts.
//! 6. Parts that a zone had borrowed when it was ended go home to a lender that runs and has room for them.
//!
//! Each step notes how it is undone ([`crate::undo`]). An instance that had ended is made again then; what it had in memory is lost.

use crate::asks::{Failure, micros};
use crate::handler::{Zones, now_ns};
use crate::plan::{self, Aim, Change, Course};
use crate::rights;
use crate::slot::Known;
use crate::undo::Step;
use alloc::vec::Vec;
use gyre_contract::zones::{Command, Part, Refusal, State, Zone};
use gyre_interface::leases::{Goods, Holder, Move, Parts, Terms, Wish};
use gyre_interface::zone_messages::{Reason, ToZone};
use gyre_interface::zones::By;

/// Changes that wait for the one under way.
const WAITING_MAX: u32 = 8;
/// Time that a zone has to take a part that it is offered, ms.
pub(crate) const OFFER_MS: u32 = 1_000;

/// The outcome of a part that a zone was given and did not take.
pub(crate) struct NotTaken {
    pub(crate) failure: Failure,
    /// The part, if the zone may have it all the same: it stays its own until it gives it or ends.
    pub(crate) kept: Parts,
}

impl NotTaken {
    /// The zone does not have the part.
    fn free(failure: Failure) -> NotTaken {
        NotTaken { failure, kept: Parts::default() }
    }

    /// Only a refusal says that the zone does not have the part.
    fn of(failure: Failure, part: &Parts) -> NotTaken {
        let is_refused = matches!(failure, Failure::Refused(_));
        NotTaken { failure, kept: if is_refused { Parts::default() } else { part.clone() } }
    }
}

/// A change under way.
pub(crate) struct Work {
    pub(crate) zones: &'static Zones,
    pub(crate) steps: Vec<Step>,
    /// Parts that a zone took and does not give back: they stay its own.
    pub(crate) stuck: Parts,
    pub(crate) before: Vec<Known>,
    /// By zone: what it gave, still its own in the pool.
    collected: Vec<Parts>,
    /// By zone: what it gets while it runs.
    incoming: Vec<Parts>,
    /// By zone: what comes back of whom it had lent it, because that one ends.
    home: Vec<Parts>,
    /// Zones on which the change works alone.
    alone: Vec<usize>,
}

impl Zones {
    /// Does all commands or none.
    ///
    /// # Errors
    /// The reason for which nothing has changed.
    pub(crate) async fn change(&'static self, commands: &[Command], by: By) -> Result<(), Refusal> {
        let busy = || Refusal::Busy {
            part: Part::Core,
            holder: "supervisor".into(),
            why: alloc::format!("{WAITING_MAX} other changes wait"),
        };
        let _one = self.one_change.begin_within(WAITING_MAX).await.ok_or_else(busy)?;
        // A zone that waits to be made again has parts.
        self.refresh().await;
        let entered = self.enter(commands)?;
        let result = self.change_described(commands, by).await;
        if result.is_err() {
            self.leave(entered);
        }
        result
    }

    /// As [`Zones::change`], with the zones described that come. No other change is made meanwhile.
    async fn change_described(&'static self, commands: &[Command], by: By) -> Result<(), Refusal> {
        let begun_ns = now_ns();
        let named = self.named(commands)?;
        self.refresh().await;
        let alone = self.with_lenders(named);
        let mut held = Vec::new();
        for slot in alone.iter().filter_map(|place| self.slots.get(*place)) {
            held.push(slot.work.begin().await);
        }
        let (free_cores, free_lots) = self.refresh().await;
        let before: Vec<Known> = self.slots.iter().map(|slot| slot.known()).collect();
        let described: Vec<_> = self.slots.iter().map(|slot| slot.described()).collect();
        let descriptions: Vec<&Zone> = described.iter().map(|one| &one.zone).collect();
        if let By::Zone(place) = by {
            rights::check(&descriptions, &before, usize::from(place), commands)?;
        }
        let change = plan::read(&descriptions, &before, commands)?;
        plan::check(&change, &before, free_cores, free_lots)?;
        let parts = || self.slots.iter().map(|_| Parts::default()).collect::<Vec<_>>();
        let (collected, incoming, home) = (parts(), parts(), parts());
        let (steps, stuck) = (Vec::new(), Parts::default());
        let mut work = Work { zones: self, steps, stuck, before, collected, incoming, home, alone };
        let result = work.run(&change).await;
        if result.is_err() {
            work.undo().await;
        }
        self.refresh().await;
        self.dirty.wake_all();
        self.record_change(&work.before, &change, commands, by, begun_ns, &result);
        result
    }

    /// Returns the places of the zones that commands name, in rising order: work on them begins in it.
    fn named(&self, commands: &[Command]) -> Result<Vec<usize>, Refusal> {
        let mut places = Vec::new();
        for name in commands.iter().flat_map(names) {
            let place = self.slots.iter().position(|slot| slot.described().zone.name == *name);
            places.push(place.ok_or_else(|| Refusal::Unknown { zone: name.clone() })?);
        }
        places.sort_unstable();
        places.dedup();
        Ok(places)
    }

    /// Adds those who have lent the named zones something.
    fn with_lenders(&self, mut places: Vec<usize>) -> Vec<usize> {
        let borrowers = places.iter().filter_map(|place| self.slots.get(*place));
        let lenders: Vec<usize> = borrowers.flat_map(|slot| slot.known().borrowed).map(|debt| debt.from).collect();
        places.extend(lenders);
        places.sort_unstable();
        places.dedup();
        places
    }
}

fn names(command: &Command) -> Vec<&alloc::string::String> {
    match command {
        Command::Describe { zone, .. } => alloc::vec![&zone.name],
        Command::Create { zone, .. }
        | Command::Destroy { zone, .. }
        | Command::Restart { zone, .. }
        | Command::Set { zone, .. }
        | Command::Attach { zone, .. }
        | Command::Detach { zone, .. } => alloc::vec![zone],
        Command::Lend { from, to, .. } => alloc::vec![from, to],
        Command::Adopt { child, parent } => core::iter::once(child).chain(parent).collect(),
    }
}

impl Work {
    async fn run(&mut self, change: &Change) -> Result<(), Refusal> {
        for (place, aim) in change.aims.iter().enumerate() {
            self.collect(place, aim).await?;
        }
        self.end(change).await?;
        self.exchange(change).await?;
        let begins = |aim: &Aim| matches!(aim.course, Course::Begins | Course::BeginsAgain);
        let new: Vec<usize> =
            change.aims.iter().enumerate().filter(|(_, aim)| begins(aim)).map(|(place, _)| place).collect();
        for place in &new {
            if let Ok(slot) = self.zones.slot(*place) {
                slot.inner.lock().backoff.forget();
            }
            self.steps.push(Step::Begun(*place));
            self.zones.begin(*place).await?;
        }
        for place in &new {
            self.zones.stand(*place).await?;
        }
        for place in 0..change.aims.len() {
            self.offer(place).await?;
        }
        for (place, (slot, aim)) in self.zones.slots.iter().zip(&change.aims).enumerate() {
            slot.inner.lock().known.parent = aim.parent;
            self.zones.set_share(place, aim.share);
        }
        for (place, parts) in core::mem::take(&mut self.home).into_iter().enumerate() {
            self.zones.return_to(place, parts).await;
        }
        Ok(())
    }

    /// Returns the parts that a zone had before, and how many of them it gives.
    fn surplus(&self, place: usize, aim: &Aim) -> (u32, u32, Vec<gyre_machine::PciAddress>) {
        let parts = self.before.get(place).map(|known| known.parts.clone()).unwrap_or_default();
        let cores = u32::try_from(parts.cores.len()).unwrap_or(u32::MAX).saturating_sub(aim.cores);
        let lots = u32::try_from(parts.lot_count()).unwrap_or(u32::MAX).saturating_sub(aim.lots);
        (cores, lots, parts.devices.into_iter().filter(|device| !aim.devices.contains(device)).collect())
    }

    /// Asks a zone that runs on for what it shall give.
    async fn collect(&mut self, place: usize, aim: &Aim) -> Result<(), Refusal> {
        if aim.course != Course::Stays {
            return Ok(());
        }
        let (cores, lots, devices) = self.surplus(place, aim);
        for _ in 0..cores {
            let core = self.zones.ask_core(place, None, aim.deadline_ms).await;
            let core = core.map_err(|failure| self.busy(place, Part::Core, &failure))?;
            self.collected(place, Parts { cores: alloc::vec![core], ..Parts::default() });
        }
        if lots > 0 {
            let lots = self.zones.ask_lots(place, lots, aim.deadline_ms).await;
            let lots = lots.map_err(|failure| self.busy(place, Part::Memory, &failure))?;
            self.collected(place, Parts { lots, ..Parts::default() });
        }
        for device in devices {
            let given = self.zones.ask_device(place, device, aim.deadline_ms).await;
            given.map_err(|failure| self.busy(place, Part::Device, &failure))?;
            self.collected(place, Parts { devices: alloc::vec![device], ..Parts::default() });
        }
        Ok(())
    }

    fn collected(&mut self, place: usize, parts: Parts) {
        self.steps.push(Step::Collected(place, parts.clone()));
        if let Some(collected) = self.collected.get_mut(place) {
            collected.extend(parts);
        }
    }

    fn busy(&self, place: usize, part: Part, failure: &Failure) -> Refusal {
        let name = self.zones.name_of(place);
        match failure {
            Failure::Dead => {
                let state = self.zones.slots.get(place).map(|slot| slot.state());
                Refusal::State { zone: name, state: state.unwrap_or(State::Absent) }
            }
            Failure::Refused(Reason::Needs(words)) => {
                Refusal::Invalid { why: alloc::format!("zone {name} cannot use it: {words}") }
            }
            failure => Refusal::Busy { part, holder: name, why: alloc::format!("{failure}") },
        }
    }

    /// Moves all parts in the pool at once.
    async fn exchange(&mut self, change: &Change) -> Result<(), Refusal> {
        let mut moves = self.loans(change);
        let mut wishes: Vec<(usize, Move)> = Vec::new();
        for (place, aim) in change.aims.iter().enumerate() {
            let holder = Holder::Zone(place as u16);
            let back = |goods| Move { from: holder, to: Holder::Free, goods, terms: Terms::Kept };
            let whole = self.is_whole(place, aim);
            let given = self.collected.get_mut(place).map(core::mem::take).unwrap_or_default();
            match whole {
                true => {
                    moves.extend(self.homecomings(place, change));
                    moves.push(back(Goods::All));
                }
                false if !given.is_empty() => moves.push(back(Goods::These(given))),
                false => {}
            }
            if let Some(wish) = self.wish(place, aim, whole) {
                let goods = Goods::Any(wish);
                wishes.push((place, Move { from: Holder::Free, to: holder, goods, terms: Terms::Kept }));
            }
        }
        let (receivers, wishes): (Vec<usize>, Vec<Move>) = wishes.into_iter().unzip();
        let taken_from = moves.len();
        moves.extend(wishes);
        if moves.is_empty() {
            return Ok(());
        }
        let done = self.zones.leases.exchange(moves.clone()).await.map_err(|error| self.zones.refusal(&error))?;
        for (place, parts) in receivers.iter().zip(done.iter().skip(taken_from)) {
            if change.aims.get(*place).is_some_and(|aim| aim.course == Course::Stays)
                && let Some(incoming) = self.incoming.get_mut(*place)
            {
                incoming.extend(parts.clone());
            }
        }
        for (one, parts) in moves.iter().zip(&done).filter(|(one, _)| one.terms == Terms::Lent) {
            // Before the borrower has them.
            log::info!(
                "registered: {} lends {parts:?} to {}",
                self.zones.name_of_holder(one.from),
                self.zones.name_of_holder(one.to)
            );
        }
        let exact = |(one, parts): (Move, Parts)| Move { goods: Goods::These(parts), ..one };
        self.steps.push(Step::Exchanged(moves.into_iter().zip(done).map(exact).collect()));
        self.zones.refresh().await;
        Ok(())
    }

    /// Returns the moves of loans; their parts are taken out of what was collected.
    fn loans(&mut self, change: &Change) -> Vec<Move> {
        let mut moves = Vec::new();
        for loan in &change.loans {
            let Some(collected) = self.collected.get_mut(loan.from) else { continue };
            let parts = collected.take_some(loan.cores, loan.lots);
            if let Some(incoming) = self.incoming.get_mut(loan.to) {
                incoming.extend(parts.clone());
            }
            let (from, to) = (Holder::Zone(loan.from as u16), Holder::Zone(loan.to as u16));
            moves.push(Move { from, to, goods: Goods::These(parts), terms: Terms::Lent });
        }
        moves
    }

    /// Returns the moves of what a zone that ends has borrowed of zones that run and have room for it.
    fn homecomings(&mut self, place: usize, change: &Change) -> Vec<Move> {
        let ends = change.aims.get(place).is_some_and(|aim| aim.course == Course::Ends);
        let debts = self.before.get(place).filter(|_| ends).map_or(Vec::new(), |known| known.borrowed.clone());
        let mut moves = Vec::new();
        for debt in debts {
            let Some(home) = self.home.get(debt.from) else { continue };
            let (Some(aim), Ok(slot)) = (change.aims.get(debt.from), self.zones.slot(debt.from)) else { continue };
            let is_ready =
                aim.course == Course::Stays && slot.state() == State::Running && self.alone.contains(&debt.from);
            let coming = (home.cores.len() as u64).saturating_add(debt.parts.cores.len() as u64);
            let described = slot.described();
            let cores_max = u64::from(described.zone.cores_max.max(described.zone.cores));
            if !is_ready || u64::from(aim.cores).saturating_add(coming) > cores_max {
                continue;
            }
            let goods = Goods::These(debt.parts.clone());
            let (from, to) = (Holder::Zone(place as u16), Holder::Zone(debt.from as u16));
            moves.push(Move { from, to, goods, terms: Terms::Kept });
            self.home.get_mut(debt.from).into_iter().for_each(|home| home.extend(debt.parts.clone()));
        }
        moves
    }

    /// Returns true if all parts of a zone go back before it takes new ones. One that is made again keeps its parts if the sizes fit.
    fn is_whole(&self, place: usize, aim: &Aim) -> bool {
        let Some(known) = self.before.get(place) else { return false };
        let fits = known.parts.cores.len() as u64 == u64::from(aim.cores)
            && known.parts.lot_count() == u64::from(aim.lots)
            && known.parts.devices == aim.devices;
        match aim.course {
            Course::Stays => false,
            Course::Ends => true,
            Course::Begins | Course::BeginsAgain => !known.parts.is_empty() && !fits,
        }
    }

    fn wish(&self, place: usize, aim: &Aim, whole: bool) -> Option<Wish> {
        let known = self.before.get(place)?;
        let is_new = match aim.course {
            Course::Ends => return None,
            Course::Stays => false,
            Course::Begins | Course::BeginsAgain => whole || known.parts.is_empty(),
        };
        if is_new {
            let (cores, lots, run) = (aim.cores, aim.lots, self.zones.run_lots(place));
            return Some(Wish { cores, lots, run, devices: aim.devices.clone(), ..Wish::default() });
        }
        let incoming = self.incoming.get(place)?;
        let has = |held: u64, coming: u64| u32::try_from(held.saturating_add(coming)).unwrap_or(u32::MAX);
        let cores = has(known.parts.cores.len() as u64, incoming.cores.len() as u64);
        let lots = has(known.parts.lot_count(), incoming.lot_count());
        let is_new = |device: &&gyre_machine::PciAddress| !known.parts.devices.contains(device);
        let wish = Wish {
            cores: aim.cores.saturating_sub(cores),
            lots: aim.lots.saturating_sub(lots),
            devices: aim.devices.iter().filter(is_new).copied().collect(),
            ..Wish::default()
        };
        (wish != Wish::default()).then_some(wish)
    }

    /// Offers a zone that runs on what it gets.
    async fn offer(&mut self, place: usize) -> Result<(), Refusal> {
        let incoming = self.incoming.get_mut(place).map(core::mem::take).unwrap_or_default();
        for part in incoming.single() {
            if let Err(NotTaken { failure, kept }) = self.zones.hand_over(place, &part).await {
                // The pool must say so.
                self.stuck.extend(kept);
                let kind = if part.cores.is_empty() { Part::Memory } else { Part::Core };
                let kind = if part.devices.is_empty() { kind } else { Part::Device };
                return Err(self.busy(place, kind, &failure));
            }
            self.steps.push(Step::Offered(place, part));
        }
        Ok(())
    }
}

impl Zones {
    /// Gives a zone one part that it holds in the pool. If it says that it does not take it, the part is out of its wall again. If it says
    /// nothing of use it may have taken the part: that stays its own then, as not every zone has a wall.
    pub(crate) async fn hand_over(&self, place: usize, part: &Parts) -> Result<(), NotTaken> {
        let lie = |fault: crate::instances::Fault| NotTaken::free(Failure::Lie(fault.0));
        for core in part.cores.iter().copied() {
            let begun_ns = now_ns();
            let slot = self.machine.add_core(place, core).map_err(lie)?;
            if let Err(failure) = self.offer(place, ToZone::CoreOffer { core, slot }, OFFER_MS).await {
                // It may have called the core all the same.
                let lost = self.stop_cores(place, &[core]).await;
                if !lost.is_empty() {
                    // It runs in the zone, and is the zone's.
                    return Err(NotTaken { failure, kept: part.clone() });
                }
                self.machine.remove_core(place, core).map_err(lie)?;
                return Err(NotTaken::free(failure));
            }
            log::info!("zone {} has taken core {core} after {} us", self.name_of(place), micros(begun_ns));
        }
        for lots in part.lots.iter().copied() {
            let begun_ns = now_ns();
            self.clear(place, &[lots]).await;
            self.machine.add_lots(place, lots).map_err(lie)?;
            if let Err(failure) = self.offer(place, ToZone::LotOffer { lots, left: 0 }, OFFER_MS).await {
                let answer = NotTaken::of(failure, part);
                if answer.kept.is_empty() {
                    self.machine.remove_lots(place, lots).map_err(lie)?;
                }
                return Err(answer);
            }
            log::info!("zone {} has taken {} lots after {} us", self.name_of(place), lots.count, micros(begun_ns));
        }
        for device in part.devices.iter().copied() {
            self.machine.add_device(place, device).map_err(lie)?;
            if let Err(failure) = self.offer(place, ToZone::DeviceOffer(device), OFFER_MS).await {
                let answer = NotTaken::of(failure, part);
                if answer.kept.is_empty() {
                    self.machine.remove_device(place, device).map_err(lie)?;
                }
                return Err(answer);
            }
        }
        Ok(())
    }
}
