use std::path::Path;

use gyre_contract::{
    boot::Root,
    zones::{Holding, State, Zones},
};
use gyre_machine_file::{Description, parse};

use super::super::{
    peers::{self, Onto},
    tests::view,
};
use super::*;

const STARTED: &str = "memory = \"512 MiB\"\ncores = 4\n[supervisor]\nspare-zones = 2\n[[zone]]\nname = \"a\"\n\
    memory = \"64 MiB\"\n[image.i]\n[[tenant]]\nname = \"one\"\nzone = \"a\"\nshare = 1\nimage = \"i\"\n";

fn started() -> Description {
    parse(Path::new("m.toml"), STARTED).unwrap()
}

/// A file with the zone `late`, its keys, and those of its tenant.
fn late(keys: &str, tenant: &str) -> Description {
    let text = format!(
        "cores = 4\nmemory = \"512 MiB\"\n[[zone]]\nname = \"late\"\nmemory = \"64 MiB\"\n{keys}\n[image.i]\n\
         [[tenant]]\nname = \"tin\"\nzone = \"late\"\nshare = 1\nimage = \"i\"\naddress = \"10.77.0.99\"\n{tenant}\n"
    );
    parse(Path::new("late.toml"), &text).unwrap()
}

/// A zone that holds nothing.
fn bare(name: &str, state: State) -> View {
    View { holds: Holding::default(), ..view(name, state, &[], 0) }
}

fn zones(second: View, third: View) -> Zones {
    Zones { zones: vec![view("a", State::Running, &[1], 64), second, third], ..Zones::default() }
}

fn told<T: std::fmt::Debug>(result: Result<T>) -> String {
    let report = result.unwrap_err().report;
    format!("{report} {report:?}")
}

#[test]
fn a_zone_takes_the_first_vacant_place_or_the_one_that_it_has_had() {
    let place = |zones: &Zones, name: &str| super::place(&started(), zones, name);
    let none_came = zones(bare("spare-1", State::Vacant), bare("spare-2", State::Vacant));
    assert_eq!(place(&none_came, "late").unwrap(), 1);
    let one_came = zones(bare("late", State::Absent), bare("spare-2", State::Vacant));
    assert_eq!((place(&one_came, "late").unwrap(), place(&one_came, "other").unwrap()), (1, 2));
    assert!(told(place(&none_came, "a")).contains("started with a zone `a`"));
    assert!(told(place(&none_came, "spare-1")).contains("a place of this name"));
    let full = zones(bare("late", State::Running), bare("more", State::Ended { code: 4 }));
    assert!(told(place(&full, "late")).contains("gyre zone destroy late"));
    assert_eq!(place(&full, "more").unwrap(), 2);
    assert!(told(place(&full, "other")).contains("late, more"));
    let without = parse(Path::new("m.toml"), &STARTED.replace("spare-zones = 2", "")).unwrap();
    assert!(told(super::place(&without, &Zones::default(), "late")).contains("keeps no places"));
}

#[test]
fn one_that_waits_to_be_made_again_keeps_its_place_to_itself() {
    let mut zones = zones(bare("late", State::Ended { code: 4 }), bare("spare-2", State::Vacant));
    zones.zones[1].holds.cores = vec![2];
    assert!(place(&started(), &zones, "late").is_err());
}

#[test]
fn in_its_place_a_zone_has_addresses_card_and_disks_of_that() {
    let (started, described) = (started(), late("cores = 2\nrestart = \"on-crash\"", "memory = \"20 MiB\""));
    let own = only(&described, "late").unwrap();
    assert_eq!((own.zones.len(), own.tenants.len(), own.machine.tenants.len()), (1, 0, 1));
    let Comer { zone, machine, disks } = put(&own, &started, 2, &[0, 1, 2]).unwrap();
    let of = &started.zones[2];
    assert_eq!(zone.devices, [of.devices.card.unwrap(), of.devices.disks[0]], "one tenant, one disk");
    assert_eq!((zone.cores, zone.links.as_slice(), disks.as_slice()), (2, &[0, 1, 2][..], &[0][..]));
    assert_eq!((machine.link.mac, machine.places), (of.machine.link.mac, 0));
    assert_eq!(machine.neighbours, of.machine.neighbours);
    let addresses: Vec<_> = machine.tenants.iter().map(|tenant| tenant.address).collect();
    assert_eq!(addresses, [of.machine.tenants[0].address, of.machine.tenants[1].address]);
    assert_eq!((machine.tenants[1].root, machine.tenants[1].limits.memory_bytes), (Root::Disk(0), 20 << 20));
}

#[test]
fn what_a_place_does_not_have_is_refused_by_its_key() {
    for (keys, tenant, expected) in [
        ("network = \"supervisor\"", "", "network"),
        ("devices = [\"00:1a.0\"]", "", "devices"),
        ("lends-to = [\"other\"]", "[[zone]]\nname = \"other\"\nmemory = \"64 MiB\"", "lends-to"),
        ("", "ports = [\"8080:80\"]\n[tenant.load]\ntool = \"wrk\"\nconnections = 1\npath = \"/\"", "load"),
    ] {
        let refused = told(only(&late(keys, tenant), "late"));
        assert!(refused.contains("cannot come with") && refused.contains(expected), "{expected}: {refused}");
    }
    assert!(told(only(&late("", ""), "lat")).contains("did you mean `late`?"));
}

