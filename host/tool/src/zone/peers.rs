//! The instances to which a zone that comes is linked: those of the place's links that its `links` name, or all. Nothing is done here.

use gyre_contract::zones::{State, View, Zones};
use gyre_machine_file::Description;

use super::comer::lacks;
use crate::{
    failure::{Failure, Kind, Result},
    instances::{self, Instances},
};

/// Finds the instances of a machine to which a zone in a place is linked, by their numbers: those that its `links` name, or all.
///
/// # Errors
/// The first name that is no instance's, or one whose other end does not want the link.
pub fn peers(own: &Description, target: &Onto, zones: &Zones) -> Result<Vec<u16>> {
    let room = target.started.zones.get(target.place).map_or(&[][..], |room| &room.machine.neighbours);
    let all = || room.iter().map(|neighbour| neighbour.number).collect();
    let (zone, part) = own.machine.zones.first().zip(own.zones.first()).ok_or_else(lacks)?;
    let Some(names) = &part.links else { return Ok(all()) };
    let peer = |name: &String| {
        let number = number_of(target, zones, &zone.name, name)?;
        let is_linked = room.iter().any(|neighbour| neighbour.number == number);
        if is_linked && target.instances.wants(name, &zone.name) {
            return Ok(number);
        }
        let message = format!("zone `{name}` does not name `{}` among its links", zone.name);
        let help = "a link has two ends: leave `links` out at both of them, or name each other";
        Err(Failure::with_help(message, help).kind(Kind::File))
    };
    names.iter().map(peer).collect()
}

/// Returns the number of the instance of a machine with this name: 0 is the supervisor.
fn number_of(target: &Onto, zones: &Zones, own: &str, name: &str) -> Result<u16> {
    if name == instances::SUPERVISOR {
        return Ok(0);
    }
    let is_there = |(place, view): &(usize, &View)| *place != target.place && view.state != State::Vacant;
    let there: Vec<_> = zones.zones.iter().enumerate().filter(is_there).collect();
    let place = there.iter().find(|(_, view)| view.name == *name).map(|(place, _)| *place);
    place.and_then(|place| u16::try_from(place.saturating_add(1)).ok()).ok_or_else(|| {
        let names: Vec<&str> = there.iter().map(|(_, view)| view.name.as_str()).collect();
        let what = format!("zone that `{own}` could be linked to like");
        instances::unknown(&what, name, &names).kind(Kind::File)
    })
}

/// The place of a machine that a zone comes to.
pub struct Onto<'a> {
    /// The machine as it was started.
    pub started: &'a Description,
    /// The instances that it has now.
    pub instances: &'a Instances,
    /// The place's number.
    pub place: usize,
}
