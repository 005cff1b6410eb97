//! Devices that the supervisor has and serves to zones without their own: `disks = "supervisor"` and `network = "supervisor"` at a zone.
//!
//! A kernel numbers the machine's disks in the order of their places, so the supervisor's numbers follow from the places of all.

use super::super::{
    Problem, ZonePart,
    check::Checker,
    places::{Devices, Owners, Whose},
    raw::{self, At},
};
use gyre_contract::zones::{LOT_BYTES, Zone};

const WORDS: [(&str, Whose); 2] = [("own", Whose::Own), ("supervisor", Whose::Supervisor)];

/// Reads whose the disks are; reports a word that says nothing.
pub(super) fn whose(checker: &mut Checker, text: &At<String>) -> Option<Whose> {
    checker.name(text, "owner of disks", &WORDS)
}

/// Says whose the devices of a zone are; of the supervisor's own tenants without a zone.
pub(crate) fn owners(checker: &mut Checker, zone: Option<&raw::Zone>) -> Owners {
    let mut read = |text: Option<&At<String>>, what: &str| {
        text.and_then(|text| checker.name(text, what, &WORDS)).unwrap_or_default()
    };
    Owners {
        disks: read(zone.and_then(|zone| zone.disks.as_ref()), "owner of disks"),
        network: read(zone.and_then(|zone| zone.network.as_ref()), "owner of a card"),
    }
}

/// Reports zones that would reach the segment by a link to the supervisor which they do not have.
pub(super) fn check_network(checker: &mut Checker, file: &raw::File, is_linked: impl Fn(usize) -> bool) {
    for (place, zone) in file.zone.iter().enumerate() {
        let Some(text) = zone.network.as_ref().filter(|text| text.get_ref() == "supervisor") else { continue };
        if !is_linked(place.saturating_add(1)) {
            let message = format!("zone `{}` has no link to the supervisor", zone.name.get_ref());
            let problem = Problem::new(text.span(), message, "its frames would go by that link");
            checker.wrong(problem.help("name `supervisor` among its `links`, or leave them out"));
        }
    }
}

/// Memory by which disks are served: a lot for each such zone.
pub(super) fn bytes(file: &raw::File) -> u64 {
    let served = file.zone.iter().filter(|zone| {
        let has_tenants = file
            .tenant
            .iter()
            .any(|tenant| tenant.zone.as_ref().is_some_and(|name| name.get_ref() == zone.name.get_ref()));
        has_tenants && zone.disks.as_ref().is_some_and(|text| text.get_ref() == "supervisor")
    });
    (served.count() as u64).saturating_mul(LOT_BYTES)
}

/// Tells the supervisor which of its disks each zone gets, and each zone how many those are.
pub(crate) fn number(first: &Devices, zones: &mut [ZonePart], described: &mut [Zone]) {
    let all = |devices: &Devices| devices.disks.iter().chain(&devices.served).copied().collect::<Vec<_>>();
    let mut disks: Vec<_> = zones.iter().flat_map(|zone| all(&zone.devices)).chain(all(first)).collect();
    disks.sort_unstable();
    for (zone, described) in zones.iter_mut().zip(described) {
        let place = |disk| disks.iter().position(|one| one == disk).unwrap_or(usize::MAX);
        let number = |disk| u16::try_from(place(disk)).unwrap_or(u16::MAX);
        described.disks = zone.devices.served.iter().map(number).collect();
        zone.machine.served_disks = u16::try_from(zone.devices.served.len()).unwrap_or(u16::MAX);
    }
}
