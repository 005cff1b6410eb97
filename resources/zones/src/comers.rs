//! Zones that the machine was not started with: a change puts their descriptions into places, and takes them out again if it fails.
//!
//! A description comes from a caller with the right to make zones. It may still be wrong: nothing of it is used before it
//! is checked here. Its boot module is read by the zone's own kernel, behind whatever wall the zone has.
//!
//! A place belongs to one name as long as the machine runs, so that a bill never mixes two zones. A zone of that name can be described anew while
//! it does not run.

use crate::handler::Zones;
use crate::slot::{Described, Slot};
use crate::staged::Staged;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_contract::boot::Module;
use gyre_contract::bounds::CORES_MAX;
use gyre_contract::zones::{Command, LOT_BYTES, NAMES_TAKEN, PATIENCE_MS, Refusal, SHARES, State, Zone, is_name};

/// A place that got a description, and what it was before.
pub(crate) struct Entered {
    place: usize,
    described: Arc<Described>,
    state: State,
    share: u32,
}

impl Zones {
    /// Puts the described zones of a change into their places.
    ///
    /// # Errors
    /// The first [`Refusal`]: all places are as before.
    pub(crate) fn enter(&self, commands: &[Command]) -> Result<Vec<Entered>, Refusal> {
        let mut entered = Vec::new();
        for command in commands {
            let Command::Describe { place, zone, module } = command else { continue };
            match self.enter_one(usize::from(*place), zone, *module) {
                Ok(one) => entered.push(one),
                Err(refusal) => {
                    self.leave(entered);
                    return Err(refusal);
                }
            }
        }
        Ok(entered)
    }

    /// Makes places what they were, the last one first. No instance is in them.
    pub(crate) fn leave(&self, entered: Vec<Entered>) {
        for Entered { place, described, state, share } in entered.into_iter().rev() {
            let Some(slot) = self.slots.get(place) else { continue };
            self.machine.rename(place, &described.zone.name);
            self.set_share(place, share);
            slot.describe(described);
            slot.set_state(state);
        }
    }

    fn enter_one(&self, place: usize, zone: &Zone, module: u64) -> Result<Entered, Refusal> {
        let slot = self.slots.get(place).filter(|slot| slot.first.is_place);
        let slot = slot.ok_or_else(|| invalid(alloc::format!("there is no place {place} for a zone that comes")))?;
        self.check_name(place, &zone.name)?;
        let known = slot.known();
        if known.state != State::Vacant && slot.name() != zone.name {
            return Err(invalid(alloc::format!("the place is zone {}'s, and stays it", slot.name())));
        }
        if known.lives() || known.waits() {
            return Err(Refusal::State { zone: zone.name.clone(), state: known.state });
        }
        check(slot, zone).map_err(invalid)?;
        self.check_links(place, zone)?;
        let bytes = Staged::take(&mut self.staged.lock(), module);
        let bytes = bytes.ok_or_else(|| invalid("its boot module was not handed over whole".into()))?;
        check_module(&bytes).map_err(invalid)?;
        let zone = Zone { is_place: true, starts: false, ..zone.clone() };
        self.machine.rename(place, &zone.name);
        self.set_share(place, zone.share);
        let described = slot.describe(Arc::new(Described { zone, module: Some(bytes) }));
        slot.set_state(State::Absent);
        Ok(Entered { place, described, state: known.state, share: known.share })
    }

    /// Gives a zone a share; at once, so it is to be the last of what can fail.
    pub(crate) fn set_share(&self, place: usize, share: u32) {
        let Some(slot) = self.slots.get(place) else { return };
        if core::mem::replace(&mut slot.inner.lock().known.share, share) != share {
            self.machine.set_share(place, share);
        }
    }

    /// Names differ, also from those that places have for themselves.
    fn check_name(&self, place: usize, name: &str) -> Result<(), Refusal> {
        if !is_name(name) || NAMES_TAKEN.contains(&name) {
            return Err(invalid("this cannot be the name of a zone".into()));
        }
        let is_its = |(other, slot): (usize, &Slot)| other != place && (slot.first.name == name || slot.name() == name);
        match self.slots.iter().enumerate().any(is_its) {
            true => Err(invalid(alloc::format!("there is a zone {name} already"))),
            false => Ok(()),
        }
    }

    /// A zone is linked to instances to which its place has links; it names those with a higher number too.
    fn check_links(&self, place: usize, zone: &Zone) -> Result<(), Refusal> {
        let strange = zone.links.iter().find(|peer| !self.can_link(place, **peer));
        strange.map_or(Ok(()), |peer| Err(invalid(alloc::format!("the place has no link to instance {peer}"))))
    }
}

/// Checks what a description says of a zone in a place.
fn check(slot: &Slot, zone: &Zone) -> Result<(), String> {
    let place = slot.first;
    if let Some(other) = zone.devices.iter().find(|device| !place.devices.contains(device)) {
        return Err(alloc::format!("device {other} is not the place's"));
    }
    if let Some(other) = zone.disks.iter().find(|disk| !place.disks.contains(disk)) {
        return Err(alloc::format!("disk {other} of the supervisor is not the place's"));
    }
    let is_twice = |(at, device)| zone.devices.iter().skip(at).skip(1).any(|other: &_| other == device);
    let is_served_twice = |(at, disk)| zone.disks.iter().skip(at).skip(1).any(|other: &u16| other == disk);
    match () {
        () if zone.devices.iter().enumerate().any(is_twice) => Err("a device is named twice".into()),
        () if zone.cores == 0 || zone.cores_max < zone.cores || zone.cores_max > CORES_MAX => {
            Err(alloc::format!("cores are 1 to {CORES_MAX}, and no more than at most"))
        }
        () if zone.memory_bytes == 0 || !zone.memory_bytes.is_multiple_of(LOT_BYTES) => {
            Err(alloc::format!("memory comes in lots of {LOT_BYTES} bytes, not {}", zone.memory_bytes))
        }
        () if !SHARES.contains(&zone.share) => Err("a share is 1 to 1000000".into()),
        () if !PATIENCE_MS.contains(&zone.patience_ms) => Err("patience is 100 ms to 1 h".into()),
        () if zone.disks.iter().enumerate().any(is_served_twice) => Err("a disk is named twice".into()),
        () if !zone.lends_to.is_empty() => Err("a zone that comes lends to none".into()),
        () => Ok(()),
    }
}

fn check_module(bytes: &[u8]) -> Result<(), String> {
    let module = Module::decode(bytes).map_err(|error| alloc::format!("{error}"))?;
    match module.machine.zones.is_empty() && module.machine.cells_bytes == 0 {
        true => Ok(()),
        false => Err("its boot module is that of a supervisor, or of a machine with cells".into()),
    }
}

fn invalid(why: String) -> Refusal {
    Refusal::Invalid { why }
}
