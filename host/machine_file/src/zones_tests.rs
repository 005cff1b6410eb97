//! Machine files with zones: a good one becomes a supervisor and its zones, and each bad one is refused where it is wrong.
//!
//! The world of these tests is one good file, `GOOD`, with a supervisor, two zones and their tenants. `complaint` replaces a part of it
//! and returns what the reader says: the message, the text under the caret, the label and the help.
//!
//! The tests hold that each instance has tenants, shares, disks, links and addresses of its own, that a zone's policy stands in place of
//! the machine's, that cores, memory, devices and cards are not given twice and not beyond what there is, and that the sizes of the whole
//! follow from the parts. Names that do not exist are told with those that do. The example of the repository is read without a warning.
//!
//! Files without zones are in `tests.rs`. No machine is built or started here.

use super::*;
use gyre_contract::{
    address,
    boot::{Root, Way},
    zones::{DeviceAddress, Protection, Restart},
};

const GOOD: &str = r#"
name = "split"
cores = 4
memory = "1 GiB"

[supervisor]
cores = 1
memory = "128 MiB"

[[zone]]
name = "search"
cores = 2
cores-max = 3
memory = "256 MiB"
protection = "nested"
restart = "on-crash"
patience = "2 s"
may-create = true
devices = ["00:1a.0"]
[zone.policy.cpu]
policy = "lottery"

[[zone]]
name = "batch"
memory = "128 MiB"
starts = false

[policy.cpu]
policy = "worst-case-fair"

[image.web]

[[tenant]]
name = "gold"
zone = "search"
share = "60 %"
image = "web"
ports = ["8081:80"]

[[tenant]]
name = "silver"
zone = "search"
share = "40 %"
image = "web"

[[tenant]]
name = "bronze"
zone = "batch"
share = 3
image = "web"

[[tenant]]
name = "iron"
share = 1
image = "web"
"#;

fn read_text(text: &str) -> Result<Description, FileError> {
    parse(Path::new("machine.toml"), text)
}

/// Replaces a part of the good file and returns what the reader says: message, the text under the caret, label, help.
fn complaint(from: &str, to: &str) -> (String, String, String, String) {
    assert!(GOOD.contains(from), "the good file does not hold {from:?}");
    let text = GOOD.replacen(from, to, 1);
    let error = read_text(&text).expect_err(to);
    let problem = error.problems().next().unwrap().clone();
    let (span, label) = problem.labels.first().cloned().unwrap_or_default();
    let under = text.get(span).unwrap_or("").to_owned();
    (problem.message, under, label, problem.help.unwrap_or_default())
}

fn at(device: u8) -> DeviceAddress {
    DeviceAddress { bus: 0, device, function: 0 }
}

#[test]
fn a_good_file_becomes_a_supervisor_and_zones() {
    let read = read_text(GOOD).unwrap();
    assert_eq!(read.whole, Some(Whole { cores: 4, memory_bytes: 1 << 30 }));
    assert_eq!((read.machine.cores, read.machine.memory_bytes), (1, 128 << 20));
    let search = &read.machine.zones[0];
    assert_eq!((search.cores, search.cores_max, search.memory_bytes), (2, 3, 256 << 20));
    assert_eq!((search.protection, search.restart), (Protection::Nested, Restart::OnCrash));
    assert_eq!((search.patience_ms, search.starts, search.module.as_str()), (2000, true, "/zones/search"));
    let batch = &read.machine.zones[1];
    assert_eq!((search.may_create, batch.may_create), (true, false));
    assert_eq!((batch.cores, batch.cores_max, batch.starts), (1, 3, false), "it may grow to all but the supervisor's");
    assert_eq!((batch.protection, batch.restart, batch.patience_ms), (Protection::Pages, Restart::Never, 1000));
}

#[test]
fn a_zone_has_the_share_that_the_file_says_or_as_much_as_the_supervisors_tenants_on_average() {
    let share = |text: &str| read_text(text).unwrap().machine.zones[1].share;
    assert_eq!(share(GOOD), 1);
    let more = "[[tenant]]\nname = \"tin\"\nshare = 8\nimage = \"web\"\n";
    assert_eq!(share(&format!("{GOOD}{more}")), 4);
    assert_eq!(share(&GOOD.replace("starts = false", "share = 12")), 12);
    assert_eq!(share(&GOOD.replace("starts = false", "share = \"20 %\"")), 20_000);
    let (message, under, ..) = complaint("starts = false", "share = 0");
    assert_eq!((message.as_str(), under.as_str()), ("this share makes no sense", "0"));
}

