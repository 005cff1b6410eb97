//! The zones as their owner sees them, and the records of the log.
//!
//! * [`Zones::all`]: a view of each zone, with its lease as the pool knows it and its own figures as it says them.
//! * [`Zones::record_change`]: one record for each adjustment of a change that was done, or one for its refusal.
//! * [`Zones::refusal`]: an error of the pool in the contract's words; "busy" says who holds what.
//!
//! The lease is what counts: a zone's own word is shown beside it and never added to anything.
//!
//! The handlers of the zones resource call this, for the owner's list and after each change. A record has the time
//! at which the change began, its cause and its result; a refusal has no parts.

use crate::handler::{Zones, now_ns, ns};
use crate::plan::{Change, Course, contract};
use crate::slot::{Debt, Known};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use gyre_contract::last_words::LastWords;
use gyre_contract::zones::{
    Answer, Borrowed, Command, Deed, Holding, LOT_BYTES, Orderer, Own, Part as Kind, Record, Refusal, View,
    Zones as AllZones,
};
use gyre_interface::leases::{Held, Holder, Kind as Lacking, LeaseError, Part, Parts};
use gyre_interface::zones::{By, ZonesError};

/// One adjustment: who got which parts of whom.
pub(crate) struct Adjustment {
    pub(crate) deed: Deed,
    pub(crate) parts: Parts,
    pub(crate) from: String,
    pub(crate) to: String,
}

impl Zones {
    /// Returns all zones at this time.
    pub(crate) async fn all(&self) -> Result<AllZones, ZonesError> {
        let holders = self.leases.holders().await.map_err(|_| ZonesError::Gone)?;
        let find = |holder: Holder| holders.iter().find(|one| one.holder == holder);
        let held = |place: usize| find(Holder::Zone(place as u16)).map(|one| one.held).unwrap_or_default();
        let mut supervisor = self.supervisor.clone();
        if let Some(kept) = find(Holder::Supervisor) {
            let kept = holding(&kept.parts);
            supervisor.cores.extend(kept.cores);
            supervisor.memory_bytes = supervisor.memory_bytes.saturating_add(kept.memory_bytes);
            supervisor.devices.extend(kept.devices);
        }
        let views = (0..self.slots.len()).filter_map(|place| self.view_of(place, held(place)));
        Ok(AllZones {
            supervisor,
            free: find(Holder::Free).map(|one| holding(&one.parts)).unwrap_or_default(),
            zones: views.collect(),
            changes: self.journal.lock().count(),
        })
    }

    fn view_of(&self, place: usize, held: Held) -> Option<View> {
        let slot = self.slots.get(place)?;
        let described = slot.described();
        let zone = &described.zone;
        let inner = slot.inner.lock();
        let lives = inner.known.lives();
        let own = |figures: gyre_interface::zone_messages::Figures| Own {
            elapsed_cycles: figures.elapsed_cycles,
            handling_cycles: figures.handling_cycles,
            overhead_cycles: figures.overhead_cycles,
            idle_cycles: figures.idle_cycles,
            used_bytes: figures.used_bytes,
            free_bytes: figures.free_bytes,
            lease_cycles: small(inner.lease_said),
        };
        Some(View {
            name: zone.name.clone(),
            state: inner.known.state.clone(),
            holds: holding(&inner.known.parts),
            protection: zone.protection,
            restart: zone.restart,
            parent: inner.known.parent.map(|parent| self.name_of(parent)),
            created: inner.created,
            crashed: inner.crashed,
            start_ns: inner.start_ns,
            uptime_ns: if lives { now_ns().saturating_sub(inner.begun_ns) } else { 0 },
            printed_bytes: inner.tail.end(),
            last_words: inner.last_words.words.clone(),
            core_cycles: small(held.core_cycles),
            memory_byte_ms: byte_ms(&held),
            messages: inner.messages,
            own: inner.own.map(own),
            borrowed: inner.known.borrowed.iter().map(|debt| self.borrowed(debt)).collect(),
            instance_cycles: small(held.core_cycles.saturating_sub(inner.lease_begun)),
            share: inner.known.share,
        })
    }

    fn borrowed(&self, debt: &Debt) -> Borrowed {
        let Holding { cores, memory_bytes, .. } = holding(&debt.parts);
        Borrowed { from: self.name_of(debt.from), cores: u32::try_from(cores.len()).unwrap_or(u32::MAX), memory_bytes }
    }

    /// Writes an adjustment into the log.
    pub(crate) fn record(&self, adjustment: Adjustment, by: By, begun_ns: u64, result: Answer) {
        self.record_with(None, adjustment, by, begun_ns, result);
    }

