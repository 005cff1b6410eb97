//! The network links between the instances of a machine: which there are, and whose addresses lie behind each.
//!
//! A zone without the key `links` is linked to the supervisor and to all zones that do not name others. One with it is linked to those that
//! it names, and to no other.

use super::{
    super::{
        Problem, ZonePart,
        check::Checker,
        raw::{self, At},
        suggest,
    },
    Split,
};
use gyre_contract::{
    boot::{Machine, Way},
    zones::{LOT_BYTES, Neighbour, Zone},
};

const SUPERVISOR: &str = "supervisor";

/// Two instances by their numbers, the lower one first: 0 is the supervisor, a zone's is one more than its place.
type Pair = [usize; 2];

/// Returns the pairs of instances that are linked.
pub(super) fn pairs(file: &raw::File) -> Vec<Pair> {
    let zones = 1..=file.zone.len();
    let all = zones.flat_map(|high| (0..high).map(move |low| [low, high]));
    all.filter(|[low, high]| wants(file, *low, *high) && wants(file, *high, *low)).collect()
}

/// Memory of all links: a lot for each.
pub(super) fn bytes(file: &raw::File) -> u64 {
    (pairs(file).len() as u64).saturating_mul(LOT_BYTES)
}

/// Returns whether an instance would be linked to another one if that wants it too.
fn wants(file: &raw::File, own: usize, other: usize) -> bool {
    let Some(links) = zone(file, own).and_then(|zone| zone.links.as_ref()) else { return true };
    links.iter().any(|name| name.get_ref() == name_of(file, other))
}

fn zone(file: &raw::File, number: usize) -> Option<&raw::Zone> {
    file.zone.get(number.checked_sub(1)?)
}

fn name_of(file: &raw::File, number: usize) -> &str {
    zone(file, number).map_or(SUPERVISOR, |zone| zone.name.get_ref())
}

/// Returns the names that a zone's `links` has.
pub(crate) fn named(zone: &raw::Zone) -> Option<Vec<String>> {
    zone.links.as_ref().map(|links| links.iter().map(|name| name.get_ref().clone()).collect())
}

/// Reports names that are no other instance, and links that the other end does not want.
pub(super) fn check(checker: &mut Checker, file: &raw::File) {
    for (place, zone) in file.zone.iter().enumerate() {
        for name in zone.links.iter().flatten() {
            check_one(checker, file, place.saturating_add(1), name);
        }
    }
}

fn check_one(checker: &mut Checker, file: &raw::File, own: usize, name: &At<String>) {
    let others = || (0..=file.zone.len()).filter(|number| *number != own);
    let Some(peer) = others().find(|number| name_of(file, *number) == name.get_ref()) else {
        let message = format!("zone `{}` cannot be linked to `{}`", name_of(file, own), name.get_ref());
        let help = suggest::help(name.get_ref(), others().map(|number| name_of(file, number)));
        checker.wrong(Problem::new(name.span(), message, "no other zone, and not the supervisor").help(help));
        return;
    };
    if !wants(file, peer, own) {
        let (own, peer) = (name_of(file, own), name_of(file, peer));
        let message = format!("zone `{peer}` does not name `{own}` among its links");
        let help = format!("a link has two ends: name `{own}` there, or leave `links` out there");
        checker.wrong(Problem::new(name.span(), message, "a link of one end").help(help));
    }
}

impl Split {
    /// Tells each instance of its neighbours, and the supervisor of all links.
    pub(crate) fn link(file: &raw::File, first: &mut Machine, zones: &mut [ZonePart], described: &mut [Zone]) {
        let machines = std::iter::once(&*first).chain(zones.iter().map(|zone| &zone.machine));
        let all: Vec<Neighbour> = machines.enumerate().map(|(number, machine)| neighbour(number, machine)).collect();
        let neighbour = |number: usize| all.get(number).cloned().unwrap_or_default();
        let mut tell = |own: usize, other: usize| match own.checked_sub(1) {
            None => first.neighbours.push(neighbour(other)),
            Some(place) => {
                zones.iter_mut().skip(place).take(1).for_each(|zone| zone.machine.neighbours.push(neighbour(other)));
            }
        };
        for [low, high] in pairs(file) {
            tell(low, high);
            tell(high, low);
            let own = described.iter_mut().skip(high.saturating_sub(1)).take(1);
            own.for_each(|zone| zone.links.push(small(low)));
        }
    }
}

fn neighbour(number: usize, machine: &Machine) -> Neighbour {
    Neighbour {
        number: small(number),
        addresses: machine.tenants.iter().map(|tenant| tenant.address).collect(),
        tenants: machine.tenants.iter().map(|tenant| tenant.name.clone()).collect(),
        guest: (machine.link.way == Way::Supervisor).then_some(machine.link.mac),
    }
}

fn small(number: usize) -> u16 {
    u16::try_from(number).unwrap_or(u16::MAX)
}