#[test]
fn a_zone_lends_to_those_that_it_names() {
    let read = read_text(&GOOD.replace("starts = false", "lends-to = [\"search\"]")).unwrap();
    assert_eq!(read.machine.zones.iter().map(|zone| zone.lends_to.clone()).collect::<Vec<_>>(), [vec![], vec![0]]);
    for name in ["serach", "batch", "supervisor"] {
        let (message, under, ..) = complaint("starts = false", &format!("lends-to = [\"{name}\"]"));
        assert_eq!((message, under), (format!("zone `batch` cannot lend to `{name}`"), format!("\"{name}\"")));
    }
}

#[test]
fn a_zone_borrows_from_one_that_lends_to_it_while_its_service_is_late() {
    let goal = "ports = [\"8081:80\"]\n[tenant.goal]\np99 = \"200 ms\"";
    let search = "may-create = true\nborrows-from = \"batch\"";
    let lends = "lends-to = [\"search\"]";
    let good = GOOD
        .replacen("ports = [\"8081:80\"]", goal, 1)
        .replace("may-create = true", search)
        .replace("starts = false", lends);
    let read = read_text(&good).unwrap();
    let borrowing = |number: usize| read.instances().nth(number).unwrap().machine.broker.borrowing.clone();
    let (lender, cores, cores_max) = ("batch".to_owned(), 2, 3);
    assert_eq!(borrowing(1), Some(gyre_contract::goals::Borrowing { lender, cores, cores_max }));
    assert_eq!((borrowing(0), borrowing(2)), (None, None));
    let told = |from: &str, to: &str| {
        let error = read_text(&good.replace(from, to)).unwrap_err();
        let problem = error.problems().next().unwrap();
        (problem.message.clone(), problem.help.clone().unwrap_or_default())
    };
    assert_eq!(told("= \"batch\"\ndevices", "= \"bach\"\ndevices").1, "did you mean `batch`?");
    assert_eq!(told("= \"batch\"\ndevices", "= \"search\"\ndevices").0, "zone `search` cannot borrow from `search`");
    let (message, help) = told(lends, "");
    assert_eq!(
        (message.as_str(), help.as_str()),
        ("zone `batch` does not lend to `search`", "it lends with lends-to = [\"search\"]")
    );
    assert!(told("cores-max = 3", "cores-max = 2").1.contains("cores-max = 3"));
    assert!(told("p99 = \"200 ms\"", "rate = \"5/s\"").0.starts_with("0 tenants of the zone"));
    let pota = |file: &str| format!("[broker]\npolicy = \"{file}\"\n[image.web]");
    let warned = |file: &str| read_text(&good.replace("[image.web]", &pota(file))).unwrap().warnings.len();
    assert_eq!(warned("pota"), warned("threshold") + 1);
}

fn neighbours(machine: &Machine) -> Vec<(u16, Vec<u8>)> {
    let last = |addresses: &[address::Address]| addresses.iter().map(|one| one[3]).collect();
    machine.neighbours.iter().map(|one| (one.number, last(&one.addresses))).collect()
}

#[test]
fn instances_are_linked_as_zones_name_each_other_and_all_of_them_otherwise() {
    let links = |text: &str| {
        let read = read_text(text).unwrap();
        assert_eq!(read.warnings.iter().filter(|one| one.message.contains("links")).count(), 0);
        let of = read.machine.zones.iter().map(|zone| zone.links.clone()).collect::<Vec<_>>();
        (of, read.instances().map(|one| neighbours(one.machine)).collect::<Vec<_>>())
    };
    let (zones, all) = links(GOOD);
    assert_eq!(zones, [vec![0], vec![0, 1]]);
    assert_eq!(all[0], [(1, vec![3, 11, 12]), (2, vec![4, 13])]);
    assert_eq!(all[1], [(0, vec![2, 14]), (2, vec![4, 13])]);
    assert_eq!(all[2], [(0, vec![2, 14]), (1, vec![3, 11, 12])]);
    let (zones, all) = links(&GOOD.replace("starts = false", "links = [\"search\"]"));
    assert_eq!(zones, [vec![0], vec![1]]);
    assert_eq!(all.iter().map(Vec::len).collect::<Vec<_>>(), [1, 2, 1]);
    let (zones, all) = links(&GOOD.replace("starts = false", "links = []"));
    assert_eq!((zones, all[2].len()), (vec![vec![0], vec![]], 0));
}