    /// Writes into the log that a zone ended by itself; if it crashed, with its last words.
    pub(crate) fn record_end(&self, place: usize, end: Adjustment, begun_ns: u64, result: Answer) {
        let slot = self.slots.get(place).filter(|_| end.deed == Deed::Crash);
        let words = slot.map(|slot| slot.inner.lock().last_words.clone());
        self.record_with(words, end, By::Supervisor, begun_ns, result);
    }

    fn record_with(&self, words: Option<LastWords>, adjustment: Adjustment, by: By, begun_ns: u64, result: Answer) {
        let now = now_ns();
        let held = holding(&adjustment.parts);
        self.journal.lock().add(Record {
            number: 0,
            at_ns: now.saturating_sub(self.begun_ns),
            deed: adjustment.deed,
            cores: held.cores,
            memory_bytes: held.memory_bytes,
            devices: held.devices,
            from: adjustment.from,
            to: adjustment.to,
            by: self.name_of_orderer(by),
            took_ns: now.saturating_sub(begun_ns),
            result,
            last_words: words,
        });
    }

    /// Writes a change into the log: what moved, or one record of the refusal.
    pub(crate) fn record_change(
        &self,
        before: &[Known],
        change: &Change,
        commands: &[Command],
        by: By,
        begun_ns: u64,
        result: &Answer,
    ) {
        if let Err(refusal) = result {
            let refused = commands.first().map(refused);
            refused.into_iter().for_each(|one| self.record(one, by, begun_ns, Err(refusal.clone())));
            return;
        }
        let adjustments = change.aims.iter().zip(before).enumerate().flat_map(|(place, (aim, before))| {
            let after = self.slots.get(place).map(|slot| slot.known()).unwrap_or_else(|| before.clone());
            self.adjustments(place, change, aim.course, before, &after)
        });
        for adjustment in adjustments.collect::<Vec<_>>() {
            self.record(adjustment, by, begun_ns, Ok(()));
        }
    }

    /// Returns what happened to a zone in a change.
    fn adjustments(
        &self,
        place: usize,
        change: &Change,
        course: Course,
        before: &Known,
        after: &Known,
    ) -> Vec<Adjustment> {
        let (name, free) = (self.name_of(place), || "free".to_string());
        let made =
            |parts: &Parts| Adjustment { deed: Deed::Create, parts: parts.clone(), from: free(), to: name.clone() };
        let ended =
            |parts: &Parts| Adjustment { deed: Deed::Destroy, parts: parts.clone(), from: name.clone(), to: free() };
        let mut all = match course {
            Course::Begins => alloc::vec![made(&after.parts)],
            Course::Ends => alloc::vec![ended(&before.parts)],
            Course::BeginsAgain => alloc::vec![ended(&before.parts), made(&after.parts)],
            Course::Stays => self.moved(place, change, before, after),
        };
        if before.parent != after.parent {
            let of =
                |parent: Option<usize>| parent.map_or_else(|| "supervisor".to_string(), |place| self.name_of(place));
            let (from, to) = (of(before.parent), of(after.parent));
            all.push(Adjustment { deed: Deed::Adopt, parts: Parts::default(), from, to });
        }
        if before.share != after.share {
            let to = alloc::format!("share {}", after.share);
            all.push(Adjustment { deed: Deed::Share, parts: Parts::default(), from: self.name_of(place), to });
        }
        all
    }

    fn moved(&self, place: usize, change: &Change, before: &Known, after: &Known) -> Vec<Adjustment> {
        let (mut came, mut went) = (after.parts.without(&before.parts), before.parts.without(&after.parts));
        let mut all = Vec::new();
        for loan in change.loans.iter().filter(|loan| loan.to == place) {
            let parts = came.take_some(loan.cores, loan.lots);
            all.push(Adjustment { deed: Deed::Lend, parts, from: self.name_of(loan.from), to: self.name_of(place) });
        }
        for loan in change.loans.iter().filter(|loan| loan.from == place) {
            // The borrower's record has them.
            went.take_some(loan.cores, loan.lots);
        }
        let (name, free) = (self.name_of(place), "free".to_string());
        if !came.is_empty() {
            all.push(Adjustment { deed: Deed::Give, parts: came, from: free.clone(), to: name.clone() });
        }
        if !went.is_empty() {
            all.push(Adjustment { deed: Deed::Take, parts: went, from: name, to: free });
        }
        all
    }

