//! A zone's own wish (R8): parts go from it or come to it, or a zone that it manages is ended, made again, or managed by another one.
//!
//! A wish is a change as the owner's are, with the zone as its orderer: read as commands, checked for its rights ([`rights`]), registered in
//! the pool before the receiver has the parts, undone if it does not take them, and in the log. Zones are asked for their parts as for any
//! change; the one that wishes pays for the work.
//!
//! | the wish | commands |
//! |---|---|
//! | `Give`, to a zone that runs | `Lend` |
//! | `Give`, to one that does not | `Create` with these sizes, `Lend` of as much, `Adopt`: the zone is its parent |
//! | `Borrow` | `Lend` of the other zone's |
//! | `Return` | `Lend` of as many as it owes at most |
//! | `Destroy`, `Restart` | the same, with [`GRACE_MS`] |
//! | `Release` | `Adopt` by whoever manages the zone |
//!
//! A zone that another one makes begins with no more than was given, and with the devices of its own description. One wish of a zone is open
//! at a time; more are refused at once.
//!
//! The zones are looked at before the change begins; if their state or a right changes until then, the change is refused and says so.

use crate::handler::Zones;
use crate::rights;
use crate::slot::Presence;
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use gyre_contract::zones::{Command, LOT_BYTES, Part, Refusal, WishDeed, Zone};
use gyre_interface::zone_messages::{Keeper, ToZone};
use gyre_interface::zones::By;
use gyre_message::spawn_on;

/// How long the zone has to give its parts, ms.
const DEADLINE_MS: u32 = 2_000;
/// How long a zone has to end in order at the order of another one, ms.
const GRACE_MS: u32 = 3_000;

/// A zone's wish in its own words: none of them is believed.
#[derive(Clone, Debug)]
pub(crate) struct Wished {
    pub(crate) to: String,
    pub(crate) deed: WishDeed,
    pub(crate) cores: u32,
    pub(crate) lots: u32,
}

/// The instance that is told what became of its wish.
#[derive(Clone, Copy)]
struct Asker {
    place: usize,
    created: u32,
    token: u32,
}

impl Zones {
    /// Begins the change that a zone wishes, as work of its own: the zone's watch goes on to take the answers that it needs.
    pub(crate) fn wished(&'static self, place: usize, token: u32, wished: &Wished) {
        let Some(slot) = self.slots.get(place) else { return };
        let begins = {
            let mut inner = slot.inner.lock();
            let is_free = !inner.is_wishing;
            inner.is_wishing = true;
            is_free.then_some(Asker { place, created: inner.created, token })
        };
        let Some(asker) = begins else {
            let answer = ToZone::WishRefused(Keeper::new("another wish is open"));
            let _ = self.machine.send(place, &answer.encode(token));
            return;
        };
        let commands = self.commands(place, wished).and_then(|commands| {
            // A zone without a right to it does not wait in the line of changes.
            self.has_right(place, &commands).map(|()| commands)
        });
        let work = move || -> gyre_message::runtime::LocalTask { Box::pin(self.grant(asker, commands)) };
        spawn_on(gyre_machine::core_index(), slot.activity, Box::new(work));
    }

    /// Carries a wish out, and tells the instance that had it.
    async fn grant(&'static self, asker: Asker, commands: Result<Vec<Command>, Refusal>) {
        let by = By::Zone(u16::try_from(asker.place).unwrap_or(u16::MAX));
        let done = match commands {
            Ok(commands) => self.change(&commands, by).await,
            Err(refusal) => Err(refusal),
        };
        let answer = match done {
            Ok(()) => ToZone::WishDone,
            Err(refusal) => {
                log::warn!("a wish of zone {} was refused: {refusal:?}", self.name_of(asker.place));
                ToZone::WishRefused(Keeper::new(&words(&refusal)))
            }
        };
        let Some(slot) = self.slots.get(asker.place) else { return };
        let is_same = {
            let mut inner = slot.inner.lock();
            inner.is_wishing = false;
            inner.presence == Presence::There && inner.created == asker.created
        };
        if is_same {
            // A zone with a full ring does not hear it; it has a deadline.
            let _ = self.machine.send(asker.place, &answer.encode(asker.token));
        }
    }