#[test]
fn a_link_to_nobody_or_of_one_end_is_refused() {
    let (message, under, _, help) = complaint("starts = false", "links = [\"serch\"]");
    assert_eq!((message.as_str(), under.as_str()), ("zone `batch` cannot be linked to `serch`", "\"serch\""));
    assert!(help.contains("search"), "{help}");
    let (message, ..) = complaint("starts = false", "links = [\"batch\"]");
    assert_eq!(message, "zone `batch` cannot be linked to `batch`");
    let one_end = GOOD
        .replace("patience = \"2 s\"", "links = [\"supervisor\"]")
        .replace("starts = false", "links = [\"search\"]");
    let error = read_text(&one_end).expect_err("one end");
    let problem = error.problems().next().unwrap().clone();
    assert_eq!(problem.message, "zone `search` does not name `batch` among its links");
    let small = GOOD.replace("memory = \"1 GiB\"", "memory = \"530 MiB\"").replace("starts = false\n", "");
    let read = read_text(&small).unwrap();
    assert!(
        read.warnings.iter().any(|one| one.message == "links between instances want 6.00 MiB"),
        "{:?}",
        read.warnings
    );
}

#[test]
fn disks_that_the_supervisor_serves_are_its_own_and_numbered_among_all() {
    let read = read_text(&GOOD.replace("starts = false", "disks = \"supervisor\"")).unwrap();
    let [search, batch] = [0, 1].map(|place: usize| (&read.machine.zones[place], &read.zones[place]));
    let card = batch.1.devices.card;
    assert_eq!(batch.0.devices, [card.unwrap()], "its card alone is its own");
    let served: Vec<DeviceAddress> = read.served().collect();
    assert_eq!(served, batch.1.devices.served);
    assert_eq!((batch.0.disks.clone(), batch.1.machine.served_disks), (vec![3], 1), "after one, and two of `search`");
    assert_eq!((search.0.disks.clone(), search.1.machine.served_disks), (vec![], 0));
    assert_eq!(batch.1.machine.tenants[1].root, Root::Disk(0), "the zone has no other");
}

#[test]
fn a_zone_without_a_card_is_a_guest_of_the_supervisors() {
    let read = read_text(&GOOD.replace("starts = false", "network = \"supervisor\"")).unwrap();
    let (described, batch) = (&read.machine.zones[1], &read.zones[1]);
    assert_eq!((batch.devices.card, batch.machine.link.way), (None, Way::Supervisor));
    assert_eq!((described.devices.clone(), read.machine.link.way), (batch.devices.disks.clone(), Way::Card));
    let guests: Vec<Option<[u8; 6]>> = read.machine.neighbours.iter().map(|one| one.guest).collect();
    assert_eq!(guests, [None, Some(batch.machine.link.mac)]);
    let (message, under, ..) = complaint("starts = false", "network = \"supervisor\"\nlinks = [\"search\"]");
    assert_eq!((message.as_str(), under.as_str()), ("zone `batch` has no link to the supervisor", "\"supervisor\""));
}

#[test]
fn wrong_words_for_disks_and_too_little_memory_for_them_are_refused() {
    let (message, under, label, _) = complaint("starts = false", "disks = \"supervisr\"");
    assert!(message.contains("supervisr") && under == "\"supervisr\"", "{message} {under} {label}");
    let served = GOOD.replace("starts = false", "disks = \"supervisor\"");
    let error = read_text(&served.replace("memory = \"1 GiB\"", "memory = \"528 MiB\"")).expect_err("528 MiB");
    let problems: Vec<String> = error.problems().map(|problem| problem.message.clone()).collect();
    assert_eq!(problems, ["disks that the supervisor serves want 2.00 MiB of shared memory"]);
}