#[test]
fn too_many_tenants_and_names_that_others_have_are_refused() {
    let more = "[[tenant]]\nname = \"b\"\nzone = \"late\"\nshare = 1\nimage = \"i\"\n\
        [[tenant]]\nname = \"c\"\nzone = \"late\"\nshare = 1\nimage = \"i\"\n";
    let own = only(&late("", more), "late").unwrap();
    assert!(told(put(&own, &started(), 1, &[])).contains("3 tenants, and a place has room for 2"));
    let running = Instances::of(&started(), Path::new("/nowhere"));
    let hosts = |name: &str| vec![HostTenant { name: name.into(), ..own.zones[0].tenants[0].clone() }];
    assert!(told(names_differ(&running, "spare-1", &hosts("one"))).contains("a tenant `one` already"));
    assert!(names_differ(&running, "spare-1", &hosts("tin")).is_ok());
}

const VOLUME: &str = "[[tenant.volume]]\nname = \"v\"\npath = \"/v\"";

/// The machine with places that are so furnished.
fn furnished(keys: &str) -> Description {
    parse(Path::new("m.toml"), &STARTED.replace("spare-zones = 2", &format!("spare-zones = 2\n{keys}"))).unwrap()
}

#[test]
fn volumes_have_the_disks_behind_those_of_all_tenants_of_a_place() {
    let (started, own) = (furnished("spare-zone-volumes = 2"), only(&late("", VOLUME), "late").unwrap());
    let Comer { zone, machine, disks } = put(&own, &started, 1, &[]).unwrap();
    let room = &started.zones[1].devices;
    assert_eq!(disks, [0, 2], "the first place of two for tenants, the first of those for volumes");
    assert_eq!(zone.devices, [room.card.unwrap(), room.disks[0], room.disks[2]]);
    assert_eq!(machine.tenants[1].volumes[0].root, Root::Disk(1), "the second of its own");
    let refused = told(put(&own, &self::started(), 1, &[]));
    assert!(refused.contains("has 1 volumes, and a place has room for 0") && refused.contains("spare-zone-volumes"));
}

#[test]
fn a_zone_and_its_place_agree_whose_the_disks_are() {
    let started = furnished("spare-zone-volumes = 1\nspare-zone-disks = \"supervisor\"");
    let own = only(&late("disks = \"supervisor\"", VOLUME), "late").unwrap();
    let Comer { zone, machine, .. } = put(&own, &started, 2, &[]).unwrap();
    let of = &started.machine.zones[2].disks;
    assert_eq!((zone.disks, machine.served_disks), (vec![of[0], of[2]], 2));
    assert_eq!(zone.devices, [started.zones[2].devices.card.unwrap()]);
    let plain = only(&late("", ""), "late").unwrap();
    assert!(told(put(&plain, &started, 2, &[])).contains("write disks = \"supervisor\""));
    assert!(told(put(&own, &furnished("spare-zone-volumes = 1"), 2, &[])).contains("write disks = \"own\""));
}

/// A file with `late`, linked to some, and with the zones of the machine.
fn linked(links: &str) -> Description {
    let more = "[[zone]]\nname = \"a\"\nmemory = \"64 MiB\"\n[[zone]]\nname = \"b\"\nmemory = \"64 MiB\"\n";
    only(&late(links, more), "late").unwrap()
}

#[test]
fn a_zone_is_linked_to_those_that_it_names_or_to_all() {
    let (started, there) = (started(), zones(bare("b", State::Running), bare("spare-2", State::Vacant)));
    let mut instances = Instances::of(&started, Path::new("/nowhere"));
    let peers = |instances: &Instances, links: &str| {
        peers::peers(&linked(links), &Onto { started: &started, instances, place: 2 }, &there)
    };
    assert_eq!(peers(&instances, "").unwrap(), [0, 1, 2]);
    assert_eq!(peers(&instances, "links = []").unwrap(), [0_u16; 0]);
    assert_eq!(peers(&instances, "links = [\"supervisor\", \"b\"]").unwrap(), [0, 2]);
    let comer = put(&linked("links = [\"a\"]"), &started, 2, &peers(&instances, "links = [\"a\"]").unwrap()).unwrap();
    let numbers: Vec<u16> = comer.machine.neighbours.iter().map(|neighbour| neighbour.number).collect();
    assert_eq!((comer.zone.links, numbers), (vec![1], vec![1]));
    // One that came and wants no link to it.
    (instances.all[2].zone, instances.all[2].links) = (Some("b".into()), Some(vec!["a".into()]));
    assert!(told(peers(&instances, "links = [\"b\"]")).contains("zone `b` does not name `late` among its links"));
    instances.all[2].links = Some(vec!["late".into()]);
    assert_eq!(peers(&instances, "links = [\"b\"]").unwrap(), [2]);
}

#[test]
fn a_link_to_a_zone_that_is_not_there_is_refused() {
    let (started, there) = (started(), zones(bare("spare-1", State::Vacant), bare("spare-2", State::Vacant)));
    let instances = Instances::of(&started, Path::new("/nowhere"));
    let own = linked("links = [\"b\"]");
    let refused = told(peers::peers(&own, &Onto { started: &started, instances: &instances, place: 1 }, &there));
    assert!(refused.contains("no zone that `late` could be linked to like `b`"), "{refused}");
    // The zone of the machine has links of its own.
    let text = STARTED.replace("name = \"a\"\n", "name = \"a\"\nlinks = [\"supervisor\"]\n");
    let started = parse(Path::new("m.toml"), &text).unwrap();
    let own = linked("links = [\"a\"]");
    let refused = told(peers::peers(&own, &Onto { started: &started, instances: &instances, place: 1 }, &there));
    assert!(refused.contains("zone `a` does not name `late`"), "{refused}");
}
