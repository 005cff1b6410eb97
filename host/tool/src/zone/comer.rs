//! A zone that comes to a machine which was not started with it: its place, what it may have there, and what it is there. Nothing is done here.
//!
//! A file describes a zone as part of a machine of its own. In a place it has the place's addresses, card, disks and links; all else is as the
//! file says. A key that needs more than a place has is refused, so that nobody believes in a wall, a disk or a way out that is not there.

use gyre_contract::{
    boot::{Machine, Neighbours, Way},
    zones::{State, View, Zone, Zones},
};
use gyre_machine_file::{Description, HostTenant, ZonePart};

use crate::{
    failure::{Failure, Kind, Result},
    instances::{self, Instances},
};

/// A zone in its place.
#[derive(Debug)]
pub struct Comer {
    /// As the supervisor has it.
    pub zone: Zone,
    /// The machine for its kernel.
    pub machine: Machine,
}

/// Returns whether a zone runs, or holds parts with which it is made again.
pub fn is_there(view: &View) -> bool {
    matches!(view.state, State::Booting | State::Running | State::Ending) || !view.holds.cores.is_empty()
}

/// Returns the place for a zone, by its number: the one that it has had, or the first that is vacant.
///
/// # Errors
/// When it runs, the machine was started with it, or there is no place.
pub fn place(started: &Description, zones: &Zones, name: &str) -> Result<usize> {
    let places = || {
        let all = started.machine.zones.iter().zip(&zones.zones).enumerate();
        all.filter(|(_, (zone, _))| zone.is_place).map(|(number, (_, view))| (number, view))
    };
    if let Some(view) = zones.zones.iter().find(|view| view.name == name) {
        let own = places().find(|(_, view)| view.name == name && view.state != State::Vacant);
        return match own {
            Some((number, view)) if !is_there(view) => Ok(number),
            Some(_) => {
                let help = format!("end it first: gyre zone destroy {name}");
                Err(Failure::with_help(format!("zone `{name}` is {}", super::words::state(&view.state)), help))
            }
            None => {
                let help = format!(
                    "gyre zone create {name} makes it as that file describes it; another one needs another name"
                );
                Err(Failure::with_help(
                    format!("the machine was started with a zone `{name}`, or a place of this name"),
                    help,
                ))
            }
        };
    }
    let vacant = places().find(|(_, view)| view.state == State::Vacant).map(|(number, _)| number);
    vacant.ok_or_else(|| no_place(&places().map(|(_, view)| view.name.as_str()).collect::<Vec<_>>()))
}

fn no_place(taken: &[&str]) -> Failure {
    let help =
        "write a larger `spare-zones = N` at [supervisor] in its machine file: places are there from the next run on";
    let message = match taken {
        [] => "the machine keeps no places for zones that come".into(),
        _ => format!("all places for zones that come are taken, until the machine ends: {}", taken.join(", ")),
    };
    Failure::with_help(message, help)
}

/// Says that more zones would come than there are places for.
pub fn too_few(wanted: usize, vacant: usize) -> Failure {
    let message = format!("{wanted} zones would come, and {vacant} places are vacant");
    Failure::with_help(message, "write a larger `spare-zones = N` at [supervisor] for the machine's next run")
}

/// Returns a description of one zone of a file and of nothing else.
///
/// # Errors
/// When the file has no such zone, or the zone has a key that no place has.
pub fn only(described: &Description, name: &str) -> Result<Description> {
    let at = described.machine.zones.iter().position(|zone| zone.name == name && !zone.is_place);
    let found = at.and_then(|at| described.machine.zones.get(at).zip(described.zones.get(at)));
    let Some((zone, part)) = found else {
        let names: Vec<&str> =
            described.machine.zones.iter().filter(|zone| !zone.is_place).map(|zone| zone.name.as_str()).collect();
        let file = described.path.display();
        return Err(instances::unknown(&format!("zone in {file} like"), name, &names).kind(Kind::File));
    };
    let others = described.zones.len();
    fits(zone, part, others)?;
    let mut own = described.clone();
    (own.machine.zones, own.zones, own.tenants) = (vec![zone.clone()], vec![part.clone()], vec![]);
    own.machine.tenants.truncate(1);
    Ok(own)
}