#[test]
fn each_instance_has_its_tenants_with_shares_and_disks_of_their_own() {
    let read = read_text(GOOD).unwrap();
    let names = |instance: Instance| instance.machine.tenants.iter().map(|one| one.name.clone()).collect::<Vec<_>>();
    let all: Vec<Vec<String>> = read.instances().map(names).collect();
    assert_eq!(all, [vec!["system", "iron"], vec!["system", "gold", "silver"], vec!["system", "bronze"]]);
    let search = &read.zones[0].machine;
    assert!(search.has_percent_shares && !read.machine.has_percent_shares);
    assert_eq!((search.tenants[1].share, &search.tenants[2].root), (60_000, &Root::Disk(1)));
    assert_eq!(search.name, "search");
    assert_eq!(search.zones, []);
}

#[test]
fn addresses_are_unique_over_all_instances() {
    let read = read_text(GOOD).unwrap();
    let mut all: Vec<_> =
        read.instances().flat_map(|one| one.machine.tenants.iter().map(|tenant| tenant.address)).collect();
    assert_eq!(all[0], address::SYSTEM);
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 7);
    let mut macs: Vec<_> = read.instances().map(|one| one.machine.link.mac).collect();
    macs.dedup();
    assert_eq!((macs.len(), macs[0]), (3, address::MACHINE_MAC));
    let (message, _, label, _) = complaint("name = \"iron\"", "name = \"iron\"\naddress = \"10.77.0.4\"");
    assert_eq!(
        (message.as_str(), label.as_str()),
        ("the address 10.77.0.4 is taken", "it is the agent of zone `batch`'s")
    );
}

#[test]
fn every_function_has_a_place_of_its_own() {
    let read = read_text(GOOD).unwrap();
    assert_eq!(read.devices, Devices { card: Some(at(3)), disks: vec![at(4)], served: vec![], others: vec![] });
    assert_eq!(read.machine.zones[0].devices, [at(5), at(6), at(7), at(0x1a)]);
    assert_eq!(read.machine.zones[1].devices, [at(8), at(9)]);
    let shared = read_text(&GOOD.replace("[image.web]", "[disk]\n[image.web]")).unwrap();
    assert_eq!(shared.machine.zones[0].devices, [at(5), at(6), at(0x1a)], "a card and one disk");
}

#[test]
fn a_machine_without_zones_is_as_it_was() {
    let read = read_text("cores = 2\n[image.a]\n[[tenant]]\nname = \"a\"\nshare = 1\nimage = \"a\"\n").unwrap();
    assert_eq!((read.whole, read.machine.cores, read.all_cores(), read.zones.len()), (None, 2, 2, 0));
    assert_eq!(read.all_memory_bytes(), 512 << 20);
}

#[test]
fn a_zones_policy_stands_in_place_of_the_machines() {
    let read = read_text(GOOD).unwrap();
    let policy = |instance: Instance| instance.machine.resources[0].policy.outer.name.clone();
    assert_eq!(read.instances().map(policy).collect::<Vec<_>>(), ["worst-case-fair", "lottery", "worst-case-fair"]);
}

#[test]
fn more_cores_than_there_are_are_refused_where_they_are_asked_for() {
    let (message, under, label, help) = complaint("cores = 2\n", "cores = 4\n");
    assert_eq!(message, "there are not enough cores for zone `search`: it wants 4");
    assert_eq!((under.as_str(), label.as_str()), ("4", "3 of the machine's 4 are left"));
    assert!(help.contains("raise `cores`"), "{help}");
    let (message, under, label, _) = complaint("cores-max = 3", "cores-max = 4");
    assert_eq!((message.as_str(), under.as_str()), ("zone `search` cannot grow to 4 cores", "4"));
    assert!(label.starts_with("at most 3"), "{label}");
    assert_eq!(complaint("cores-max = 3", "cores-max = 1").2, "expected 2 to 8");
    let both = GOOD.replace("starts = false", "cores = 2");
    let error = read_text(&both).unwrap_err();
    assert_eq!(error.to_string(), "there are not enough cores for zone `batch`: it wants 2");
}

