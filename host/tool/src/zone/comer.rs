//! A zone that comes to a machine which was not started with it: its place, what it may have there, and what it is there. Nothing is done here.
//!
//! A file describes a zone as part of a machine of its own. In a place it has the place's addresses, card and disks; all else is as the file
//! says. A key that needs more than a place has is refused, so that nobody believes in a wall, a disk or a way out that is not there.
//!
//! * [`place`] finds the place, [`only`] the zone in its file, and [`put`] brings them together.
//! * Tenants have the first disks of the place, volumes those behind the disks of all tenants that it has room for: so each stays where it is if
//!   there are fewer of the others in another life.
//! * Left out: the instances to which it is linked ([`super::peers`]).

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
    /// The numbers of the place's disks that it has: those of its tenants, then those of their volumes.
    pub disks: Vec<usize>,
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
    fits(zone, part)?;
    let mut own = described.clone();
    (own.machine.zones, own.zones, own.tenants) = (vec![zone.clone()], vec![part.clone()], vec![]);
    own.machine.tenants.truncate(1);
    Ok(own)
}

/// Refuses what a zone cannot have that comes.
fn fits(zone: &Zone, part: &ZonePart) -> Result<()> {
    let key = match () {
        () if part.machine.link.way == Way::Supervisor => "network = \"supervisor\"",
        () if !part.devices.others.is_empty() => "devices",
        () if !zone.lends_to.is_empty() => "lends-to",
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

pub(super) fn lacks() -> Failure {
    Failure::new("the machine has no such place")
}

/// Returns the numbers of the place's disks that a zone has: those of its tenants, then those of their volumes.
///
/// # Errors
/// When the place has room for fewer, or its disks are somebody else's.
fn disks(zone: &Zone, part: &ZonePart, room: &ZonePart) -> Result<Vec<usize>> {
    let volumes: usize = part.tenants.iter().map(|tenant| tenant.volumes.len()).sum();
    let (wanted, has) = (part.tenants.len(), usize::from(room.machine.places));
    let kept = room.devices.tenants_disks().count().saturating_sub(has);
    let too_small = |what: &str, wanted: usize, has: usize| {
        let message = format!("zone `{}` has {wanted} {what}, and a place has room for {has}", zone.name);
        let help = format!("write a larger `spare-zone-{what} = N` at [supervisor] for the machine's next run");
        Err(Failure::with_help(message, help))
    };
    if wanted > has {
        return too_small("tenants", wanted, has);
    }
    if volumes > kept {
        return too_small("volumes", volumes, kept);
    }
    if part.devices.served.is_empty() != room.devices.served.is_empty() && wanted > 0 {
        let (own, there) = if room.devices.served.is_empty() { ("supervisor", "own") } else { ("own", "supervisor") };
        let message = format!("zone `{}` has `disks = \"{own}\"`, and those of its place are `\"{there}\"`", zone.name);
        let help = format!("write disks = \"{there}\" at the zone, or spare-zone-disks = \"{own}\" for the next run");
        return Err(Failure::with_help(message, help).kind(Kind::File));
    }
    let roots = part.devices.tenants_disks().count().saturating_sub(volumes);
    Ok((0..roots).chain(has..has.saturating_add(volumes)).collect())
}

/// Puts the zone of a description with one zone into a place of a machine, linked to these instances.
///
/// # Errors
/// When the place has room for fewer tenants or volumes.
pub fn put(own: &Description, started: &Description, place: usize, peers: &[u16]) -> Result<Comer> {
    let (zone, part) = own.machine.zones.first().zip(own.zones.first()).ok_or_else(lacks)?;
    let (at, room) = started.machine.zones.get(place).zip(started.zones.get(place)).ok_or_else(lacks)?;
    let numbers = disks(zone, part, room)?;
    let own_disks = numbers.iter().filter_map(|number| room.devices.disks.get(*number));
    let zone = Zone {
        devices: room.devices.card.iter().chain(own_disks).copied().collect(),
        disks: numbers.iter().filter_map(|number| at.disks.get(*number)).copied().collect(),
        links: peers.to_vec(),
        module: String::new(),
        starts: false,
        is_place: true,
        ..zone.clone()
    };
    let neighbours = room.machine.neighbours.iter().filter(|neighbour| peers.contains(&neighbour.number));
    let mut machine = Machine {
        link: room.machine.link.clone(),
        neighbours: neighbours.cloned().collect(),
        places: 0,
        ..part.machine.clone()
    };
    for (tenant, place) in machine.tenants.iter_mut().zip(&room.machine.tenants) {
        tenant.address = place.address;
    }
    Ok(Comer { zone, machine, disks: numbers })
}

#[cfg(test)]
#[path = "comer_tests.rs"]
mod tests;