    fn name_of_orderer(&self, by: By) -> String {
        match by {
            By::Owner => Orderer::Owner.name().into(),
            By::Controller => Orderer::Controller.name().into(),
            By::Supervisor => "supervisor".into(),
            By::Zone(place) => self.name_of(usize::from(place)),
        }
    }

    /// Returns the contract's words for an error of the pool.
    pub(crate) fn refusal(&self, error: &LeaseError) -> Refusal {
        let bytes = |lots: u64| lots.saturating_mul(LOT_BYTES);
        match error {
            LeaseError::Lacking { kind: Lacking::Core, wanted, free } => {
                Refusal::Lacking { part: Kind::Core, wanted: *wanted, free: *free }
            }
            LeaseError::Lacking { kind: Lacking::Lot, wanted, free } => {
                Refusal::Lacking { part: Kind::Memory, wanted: bytes(*wanted), free: bytes(*free) }
            }
            LeaseError::Scattered { run, longest } => {
                Refusal::Lacking { part: Kind::Memory, wanted: bytes(*run), free: bytes(*longest) }
            }
            LeaseError::Busy { part, holder } => {
                let (part, why) = match part {
                    Part::Core(id) => (Kind::Core, alloc::format!("it holds core {id}")),
                    Part::Lot(number) => (Kind::Memory, alloc::format!("it holds the memory at {:#x}", bytes(*number))),
                    Part::Device(address) => (Kind::Device, alloc::format!("it holds device {address}")),
                };
                Refusal::Busy { part, holder: self.name_of_holder(*holder), why }
            }
            LeaseError::Unknown { part: Part::Device(address) } => {
                Refusal::Invalid { why: alloc::format!("there is no device {address} that zones can have") }
            }
            LeaseError::Unknown { .. } | LeaseError::NoHolder | LeaseError::Gone => {
                Refusal::Machine { why: "the pool does not know these parts".into() }
            }
        }
    }

    pub(crate) fn name_of_holder(&self, holder: Holder) -> String {
        match holder {
            Holder::Free => "free".into(),
            Holder::Supervisor => "supervisor".into(),
            Holder::Zone(place) => self.name_of(usize::from(place)),
            Holder::Cell(number) => alloc::format!("cell {number}"),
        }
    }
}

/// Returns the record of a command that was refused.
fn refused(command: &Command) -> Adjustment {
    let supervisor = || "supervisor".to_string();
    let (deed, from, to) = match command {
        Command::Describe { zone, .. } => (Deed::Create, "free".into(), zone.name.clone()),
        Command::Create { zone, .. } => (Deed::Create, "free".into(), zone.clone()),
        Command::Destroy { zone, .. } | Command::Restart { zone, .. } => (Deed::Destroy, zone.clone(), "free".into()),
        Command::Set { zone, share: Some(share), cores: None, memory_bytes: None, .. } => {
            (Deed::Share, zone.clone(), alloc::format!("share {share}"))
        }
        Command::Set { zone, .. } | Command::Attach { zone, .. } => (Deed::Give, "free".into(), zone.clone()),
        Command::Detach { zone, .. } => (Deed::Take, zone.clone(), "free".into()),
        Command::Lend { from, to, .. } => (Deed::Lend, from.clone(), to.clone()),
        Command::Adopt { child, parent } => (Deed::Adopt, child.clone(), parent.clone().unwrap_or_else(supervisor)),
    };
    Adjustment { deed, parts: Parts::default(), from, to }
}

/// Returns parts in the contract's words.
fn holding(parts: &Parts) -> Holding {
    Holding {
        cores: parts.cores.clone(),
        memory_bytes: parts.lot_count().saturating_mul(LOT_BYTES),
        devices: parts.devices.iter().copied().map(contract).collect(),
    }
}

fn small(cycles: u128) -> u64 {
    u64::try_from(cycles).unwrap_or(u64::MAX)
}

/// Returns the memory of a lease times its time, in byte-milliseconds.
fn byte_ms(held: &Held) -> u64 {
    let byte_cycles = held.lot_cycles.saturating_mul(u128::from(LOT_BYTES));
    small(byte_cycles.checked_div(u128::from(gyre_machine::cycles_per_ms())).unwrap_or(0))
}

/// Returns when an instance says it stood, in ns, if that can be; else now.
pub(crate) fn stood_ns(stood_cycle: u64, begun_ns: u64) -> u64 {
    let now = now_ns();
    Some(ns(stood_cycle)).filter(|stood| (begun_ns..=now).contains(stood)).unwrap_or(now)
}