#[test]
fn a_zone_without_a_core_is_refused() {
    let (message, under, label, _) = complaint("cores = 2\n", "cores = 0\n");
    assert_eq!((message.as_str(), under.as_str()), ("the number of cores of a zone cannot be 0", "0"));
    assert_eq!(label, "expected 1 to 8");
    assert_eq!(complaint("[supervisor]\ncores = 1", "[supervisor]\ncores = 0").1, "0");
}

#[test]
fn more_memory_than_there_is_is_refused_where_it_is_asked_for() {
    let (message, under, label, help) = complaint("\"256 MiB\"", "\"900 MiB\"");
    assert_eq!(message, "there is not enough memory for zone `search`: it wants 900 MiB");
    assert_eq!((under.as_str(), label.as_str()), ("\"900 MiB\"", "880 MiB of the machine's 1.00 GiB are left"));
    assert!(help.contains("16.0 MiB are the firmware's"), "{help}");
    assert_eq!(
        complaint("memory = \"128 MiB\"\n\n", "memory = \"2 GiB\"\n\n").0,
        "the supervisor cannot have 2.00 GiB"
    );
}

#[test]
fn too_little_memory_and_parts_of_a_lot_are_refused() {
    let (message, under, label, help) = complaint("\"256 MiB\"", "\"32 MiB\"");
    assert_eq!((message.as_str(), under.as_str()), ("a zone cannot do with 32.0 MiB", "\"32 MiB\""));
    assert_eq!(label, "expected 64.0 MiB or more");
    assert!(help.contains("image"), "{help}");
    let (message, _, label, _) = complaint("\"256 MiB\"", "\"255 MiB\"");
    assert_eq!(message, "memory changes hands in lots of 2.00 MiB");
    assert_eq!(label, "expected \"254 MiB\" or \"256 MiB\"");
    let text = "zone = \"search\"\nmemory = \"300 MiB\"\nmemory-reservation = \"300 MiB\"";
    assert!(complaint("zone = \"search\"", text).3.contains("give the zone more `memory`"));
}

#[test]
fn limits_beyond_a_zones_memory_are_a_warning_about_that_zone() {
    let text = GOOD.replacen("zone = \"search\"", "zone = \"search\"\nmemory = \"400 MiB\"", 1);
    let warnings = read_text(&text).unwrap().warnings;
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].message.starts_with("the tenants of zone `search` may hold 496 MiB together"));
}

#[test]
fn names_of_zones_are_checked_and_unknown_ones_suggested() {
    let (message, under, _, help) = complaint("zone = \"search\"", "zone = \"serach\"");
    assert_eq!((message.as_str(), under.as_str()), ("there is no zone `serach`", "\"serach\""));
    assert_eq!(help, "did you mean `search`?");
    assert_eq!(complaint("name = \"batch\"", "name = \"search\"").0, "the zone `search` is declared twice");
    let long = format!("name = \"{}\"", "x".repeat(32));
    let (_, _, label, _) = complaint("name = \"batch\"", &long);
    assert_eq!(label, "expected 1 to 31 of a-z, 0-9 and -");
    assert_eq!(complaint("name = \"batch\"", "name = \"supervisor\"").0, "the name `supervisor` is the machine's own");
    let none = "[image.a]\n[[tenant]]\nname = \"a\"\nzone = \"z\"\nshare = 1\nimage = \"a\"\n";
    assert_eq!(read_text(none).unwrap_err().to_string(), "there is no zone `z`");
}

#[test]
fn a_tenant_is_in_one_place() {
    let (message, under, label, _) = complaint("name = \"bronze\"", "name = \"gold\"");
    assert_eq!((message.as_str(), label.as_str()), ("the tenant `gold` is declared twice", "the second"));
    assert_eq!(under, "\"gold\"");
}

