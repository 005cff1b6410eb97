//! Spare places: tenants that may come while the machine runs, each with an address and a disk that are there from the start.
//!
//! `spare = N` gives N disks, and [`STAYS`] places for each: a place is on the bill of one tenant alone, and its disk goes to the next place
//! of that disk once the tenant has gone. The first N places have the N disks in their order, then the next N, and so on.

use super::{
    Problem,
    check::Checker,
    part::Part,
    raw::{self, At},
};
use gyre_contract::{
    address::{self, Address},
    boot::{Limits, Neighbours, Orphans, Restart, Root, Tenant, TenantKind},
    bounds::MEMORY_BYTES_MIN,
};

/// Most disks for them: each has a function on the bus.
const SPARES_MAX: i64 = 24;
/// Most tenants that have one disk in a run, one after the other.
const STAYS: usize = 16;
/// Most places of a machine: the kernel has an account for each.
const PLACES_MAX: usize = 96;

/// Returns how many tenants may be there at once that came the file keeps; reports what cannot have any.
pub(super) fn count(checker: &mut Checker, file: &raw::File) -> u16 {
    let Some(spare) = &file.spare else { return 0 };
    let count = checker.number(Some(spare), "the number of spare places", 0, SPARES_MAX, 0);
    let has_other = match (&file.disk, file.zone.is_empty()) {
        (Some(_), _) => Some("tenants that share a disk: each place has a disk of its own"),
        (None, false) => Some("zones: put a tenant into a zone's file instead"),
        (None, true) => None,
    };
    if let Some(why) = has_other.filter(|_| count > 0) {
        checker.wrong(Problem::new(spare.span(), format!("no spare places beside {why}"), "take this out"));
    }
    u16::try_from(count).unwrap_or(0)
}

/// Makes the places of an instance, behind its tenants and their disks.
pub(super) fn places(checker: &mut Checker, part: &Part, tenants: &[Tenant], first_disk: u16) -> Vec<Tenant> {
    let count = count(checker, part.file);
    let is_free = |address: &Address| tenants.iter().all(|tenant| tenant.address != *address);
    let free = (0..).map_while(address::tenant).filter(is_free);
    let all = usize::from(count).saturating_mul(STAYS).min(PLACES_MAX.max(count.into()));
    let numbers = (0..count).cycle().take(all);
    let mut made: Vec<Tenant> = numbers.zip(free).map(|(number, address)| place(number, address, first_disk)).collect();
    // Each disk has as many places as the others.
    made.truncate(made.len() / usize::from(count).max(1) * usize::from(count));
    if let Some(spare) = part.file.spare.as_ref().filter(|_| made.len() < usize::from(count)) {
        too_many(checker, spare);
    }
    made
}

/// Returns how many disks places have together.
pub(super) fn disks(places: &[Tenant]) -> usize {
    let is_first =
        |(index, place): &(usize, &Tenant)| !places.iter().take(*index).any(|other| other.root == place.root);
    places.iter().enumerate().filter(is_first).count()
}

fn too_many(checker: &mut Checker, spare: &At<i64>) {
    checker.wrong(Problem::new(spare.span(), "the network has no addresses for so many", "keep fewer places"));
}

pub(super) fn place(number: u16, address: Address, first_disk: u16) -> Tenant {
    Tenant {
        name: format!("spare-{}", number.saturating_add(1)),
        kind: TenantKind::Customer,
        parent: None,
        share: 1,
        entitlements: vec![],
        limits: Limits { memory_bytes: MEMORY_BYTES_MIN, ..Limits::default() },
        monitor: false,
        address,
        root: Root::Disk(first_disk.saturating_add(number)),
        program: None,
        ports: vec![],
        overload: None,
        goal: None,
        cell: None,
        restart: Restart::Never,
        volumes: vec![],
        orphans: Orphans::Program,
        neighbours: Neighbours::All,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::parse;

    fn file(head: &str) -> String {
        format!(
            "{head}\n[image.a]\n[[tenant]]\nname = \"one\"\nshare = 1\nimage = \"a\"\n[[tenant.volume]]\nname = \"v\"\npath = \"/v\"\n"
        )
    }

    #[test]
    fn places_are_behind_all_tenants_and_disks() {
        let read = parse(Path::new("m.toml"), &file("spare = 2")).unwrap();
        let places: Vec<_> = read.places().iter().map(|place| (place.root, place.address)).collect();
        assert_eq!(places[..2], [(Root::Disk(2), [10, 77, 0, 12]), (Root::Disk(3), [10, 77, 0, 13])]);
        assert_eq!(places[2..4], [(Root::Disk(2), [10, 77, 0, 14]), (Root::Disk(3), [10, 77, 0, 15])]);
        assert_eq!((read.machine.places, read.devices.disks.len(), read.tenants.len()), (32, 4, 1));
        let many = parse(Path::new("m.toml"), &file("spare = 20")).unwrap();
        assert_eq!((many.machine.places, many.devices.disks.len()), (80, 22), "whole rounds of at most 96 places");
        assert!(parse(Path::new("m.toml"), &file("")).unwrap().places().is_empty());
    }

    #[test]
    fn what_cannot_have_places_is_refused() {
        let refused = |head: &str| {
            let error = parse(Path::new("m.toml"), &file(head)).unwrap_err();
            error.problems().map(|problem| problem.message.clone()).collect::<Vec<_>>().join("; ")
        };
        assert!(refused("spare = 2\n[disk]").contains("share a disk"));
        assert!(refused("spare = 25").contains("cannot be 25"));
    }
}