    fn has_right(&self, place: usize, commands: &[Command]) -> Result<(), Refusal> {
        let known: Vec<_> = self.slots.iter().map(|slot| slot.known()).collect();
        let described: Vec<_> = self.slots.iter().map(|slot| slot.described()).collect();
        let zones: Vec<&Zone> = described.iter().map(|one| &one.zone).collect();
        rights::check(&zones, &known, place, commands)
    }

    /// Reads a wish as commands.
    fn commands(&self, place: usize, wished: &Wished) -> Result<Vec<Command>, Refusal> {
        let zone = wished.to.clone();
        match wished.deed {
            WishDeed::Give | WishDeed::Borrow | WishDeed::Return => self.loan(place, wished),
            WishDeed::Destroy => Ok(alloc::vec![Command::Destroy { zone, grace_ms: GRACE_MS }]),
            WishDeed::Restart => Ok(alloc::vec![Command::Restart { zone, grace_ms: GRACE_MS }]),
            WishDeed::Release => {
                let above = self.slots.get(place).and_then(|slot| slot.known().parent);
                Ok(alloc::vec![Command::Adopt { child: zone, parent: above.map(|above| self.name_of(above)) }])
            }
        }
    }

    /// Checks that a zone which gives may create, and that one which pays back owes as much.
    fn has_reason(&self, place: usize, there: usize, wished: &Wished) -> Result<(), Refusal> {
        let slot = self.slot(place)?;
        let memory_bytes = u64::from(wished.lots).saturating_mul(LOT_BYTES);
        let why = match wished.deed {
            WishDeed::Give if !slot.described().zone.may_create => "its description lacks may-create",
            WishDeed::Return if !slot.known().owes(there, wished.cores, memory_bytes) => {
                "it has not borrowed as much there"
            }
            _ => return Ok(()),
        };
        Err(Refusal::Invalid { why: why.into() })
    }

    /// Reads a wish for parts as commands.
    fn loan(&self, place: usize, wished: &Wished) -> Result<Vec<Command>, Refusal> {
        let (own, other) = (self.name_of(place), wished.to.clone());
        let there = self.slots.iter().position(|slot| slot.described().zone.name == other);
        let unknown = || Refusal::Unknown { zone: other.clone() };
        let there = there.ok_or_else(unknown)?;
        let receiver = self.slot(there)?;
        let (from, to) = if wished.deed == WishDeed::Borrow { (other, own) } else { (own, other) };
        let cores = u16::try_from(wished.cores).unwrap_or(u16::MAX);
        let memory_bytes = u64::from(wished.lots).saturating_mul(LOT_BYTES);
        if cores == 0 && memory_bytes == 0 {
            return Err(Refusal::Invalid { why: "nothing is given".into() });
        }
        self.has_reason(place, there, wished)?;
        let lend = Command::Lend { from: from.clone(), to: to.clone(), cores, memory_bytes, deadline_ms: DEADLINE_MS };
        if receiver.known().lives() || wished.deed != WishDeed::Give {
            return Ok(alloc::vec![lend]);
        }
        let create = Command::Create { zone: to.clone(), cores: Some(cores), memory_bytes: Some(memory_bytes) };
        Ok(alloc::vec![create, lend, Command::Adopt { child: to, parent: Some(from) }])
    }
}

/// Returns a refusal in few words: a message has room for 48 characters.
fn words(refusal: &Refusal) -> String {
    let kind = |part: &Part| match part {
        Part::Core => "core",
        Part::Memory => "memory",
        Part::Device => "device",
    };
    match refusal {
        Refusal::Unknown { .. } => "there is no such zone".into(),
        Refusal::State { zone, .. } => alloc::format!("not in the state of {zone}"),
        Refusal::Lacking { part, .. } => alloc::format!("there is not enough {}", kind(part)),
        Refusal::Busy { part, holder, .. } => alloc::format!("{} kept by {holder}", kind(part)),
        Refusal::Invalid { why } | Refusal::Machine { why } => why.to_string(),
    }
}