#[test]
fn a_device_is_given_once_and_is_not_the_tools() {
    let (message, under, label, _) = complaint("starts = false", "starts = false\ndevices = [\"00:1a.0\"]");
    assert_eq!((message.as_str(), under.as_str()), ("the device 00:1a.0 is given twice", "\"00:1a.0\""));
    assert_eq!(label, "the second");
    assert_eq!(complaint("00:1a.0", "00:05.0").0, "the device 00:05.0 is taken");
    assert_eq!(complaint("00:1a.0", "00:1f.2").0, "the device 00:1f.2 is taken", "it is the board's");
    assert_eq!(complaint("00:1a.0", "net1").2, "expected a PCI function as lspci writes it, such as 00:1a.0");
}

#[test]
fn words_that_there_are_not_are_refused_with_those_that_there_are() {
    assert_eq!(complaint("\"nested\"", "\"nestd\"").3, "did you mean `nested`?");
    assert_eq!(complaint("\"on-crash\"", "\"on_crush\"").3, "did you mean `on-crash`?");
    assert_eq!(complaint("\"2 s\"", "\"1 ms\"").2, "expected 100 ms to 1 h");
}

#[test]
fn a_supervisor_without_zones_is_refused() {
    let text = "[supervisor]\ncores = 1\n[image.a]\n[[tenant]]\nname = \"a\"\nshare = 1\nimage = \"a\"\n";
    let error = read_text(text).unwrap_err();
    assert_eq!(error.to_string(), "there is nothing to supervise");
}

#[test]
fn a_group_is_in_one_zone_and_shares_are_of_one() {
    let groups = |of_bronze: &str| {
        let text = GOOD.replace("zone = \"search\"", "zone = \"search\"\nactivity = \"shop\"");
        let text = text.replacen("zone = \"batch\"", &format!("zone = \"batch\"\nactivity = \"{of_bronze}\""), 1);
        let of = |name: &str| format!("[[activity]]\nname = \"{name}\"\nshare = 1\n");
        text.replacen("[image.web]", &format!("{}{}[image.web]", of("shop"), of("mill")), 1)
    };
    let read = read_text(&groups("mill")).unwrap();
    let names = |instance: Instance| instance.machine.activities.iter().map(|one| one.name.clone()).collect::<Vec<_>>();
    assert_eq!(read.instances().map(names).collect::<Vec<_>>(), [vec![], vec!["shop"], vec!["mill"]]);
    assert_eq!(read.zones[1].machine.tenants[1].parent, Some(0));
    let error = read_text(&groups("shop")).unwrap_err();
    assert_eq!(error.to_string(), "the group `shop` has tenants in two kernel instances");
    assert_eq!(complaint("\"40 %\"", "\"50 %\"").0, "the shares sum to 110 %, not to 100 %");
}

#[test]
fn sizes_of_the_whole_follow_from_its_parts_if_they_are_not_given() {
    let text = GOOD.replace("cores = 4\nmemory = \"1 GiB\"\n", "");
    assert_eq!(read_text(&text).unwrap_err().to_string(), "zone `search` cannot grow to 3 cores");
    let read = read_text(&text.replace("cores-max = 3\n", "")).unwrap();
    assert_eq!(read.whole, Some(Whole { cores: 3, memory_bytes: 406 << 20 }), "batch does not start");
}

#[test]
fn a_zone_without_tenants_is_a_warning_and_a_full_bus_an_error() {
    let text = GOOD.replace("zone = \"batch\"\n", "");
    let warnings = read_text(&text).unwrap().warnings;
    assert!(warnings.iter().any(|one| one.message == "zone `batch` has no tenants"), "{warnings:?}");
    let tenants: String = (0..26)
        .map(|at| format!("[[tenant]]\nname = \"t{at}\"\nzone = \"batch\"\nshare = 1\nimage = \"web\"\n"))
        .collect();
    let error = read_text(&(GOOD.replace("devices = [\"00:1a.0\"]\n", "") + &tenants)).unwrap_err();
    assert_eq!(error.to_string(), "the machine needs 33 cards and disks");
}

#[test]
fn the_example_is_a_machine_with_two_zones() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/zones.toml");
    let read = read(&path).unwrap();
    let names: Vec<&str> = read.machine.zones.iter().map(|zone| zone.name.as_str()).collect();
    assert_eq!(names, ["search", "batch"]);
    assert!(read.warnings.is_empty(), "{:?}", read.warnings);
}