/// Refuses what a zone cannot have that comes; it is linked to all in its place, so to `others` instances of the file.
fn fits(zone: &Zone, part: &ZonePart, others: usize) -> Result<()> {
    let key = match () {
        () if part.machine.link.way == Way::Supervisor => "network = \"supervisor\"",
        () if !part.devices.served.is_empty() => "disks = \"supervisor\"",
        () if !part.devices.others.is_empty() => "devices",
        () if !zone.lends_to.is_empty() => "lends-to",
        () if part.machine.neighbours.len() != others => "links",
        () => {
            return part
                .machine
                .tenants
                .iter()
                .skip(1)
                .zip(&part.tenants)
                .try_for_each(|(tenant, host)| fits_tenant(&tenant.neighbours, host));
        }
    };
    let message = format!("zone `{}` cannot come with `{key}` while the machine runs", zone.name);
    Err(Failure::with_help(message, ADVICE).kind(Kind::File))
}

const ADVICE: &str = "take it out, or put the zone into the machine's file for its next run";

fn fits_tenant(neighbours: &Neighbours, host: &HostTenant) -> Result<()> {
    let key = match () {
        () if !host.volumes.is_empty() => "volume",
        () if host.load.is_some() => "load",
        () if host.outbound.is_some() => "outbound",
        () if !host.talks_to.is_empty() => "talks-to",
        () if *neighbours != Neighbours::All => "neighbours",
        () => return Ok(()),
    };
    let message = format!("tenant `{}` cannot come with `{key}` while the machine runs", host.name);
    Err(Failure::with_help(message, ADVICE).kind(Kind::File))
}

/// Refuses tenants whose names others have: their disks and ports have those names. Those of the zone itself, from its life before, are no others.
///
/// # Errors
/// The first such name.
pub fn names_differ(instances: &Instances, place: &str, tenants: &[HostTenant]) -> Result<()> {
    let others = instances.all.iter().filter(|instance| instance.place.as_deref() != Some(place));
    let taken: Vec<&String> = others.flat_map(|instance| &instance.tenants).map(|(name, _)| name).collect();
    match tenants.iter().find(|host| taken.contains(&&host.name)) {
        None => Ok(()),
        Some(host) => {
            let message = format!("there is a tenant `{}` already", host.name);
            Err(Failure::with_help(message, "its disk and its ports have this name: take another one").kind(Kind::File))
        }
    }
}

/// Puts the zone of a description with one zone into a place of a machine.
///
/// # Errors
/// When the place has room for fewer tenants.
pub fn put(own: &Description, started: &Description, place: usize) -> Result<Comer> {
    let lacks = || Failure::new("the machine has no such place");
    let (zone, part) = own.machine.zones.first().zip(own.zones.first()).ok_or_else(lacks)?;
    let (at, room) = started.machine.zones.get(place).zip(started.zones.get(place)).ok_or_else(lacks)?;
    let (wanted, has) = (part.tenants.len(), usize::from(room.machine.places));
    if wanted > has || part.devices.disks.len() > room.devices.disks.len() {
        let message = format!("zone `{}` has {wanted} tenants, and a place has room for {has}", zone.name);
        let help = "write a larger `spare-zone-tenants = N` at [supervisor] for the machine's next run";
        return Err(Failure::with_help(message, help));
    }
    let disks = room.devices.disks.iter().take(part.devices.disks.len());
    let devices = room.devices.card.iter().chain(disks).copied().collect();
    let zone =
        Zone { devices, links: at.links.clone(), module: String::new(), starts: false, is_place: true, ..zone.clone() };
    let mut machine = Machine {
        link: room.machine.link.clone(),
        neighbours: room.machine.neighbours.clone(),
        places: 0,
        ..part.machine.clone()
    };
    for (tenant, place) in machine.tenants.iter_mut().zip(&room.machine.tenants) {
        tenant.address = place.address;
    }
    Ok(Comer { zone, machine })
}

#[cfg(test)]
#[path = "comer_tests.rs"]
mod tests;
