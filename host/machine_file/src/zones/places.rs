//! Places for zones that come while the machine runs: `spare-zones = N` at the supervisor, each with room for `spare-zone-tenants` and for
//! `spare-zone-volumes`.
//!
//! A place is a zone without tenants that does not start, behind the zones of the file: it has addresses, a card, and a disk for each tenant and each
//! volume from the start, because a bus and the ends of links are made then. The disks are the place's own, or the supervisor's, which serves
//! them (`spare-zone-disks`). All else comes with the zone.

use super::super::{
    Problem,
    check::Checker,
    places::Whose,
    raw::{self, At},
    spares,
};
use super::served;
use gyre_contract::{address, boot::Tenant, zones::ZONES_MAX};

/// Tenants of a zone that comes, if the file does not say.
const TENANTS: i64 = 2;
/// Most of them: each has a disk.
const TENANTS_MAX: i64 = 16;
/// Most volumes of such a zone: as many disks more.
const VOLUMES_MAX: i64 = 16;
/// The start of a place's name.
const NAME: &str = "spare-";

/// Adds the places that the supervisor keeps to the zones of the file.
pub(crate) fn expand(checker: &mut Checker, file: &mut raw::File) {
    let Some(own) = file.supervisor.as_ref().map(At::get_ref) else { return };
    let Some(spare) = own.spare_zones.clone() else {
        refuse_without_places(checker, own);
        return;
    };
    let most = i64::try_from(ZONES_MAX.saturating_sub(file.zone.len())).unwrap_or(0);
    let count = checker.number(Some(&spare), "the number of places for zones", 0, most, 0);
    let name = |number: i64| At::new(spare.span(), format!("{NAME}{number}"));
    let memory = || At::new(spare.span(), "64 MiB".to_owned());
    let disks = own.spare_zone_disks.clone().filter(|text| served::whose(checker, text) == Some(Whose::Supervisor));
    let place = |number| raw::Zone { disks: disks.clone(), ..raw::Zone::place(name(number), memory()) };
    let made: Vec<raw::Zone> = (1..=count).map(place).collect();
    check_tenants(checker, own.spare_zone_tenants.as_ref());
    let volumes = own.spare_zone_volumes.as_ref();
    checker.number(volumes, "the number of volumes of a zone that comes", 0, VOLUMES_MAX, 0);
    file.zone.extend(made);
}

/// Makes the places for tenants of a zone that comes; none in a zone of the file.
pub(crate) fn tenants(file: &raw::File, zone: &raw::Zone, first_disk: u16) -> Vec<Tenant> {
    if !zone.is_place {
        return vec![];
    }
    let count = tenants_of_a_place(file);
    let before =
        file.zone.iter().take_while(|other| !std::ptr::eq(*other, zone)).filter(|other| other.is_place).count();
    let is_free = |address: &address::Address| !is_asked_for(file, *address);
    let free = (file.tenant.len()..).map_while(address::tenant).filter(is_free);
    let own = free.skip(before.saturating_mul(usize::from(count)));
    (0..count).zip(own).map(|(number, address)| spares::place(number, address, first_disk)).collect()
}

fn is_asked_for(file: &raw::File, address: address::Address) -> bool {
    let text = std::net::Ipv4Addr::from(address).to_string();
    file.tenant.iter().any(|tenant| tenant.address.as_ref().is_some_and(|asked| *asked.get_ref() == text))
}

/// Returns how many tenants a zone that comes can have.
fn tenants_of_a_place(file: &raw::File) -> u16 {
    let asked = file.supervisor.as_ref().and_then(|own| own.get_ref().spare_zone_tenants.as_ref());
    let count = asked.map_or(TENANTS, |asked| *asked.get_ref());
    u16::try_from(count.clamp(1, TENANTS_MAX)).unwrap_or(1)
}

/// Returns how many disks a place has for volumes; none of a zone of the file.
pub(crate) fn volumes(file: &raw::File, zone: &raw::Zone) -> usize {
    let asked = file.supervisor.as_ref().and_then(|own| own.get_ref().spare_zone_volumes.as_ref());
    let count = asked.filter(|_| zone.is_place).map_or(0, |asked| *asked.get_ref());
    usize::try_from(count.clamp(0, VOLUMES_MAX)).unwrap_or(0)
}

/// Reports keys that say something of places, if there are none.
fn refuse_without_places(checker: &mut Checker, own: &raw::Supervisor) {
    let tenants = own.spare_zone_tenants.as_ref().map(At::span);
    let volumes = own.spare_zone_volumes.as_ref().map(At::span);
    let disks = own.spare_zone_disks.as_ref().map(At::span);
    if let Some(span) = tenants.or(volumes).or(disks) {
        let problem = Problem::new(span, "there are no places for zones that come", "a property of places");
        checker.wrong(problem.help("`spare-zones = N` keeps N places"));
    }
}

/// Reports a number of tenants that cannot be.
fn check_tenants(checker: &mut Checker, asked: Option<&At<i64>>) {
    checker.number(asked, "the number of tenants of a zone that comes", 1, TENANTS_MAX, TENANTS);
}

impl raw::Zone {
    fn place(name: At<String>, memory: At<String>) -> Self {
        Self {
            is_place: true,
            name,
            cores: None,
            cores_max: None,
            memory,
            protection: None,
            restart: None,
            starts: false,
            may_create: false,
            lends_to: vec![],
            borrows_from: None,
            patience: None,
            share: None,
            links: None,
            disks: None,
            network: None,
            devices: vec![],
            policy: std::collections::BTreeMap::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use gyre_contract::boot::Root;

    use crate::parse;

    fn file(supervisor: &str) -> String {
        format!(
            "memory = \"512 MiB\"\ncores = 4\n[supervisor]\n{supervisor}\n[[zone]]\nname = \"a\"\nmemory = \"64 MiB\"\n\
             [image.i]\n[[tenant]]\nname = \"one\"\nzone = \"a\"\nshare = 1\nimage = \"i\"\nmemory = \"20 MiB\"\naddress = \"10.77.0.13\"\n"
        )
    }

    #[test]
    fn places_are_behind_the_zones_with_card_disks_and_addresses_of_their_own() {
        let read = parse(Path::new("m.toml"), &file("spare-zones = 2\nspare-zone-tenants = 3")).unwrap();
        let names: Vec<_> = read.machine.zones.iter().map(|zone| (zone.name.as_str(), zone.is_place)).collect();
        assert_eq!(names, [("a", false), ("spare-1", true), ("spare-2", true)]);
        let devices = |place: usize| read.machine.zones[place].devices.iter().map(|one| one.device).collect::<Vec<_>>();
        assert_eq!((devices(0), devices(1), devices(2)), (vec![4, 5], vec![6, 7, 8, 9], vec![10, 11, 12, 13]));
        let addresses = |place: usize| {
            let part = &read.zones[place].machine;
            assert_eq!(usize::from(part.places), part.tenants.len() - 1);
            part.tenants.iter().map(|tenant| tenant.address[3]).collect::<Vec<_>>()
        };
        assert_eq!((addresses(1), addresses(2)), (vec![4, 12, 14, 15], vec![5, 16, 17, 18]), "13 is asked for");
        assert_eq!(read.zones[1].machine.tenants[2].root, Root::Disk(1));
        assert!(!read.machine.zones[1].starts && read.warnings.is_empty(), "{:?}", read.warnings);
        let links = read.machine.neighbours.iter().map(|one| one.number).collect::<Vec<_>>();
        assert_eq!(links, [1, 2, 3], "the supervisor is linked to places too");
    }

    #[test]
    fn places_have_disks_for_volumes_behind_those_of_tenants() {
        let read = parse(Path::new("m.toml"), &file("spare-zones = 2\nspare-zone-volumes = 1")).unwrap();
        let devices = |place: usize| read.machine.zones[place].devices.iter().map(|one| one.device).collect::<Vec<_>>();
        assert_eq!((devices(1), devices(2)), (vec![6, 7, 8, 9], vec![10, 11, 12, 13]), "a card, two tenants, a volume");
        assert_eq!((read.zones[1].machine.places, read.zones[1].devices.disks.len()), (2, 3));
        assert_eq!(read.zones[0].devices.disks.len(), 1, "zones of the file have what they ask for");
    }

    #[test]
    fn disks_of_places_may_be_the_supervisors() {
        let own = "spare-zones = 1\nspare-zone-volumes = 1\nspare-zone-disks = \"supervisor\"";
        let read = parse(Path::new("m.toml"), &file(own)).unwrap();
        let devices = &read.zones[1].devices;
        assert_eq!((devices.disks.len(), devices.served.len()), (0, 3));
        assert_eq!(read.machine.zones[1].devices, [devices.card.unwrap()]);
        assert_eq!(read.machine.zones[1].disks, [1, 2, 3], "behind that of the zone before");
        let plain = parse(Path::new("m.toml"), &file("spare-zones = 1\nspare-zone-disks = \"own\"")).unwrap();
        assert_eq!(plain.zones[1].devices.disks.len(), 2);
    }

    #[test]
    fn a_machine_may_begin_without_a_zone_of_its_own() {
        let text = "memory = \"512 MiB\"\ncores = 2\n[supervisor]\nspare-zones = 1\n\
            [image.i]\n[[tenant]]\nname = \"one\"\nshare = 1\nimage = \"i\"\n";
        let read = parse(Path::new("m.toml"), text).unwrap();
        assert_eq!((read.zones.len(), read.zones[0].devices.disks.len(), read.whole.is_some()), (1, 2, true));
    }

    #[test]
    fn what_cannot_be_kept_is_refused() {
        let refused = |own: &str| {
            let error = parse(Path::new("m.toml"), &file(own)).unwrap_err();
            error.problems().map(|problem| problem.message.clone()).collect::<Vec<_>>().join("; ")
        };
        assert!(refused("spare-zones = 8").contains("cannot be 8"), "eight zones at most, and one is there");
        assert!(refused("spare-zones = -1").contains("cannot be -1"));
        assert!(refused("spare-zone-tenants = 2").contains("there are no places"));
        assert!(refused("spare-zone-volumes = 2").contains("there are no places"));
        assert!(refused("spare-zone-disks = \"own\"").contains("there are no places"));
        assert!(refused("spare-zones = 1\nspare-zone-tenants = 17").contains("cannot be 17"));
        assert!(refused("spare-zones = 1\nspare-zone-volumes = 17").contains("cannot be 17"));
        assert_eq!(refused("spare-zones = 2\nspare-zone-disks = \"mine\""), "there is no owner of disks `mine`");
        assert!(refused("spare-zones = 3\nspare-zone-volumes = 8").contains("cards and disks"));
        assert!(refused("spare-zones = 3\nspare-zone-tenants = 16").contains("cards and disks"));
        let taken = file("spare-zones = 1")
            .replace("name = \"a\"", "name = \"spare-1\"")
            .replace("zone = \"a\"", "zone = \"spare-1\"");
        assert!(parse(Path::new("m.toml"), &taken).is_err());
    }
}
