//! Machine files without zones: a good one becomes the machine that it describes, and each bad one is refused where it is wrong.
//!
//! The world of these tests is one good file, `GOOD`, with a link, a policy, an image and two tenants. `complaint` replaces a part of it
//! and returns what the reader says: the message, the text under the caret, the label and the help; so a test holds place and words
//! together.
//!
//! The tests hold that unknown names are told with the nearest right one, that limits, shares, promises, goals, ports, addresses,
//! policies and cells are checked at the key that is to blame, that all problems of a file are reported at once, and that findings for
//! programs have places. The guide of machine files is compared with the code: it names every key, resource and policy.
//!
//! Zones are in `zones_tests.rs`. No machine is built or started here.

use super::*;
use gyre_contract::{
    boot::{Overload, Refusal, Root, TenantKind},
    catalogue::Resource,
    policy::{Metric, Policy, Rate},
};

const GOOD: &str = r#"
name = "three"
cores = 2
memory = "512 MiB"

[link]
rate = "20 Mbit/s"

[policy.network-write]
policy = "weighted-fair"
metric = "bytes"
batch = 4
cores = [1]

[image.web]
packages = ["nginx"]
generate = { "/srv/www/4k.html" = "4 KiB" }

[[tenant]]
name = "gold"
share = "60 %"
image = "web"
command = ["/usr/sbin/nginx"]
environment = { LANG = "C" }
ports = ["8081:80"]
[tenant.load]
tool = "wrk"
path = "/4k.html"

[[tenant]]
name = "silver"
share = "40 %"
image = "web"
ports = ["8082:80"]
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

#[test]
fn each_process_may_have_a_limit_within_its_tenants() {
    let text = |value: &str| format!("image = \"web\"\nmemory = \"96 MiB\"\nprocess-memory = {value}");
    let machine = read_text(&GOOD.replacen("image = \"web\"", &text("\"8 MiB\""), 1)).unwrap().machine;
    assert_eq!(machine.tenants[1].limits.process_memory_bytes, Some(8 << 20));
    assert_eq!(machine.tenants[2].limits.process_memory_bytes, None);
    for wrong in ["\"100 MiB\"", "\"64 KiB\""] {
        let (message, under, label, help) = complaint("image = \"web\"", &text(wrong));
        assert!(message.starts_with("a process cannot be limited to"), "{message}");
        assert_eq!((under.as_str(), label.as_str()), (wrong, "expected 1.00 MiB to 96.0 MiB, the tenant's limit"));
        assert!(help.contains("together"), "{help}");
    }
    assert_eq!(complaint("image = \"web\"", &text("\"much\"")).1, "\"much\"");
}

#[test]
fn memory_has_a_limit_a_reservation_and_a_share() {
    let text = GOOD.replacen(
        "image = \"web\"",
        "image = \"web\"\nmemory = \"96 MiB\"\nmemory-reservation = \"32 MiB\"\nmemory-share = 3",
        1,
    );
    let limits = read_text(&text).unwrap().machine.tenants[1].limits;
    assert_eq!((limits.memory_bytes, limits.memory_reservation_bytes, limits.memory_share), (96 << 20, 32 << 20, 3));
}

#[test]
fn a_reservation_above_the_limit_is_refused() {
    let (message, under, label, help) =
        complaint("image = \"web\"", "image = \"web\"\nmemory = \"16 MiB\"\nmemory-reservation = \"32 MiB\"");
    assert_eq!((message.as_str(), under.as_str()), ("32.0 MiB cannot be reserved", "\"32 MiB\""));
    assert_eq!(label, "at most 16.0 MiB, the tenant's limit");
    assert!(help.contains("raise `memory`"), "{help}");
}

#[test]
fn a_group_has_a_limit_that_holds_what_is_reserved_below_it() {
    let group = |memory: &str| {
        let groups = format!(
            "[[activity]]\nname = \"all\"\nshare = 1\nmemory = {memory}\n\
             [[activity]]\nname = \"shop\"\nshare = 1\nparent = \"all\"\n\n[[tenant]]\nname = \"gold\""
        );
        let text = GOOD.replacen("[[tenant]]\nname = \"gold\"", &groups, 1);
        text.replacen("image = \"web\"", "image = \"web\"\nactivity = \"shop\"\nmemory-reservation = \"32 MiB\"", 1)
    };
    let machine = read_text(&group("\"32 MiB\"")).unwrap().machine;
    assert_eq!(machine.activities[0].memory_bytes, Some(32 << 20));
    assert_eq!(machine.activities[1].memory_bytes, None);
    for (memory, label) in
        [("\"31 MiB\"", "at least 32.0 MiB"), ("\"0 B\"", "at least 32.0 MiB"), ("\"much\"", "expected a size")]
    {
        let text = group(memory);
        let error = read_text(&text).expect_err(memory);
        let (span, seen) = error.problems().next().unwrap().labels.first().cloned().unwrap();
        assert_eq!(text.get(span), Some(memory), "{seen}");
        assert!(seen.contains(label), "{seen}");
    }
}

#[test]
fn reservations_leave_something_to_the_kernel() {
    let (message, _, label, _) =
        complaint("image = \"web\"", "image = \"web\"\nmemory = \"500 MiB\"\nmemory-reservation = \"500 MiB\"");
    assert!(message.contains("500 MiB"), "{message}");
    assert!(label.contains("of 512 MiB"), "{label}");
}

#[test]
fn a_good_file_becomes_the_machine_that_it_describes() {
    let read = read_text(GOOD).unwrap();
    let machine = &read.machine;
    assert_eq!((machine.cores, machine.memory_bytes), (2, 512 << 20));
    assert_eq!(machine.link.rate_bits_per_second, Some(20_000_000));
    let policy = &machine.resources[0];
    assert_eq!((policy.resource, policy.batch, policy.cores), (Resource::NetworkWrite, 4, 0b10));
    assert_eq!((&policy.policy, policy.metric), (&Policy::default(), Metric::Bytes));
    assert_eq!(machine.tenants[0].kind, TenantKind::System);
    assert_eq!(machine.tenants[0].share, 5_000);
    let gold = &machine.tenants[1];
    assert_eq!((gold.share, gold.address, gold.root), (60_000, [10, 77, 0, 11], Root::Disk(0)));
    assert_eq!(gold.program.as_ref().unwrap().environment, ["LANG=C"]);
    assert_eq!(
        read.tenants[0].ports,
        [Forward { address: [127, 0, 0, 1].into(), host: 8081, guest: 80, protocol: Protocol::Tcp }]
    );
    assert_eq!(read.tenants[0].load.as_ref().unwrap().connections, 8);
    assert_eq!(read.images["web"].generate["/srv/www/4k.html"], 4096);
    assert!(read.warnings.is_empty());
}

#[test]
fn an_unknown_key_is_named_and_the_right_one_suggested() {
    let (message, under, _, help) = complaint("batch = 4", "bacth = 4");
    assert_eq!((message.as_str(), under.as_str()), ("unknown key `bacth`", "bacth"));
    assert_eq!(help, "did you mean `batch`?");
}

#[test]
fn an_unknown_policy_is_named_and_the_right_one_suggested() {
    let (message, under, _, help) = complaint("\"weighted-fair\"", "\"wieghted-fair\"");
    assert_eq!(message, "there is no policy `wieghted-fair`");
    assert_eq!((under.as_str(), help.as_str()), ("\"wieghted-fair\"", "did you mean `weighted-fair`?"));
}

#[test]
fn an_unknown_resource_is_named_and_the_right_one_suggested() {
    let (message, under, _, help) = complaint("[policy.network-write]", "[policy.netwrok-write]");
    assert_eq!((message.as_str(), under.as_str()), ("there is no resource `netwrok-write`", "netwrok-write"));
    assert_eq!(help, "did you mean `network-write`?");
}

#[test]
fn too_many_cores_are_refused_at_the_number() {
    let (message, under, label, _) = complaint("cores = 2", "cores = 64");
    assert_eq!(message, "the number of cores cannot be 64");
    assert_eq!((under.as_str(), label.as_str()), ("64", "expected 1 to 8"));
    assert_eq!(complaint("cores = [1]", "cores = [2]").0, "a core of this machine cannot be 2");
    assert_eq!(complaint("cores = 2", "cores = -1").0, "the number of cores cannot be -1");
}

#[test]
fn a_missing_key_is_named_where_it_should_stand() {
    let (message, under, _, _) = complaint("image = \"web\"\ncommand", "command");
    assert_eq!((message.as_str(), under.as_str()), ("the key `image` is missing", "[[tenant]]"));
}

#[test]
fn nothing_stands_beside_an_image_that_exists() {
    let text = |more: &str| format!("[image.other]\nready = \"Cargo.toml\"\n{more}\n[tenant.load]");
    read_text(&GOOD.replacen("[tenant.load]", &text(""), 1)).unwrap();
    let others = [
        ("packages = [\"nginx\"]", "\"nginx\""),
        ("directory = \"src\"", "\"src\""),
        ("files = { \"/etc/motd\" = \"Cargo.toml\" }", "\"/etc/motd\""),
        ("generate = { \"/4k\" = \"4 KiB\" }", "\"/4k\""),
        ("size = \"32 MiB\"", "\"32 MiB\""),
        ("oci = \"src\"", "\"src\""),
    ];
    for (other, blamed) in others {
        let (message, under, label, _) = complaint("[tenant.load]", &text(other));
        assert_eq!(message, "a `ready` image is taken as it is", "{other}");
        assert_eq!((under.as_str(), label.as_str()), (blamed, "this would be ignored"));
    }
}

#[test]
fn two_tenants_of_one_name_are_both_shown() {
    let (message, under, label, _) = complaint("name = \"silver\"", "name = \"gold\"");
    assert_eq!(message, "the tenant `gold` is declared twice");
    assert_eq!((under.as_str(), label.as_str()), ("\"gold\"", "the second"));
}

#[test]
fn a_port_forwarded_twice_shows_both_places() {
    let (message, under, _, _) = complaint("8082:80", "8081:81");
    assert_eq!((message.as_str(), under.as_str()), ("port 8081 of the host is forwarded twice", "\"8081:81\""));
}

#[test]
fn malformed_ports_say_what_was_expected() {
    for bad in ["8082", "0:80", "8082:99999", "a:b", ":", "-1:80"] {
        let (_, _, label, _) = complaint("8082:80", bad);
        assert_eq!(label, "expected \"HOST:GUEST\", such as \"8081:80\"", "{bad}");
    }
}

#[test]
fn shares_that_do_not_sum_to_100_are_shown_with_their_sum() {
    let (message, _, _, help) = complaint("40 %", "50 %");
    assert_eq!(message, "the shares sum to 110 %, not to 100 %");
    assert!(help.contains("weights without %"));
}

#[test]
fn shares_that_make_no_sense_are_refused() {
    assert_eq!(complaint("\"40 %\"", "0").0, "this share makes no sense");
    assert_eq!(complaint("\"40 %\"", "-3").0, "this share makes no sense");
    assert_eq!(complaint("\"40 %\"", "\"lots\"").0, "`lots` is not a share");
    assert_eq!(complaint("\"40 %\"", "3").0, "weights and percentages cannot be mixed");
}

#[test]
fn a_size_without_sense_says_what_was_expected() {
    let (message, under, label, _) = complaint("\"512 MiB\"", "\"512 parsecs\"");
    assert_eq!((message.as_str(), under.as_str()), ("`512 parsecs` cannot be read", "\"512 parsecs\""));
    assert!(label.contains("\"512 MiB\""), "{label}");
    assert_eq!(complaint("\"512 MiB\"", "\"1 MiB\"").0, "a machine cannot have 1.00 MiB of memory");
}

#[test]
fn wrong_types_and_broken_toml_are_marked_where_they_are() {
    assert_eq!(complaint("cores = 2", "cores = \"two\"").1, "\"two\"");
    let (_, under, _, _) = complaint("batch = 4", "batch = = 4");
    assert!(under.contains('='), "{under:?}");
}

#[test]
fn an_image_that_does_not_exist_is_named() {
    let (message, _, _, help) = complaint("image = \"web\"", "image = \"wbe\"");
    assert_eq!((message.as_str(), help.as_str()), ("there is no image `wbe`", "did you mean `web`?"));
}

#[test]
fn bad_addresses_are_refused_and_taken_ones_named() {
    let with = |address: &str| complaint("image = \"web\"", &format!("address = \"{address}\"\nimage = \"web\"")).0;
    assert_eq!(with("10.77.0"), "`10.77.0` is not an IPv4 address");
    assert_eq!(with("10.77.0.2"), "10.77.0.2 is not free for a tenant");
    assert_eq!(with("192.168.0.7"), "192.168.0.7 is not free for a tenant");
    assert_eq!(with("10.77.0.12"), "the address 10.77.0.12 is taken");
}

#[test]
fn reserved_and_malformed_names_are_refused() {
    assert_eq!(complaint("\"silver\"", "\"system\"").0, "the name `system` is the machine's own");
    assert_eq!(complaint("\"silver\"", "\"Sil ver\"").0, "a tenant cannot be named `Sil ver`");
}

#[test]
fn a_bucket_without_rate_and_a_rate_without_bucket_are_refused() {
    assert_eq!(complaint("\"weighted-fair\"", "\"token-bucket\"").0, "the policy token-bucket needs a rate");
    assert_eq!(complaint("batch = 4", "rate = \"1 Mbit/s\"").0, "`rate` has no meaning here");
}

/// Returns the errors about a promise to silver at a resource with such a policy.
fn promise(policy: &str, at: &str, promise: &str) -> Result<Description, (String, String)> {
    let text = format!("{GOOD}\n[tenant.entitlement.{at}]\n{promise}\n{policy}");
    read_text(&text).map_err(|error| {
        let problem = error.problems().next().unwrap().clone();
        let (span, _) = problem.labels.first().cloned().unwrap_or_default();
        (problem.message, text.get(span).unwrap_or("").to_owned())
    })
}

#[test]
fn a_promise_that_the_policy_keeps_is_read_with_its_unit() {
    let mclock = "[policy.cpu]\npolicy = \"reservation-limit-share\"";
    let read = promise(mclock, "cpu", "reservation = \"50 %\"\nlimit = \"150 %\"").unwrap();
    let silver = &read.machine.tenants.last().unwrap().entitlements[0];
    assert_eq!(silver.reservation, Some(Rate::CoreThousandths(500)));
    assert_eq!(silver.limit, Some(Rate::CoreThousandths(1500)));
    let bucket = "[policy.block]\npolicy = \"token-bucket\"\nrate = \"10 MB/s\"";
    let read = promise(bucket, "block", "limit = \"1 MB/s\"").unwrap();
    assert_eq!(read.machine.tenants.last().unwrap().entitlements[0].limit, Some(Rate::PerSecond(1_000_000)));
    assert_eq!(read.machine.resources[0].metric, Metric::Bytes, "at a disk bytes are scarce unless one says otherwise");
}

#[test]
fn a_promise_that_nobody_would_keep_is_refused_where_it_stands() {
    let refused = |policy, at, text| promise(policy, at, text).unwrap_err();
    let (message, under) = refused("", "cpu", "limit = \"20 %\"");
    assert_eq!(message, "`limit` has no meaning under the policy that stands there");
    assert_eq!(under, "\"20 %\"");
    assert_eq!(refused("", "block", "reservation = \"1 MB/s\"").1, "\"1 MB/s\"");
    assert_eq!(refused("", "cpu", "deadline = \"1 ms\"").1, "\"1 ms\"");
    assert_eq!(refused("", "tcp", "share = 3").0, "`tcp` has no scheduler of its own: its cycles are shared at `cpu`");
    let mclock = "[policy.io-stream]\npolicy = \"reservation-limit-share\"\nmetric = \"bytes\"";
    assert_eq!(refused(mclock, "io-stream", "limit = \"20 %\"").0, "`20 %` is a part of a core");
    let mclock = "[policy.cpu]\npolicy = \"reservation-limit-share\"";
    assert_eq!(
        refused(mclock, "cpu", "reservation = \"300 %\"").0,
        "300 % of a core are reserved together, at most 180 % can be"
    );
    let (message, _) = refused(mclock, "cpu", "reservation = \"50 %\"\nlimit = \"20 %\"");
    assert_eq!(message, "the reservation is above the limit");
}

#[test]
fn a_metric_that_a_resource_does_not_count_is_refused() {
    let uncounted = |resource: &str, metric: &str| {
        let text = format!("{GOOD}\n[policy.{resource}]\npolicy = \"worst-case-fair\"\nmetric = \"{metric}\"\n");
        read_text(&text).err().map(|error| error.problems().next().unwrap().message.clone())
    };
    assert_eq!(uncounted("tmpfs", "bytes").as_deref(), Some("`tmpfs` does not count bytes"));
    assert_eq!(uncounted("storage", "bytes"), None);
    assert_eq!(uncounted("file-cache", "bytes"), None);
    assert_eq!(uncounted("io-stream", "device-time").as_deref(), Some("`io-stream` does not count device-time"));
    assert_eq!(uncounted("io-stream", "bytes"), None);
    assert_eq!(uncounted("block", "device-time"), None);
    assert_eq!(uncounted("ext2", "messages"), None);
}

#[test]
fn a_rate_of_another_metric_is_refused() {
    let bucket = |metric: &str, rate: &str| {
        let text = format!("{GOOD}\n[policy.storage]\npolicy = \"token-bucket\"\n{metric}rate = \"{rate}\"\n");
        read_text(&text).err().map(|error| error.problems().next().unwrap().message.clone())
    };
    assert_eq!(bucket("", "1 MB/s").as_deref(), Some("a rate of bytes does not bound cycles"));
    let bytes = "metric = \"bytes\"\n";
    assert_eq!(bucket(bytes, "20 %").as_deref(), Some("a rate of cycles does not bound bytes"));
    assert_eq!((bucket(bytes, "1 MB/s"), bucket(bytes, "1000 /s"), bucket("", "20 %")), (None, None, None));
}

#[test]
fn every_problem_of_a_file_is_reported_at_once_in_order() {
    let text = GOOD.replace("cores = 2", "cores = 9").replace("8082:80", "x").replace("wrk", "wrck");
    let error = read_text(&text).unwrap_err();
    let found: Vec<_> = error.problems().map(|problem| problem.message.as_str()).collect();
    assert_eq!(found, ["the number of cores cannot be 9", "there is no load tool `wrck`", "`x` is not a port forward"]);
}

#[test]
fn more_memory_promised_than_there_is_is_a_warning() {
    let text = GOOD.replace("image = \"web\"", "memory = \"400 MiB\"\nimage = \"web\"");
    let read = read_text(&text).unwrap();
    assert_eq!(read.warnings.len(), 1);
    assert!(read.warnings[0].message.starts_with("the tenants may hold 832 MiB together"));
}

#[test]
fn a_groups_limit_bounds_what_its_tenants_promise() {
    let groups = |memory: &str| {
        let groups = format!(
            "[[activity]]\nname = \"all\"\nshare = 1\nmemory = \"{memory}\"\n\
             [[activity]]\nname = \"shop\"\nshare = 1\nparent = \"all\"\n\n[[tenant]]\nname = \"gold\""
        );
        let text = GOOD.replacen("[[tenant]]\nname = \"gold\"", &groups, 1);
        text.replace("image = \"web\"", "memory = \"400 MiB\"\nimage = \"web\"\nactivity = \"shop\"")
    };
    assert!(read_text(&groups("400 MiB")).unwrap().warnings.is_empty());
    let warnings = read_text(&groups("500 MiB")).unwrap().warnings;
    assert!(warnings[0].message.starts_with("the tenants may hold 532 MiB together"), "{}", warnings[0].message);
}

#[test]
fn a_file_that_is_not_there_is_an_error_with_advice() {
    let error = read(Path::new("/nonexistent/machine.toml")).unwrap_err();
    assert!(error.to_string().contains("cannot be read"));
}

#[test]
fn an_empty_file_says_that_tenants_are_missing() {
    assert_eq!(read_text("").unwrap_err().to_string(), "the machine has no tenants");
}

#[test]
fn an_overload_controller_is_off_until_a_tenant_has_one() {
    let with = |keys: &str| parse(Path::new("m.toml"), &format!("{GOOD}\n[tenant.overload]\n{keys}\n"));
    let last = |keys| with(keys).map(|read| read.machine.tenants.last().unwrap().overload);
    let plain = parse(Path::new("m.toml"), GOOD).unwrap();
    assert!(plain.machine.tenants.iter().all(|tenant| tenant.overload.is_none()));
    let (delay_ns, refuse) = (100_000_000, Refusal::Silence);
    assert_eq!(last("").unwrap(), Some(Overload { delay_ns, refuse }));
    let told = last("delay = \"20 ms\"\nrefuse = \"reset\"").unwrap();
    assert_eq!(told, Some(Overload { delay_ns: 20_000_000, refuse: Refusal::Reset }));
    for (bad, expected) in [
        ("delay = \"10 us\"", "1 ms to 10 s"),
        ("delay = \"11 s\"", "1 ms to 10 s"),
        ("refuse = \"resett\"", "did you mean `reset`"),
        ("limit = 3", "limit"),
    ] {
        let found = format!("{:?}", with(bad).unwrap_err().findings());
        assert!(found.contains(expected), "{bad}: {found}");
    }
}

const GUIDE: &str = include_str!("../../../docs/guide/machine-file.md");

#[test]
fn the_machine_in_the_guide_is_one() {
    let start = GUIDE.find("```toml\n").unwrap() + "```toml\n".len();
    let end = start + GUIDE[start..].find("```").unwrap();
    let read = read_text(&GUIDE[start..end]).unwrap();
    assert_eq!(read.machine.tenants.len(), 3);
}

#[test]
fn the_guide_names_every_key_and_every_name_that_a_file_may_hold() {
    let raw = include_str!("raw.rs");
    let fields = raw.lines().filter_map(|line| line.trim().strip_prefix("pub(super) ")?.split_once(':'));
    let keys = fields.map(|(name, _)| name.replace('_', "-")).filter(|key| key != "parameters");
    let resources = Resource::all().map(|resource| resource.file_name().to_owned());
    let tables = ["struct", "enum", "fn"];
    for name in keys.chain(resources).filter(|name| !tables.iter().any(|table| name.starts_with(table))) {
        let is_named = [format!("`{name}`"), format!("[{name}"), format!(".{name}."), format!("{name} = ")]
            .iter()
            .any(|form| GUIDE.contains(form));
        assert!(is_named, "docs/guide/machine-file.md does not name `{name}`");
    }
}

/// Returns the names between back quotes, in order; what stands in parentheses is left out.
fn quoted(text: &str) -> Vec<&str> {
    let outside = text.split('(').enumerate().flat_map(|(at, part)| match at {
        0 => part.split('`').skip(1).step_by(2).collect::<Vec<_>>(),
        _ => part.split_once(')').map_or("", |(_, rest)| rest).split('`').skip(1).step_by(2).collect(),
    });
    outside.collect()
}

/// Returns the part of the guide between two pieces of its text.
fn between<'a>(start: &str, end: &str) -> &'a str {
    let rest = GUIDE.split_once(start).expect(start).1;
    rest.split_once(end).expect(end).0
}

#[test]
fn the_guide_lists_the_resources_of_the_catalogue_in_its_order() {
    let names = |keep: &dyn Fn(Resource) -> bool| {
        Resource::all().filter(|one| keep(*one)).map(Resource::file_name).collect::<Vec<_>>()
    };
    assert_eq!(quoted(between("RESOURCE is ", "Whatever is handled")), names(&|_| true));
    let reporting = |metric| names(&|one: Resource| one.counts(metric));
    assert_eq!(quoted(between("`bytes` at ", ";")), reporting(Metric::Bytes));
    assert_eq!(quoted(between("`device-time` at ", "|")), reporting(Metric::DeviceTime));
    assert_eq!(quoted(between("| bytes for ", ", else cycles")), names(&Resource::is_usually_gate));
}

/// With `GYRE_WRITE` in the environment the test writes the tables instead of comparing them.
#[test]
fn the_guide_shows_the_list_of_policies_and_their_parameters() {
    let marks = ["<!-- policies: begin -->\n", "<!-- policies: end -->"];
    let [begin, end] = marks.map(|mark| GUIDE.find(mark).expect("the guide has the marks of the tables"));
    let (before, after) = (&GUIDE[..begin + marks[0].len()], &GUIDE[end..]);
    let wanted = format!("{before}{}{after}", words::policy_tables());
    if std::env::var_os("GYRE_WRITE").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/machine-file.md");
        return std::fs::write(path, wanted).unwrap();
    }
    assert!(GUIDE == wanted, "GYRE_WRITE=1 cargo test -p gyre-machine-file the_guide_shows writes these tables anew");
}

#[test]
fn a_package_that_debian_does_not_have_is_told_with_its_place_and_the_nearest_name() {
    let text = GOOD.replace("packages = [\"nginx\"]", "packages = [\"ngimx\"]");
    let description = parse(Path::new("m.toml"), &text).unwrap();
    let known = ["nginx", "wrk"].map(String::from).into();
    let error = description.check_packages(&text, &known).unwrap_err();
    let found = &error.findings()[0];
    let line = text.lines().position(|line| line.contains("ngimx")).unwrap() + 1;
    assert_eq!((found.line, found.column), (Some(line), Some(13)));
    assert_eq!(found.suggestion.as_deref(), Some("did you mean `nginx`?"));
    let known = ["ngimx"].map(String::from).into();
    assert!(description.check_packages(&text, &known).is_ok());
}

#[test]
fn findings_for_programs_say_place_expectation_and_suggestion() {
    let path = Path::new("m.toml");
    let error = parse(path, "name = \"m\"\ncores = \"two\"\n").unwrap_err();
    let found = &error.findings()[0];
    assert_eq!((found.line, found.column, found.expected.as_deref()), (Some(2), Some(9), Some("a whole number")));
    assert!(!found.message.contains("i64"), "{found:?}");
    let error = read(Path::new("no such file.toml")).unwrap_err();
    assert_eq!(error.findings()[0].line, None);
}

#[test]
fn names_of_machines_and_images_are_names_of_files_and_lead_nowhere() {
    let with = |machine: &str, image: &str| {
        let text = format!(
            "name = \"{machine}\"\n[image.\"{image}\"]\n[[tenant]]\nname = \"a\"\nshare = 1\nimage = \"{image}\"\n"
        );
        parse(Path::new("m.toml"), &text)
    };
    assert!(with("three-tenants_2.1", "Web.1").is_ok());
    for bad in ["", "..", ".", "../x", "a/b", "/etc", "-m", ".hidden", "a\u{e9}", "a b", &"x".repeat(65)] {
        assert!(with(bad, "web").is_err(), "machine {bad}");
        assert!(with("m", bad).is_err(), "image {bad}");
    }
    let unnamed = "[image.a]\n[[tenant]]\nname = \"a\"\nshare = 1\nimage = \"a\"\n";
    assert!(parse(Path::new("a b.toml"), unnamed).unwrap_err().to_string().contains("a b"));
}

/// Returns the text of [`GOOD`] with a goal for silver and these lines behind it.
fn with_goal(goal: &str, behind: &str) -> Result<Description, String> {
    let text = format!("{GOOD}\n[tenant.goal]\n{goal}\n{behind}");
    read_text(&text).map_err(|error| error.problems().next().unwrap().message.clone())
}

#[test]
fn a_goal_is_one_number_with_a_unit() {
    use gyre_contract::goals::{Aim, BrokerPolicy, Measure};
    let read =
        with_goal("p99 = \"200 ms\"", "[broker]\npolicy = \"threshold\"\nstep = \"5 %\"\npause = \"2s\"").unwrap();
    let goal = read.machine.tenants.last().unwrap().goal.unwrap();
    assert_eq!(goal.aim, Aim::Response { thousandths: 990, target_ns: 200_000_000 });
    let broker = &read.machine.broker;
    assert_eq!((broker.policy, broker.step_thousandths, broker.pause_ms), (Some(BrokerPolicy::Threshold), 50, 2000));
    let goal = with_goal("rate = \"30/s\"\nmeasure = \"beats\"\npenalty = 7", "").unwrap();
    let goal = goal.machine.tenants.last().unwrap().goal.unwrap();
    assert_eq!((goal.aim, goal.measure, goal.penalty), (Aim::Rate(30_000), Measure::Beats, 7));
    assert_eq!(with_goal("penalty = 7", "").unwrap_err(), "the goal has no number");
    assert_eq!(with_goal("p99 = \"1 ms\"\nrate = \"1/s\"", "").unwrap_err(), "the goal has several numbers");
    assert_eq!(with_goal("p99 = \"1 ns\"", "").unwrap_err(), "a response time of 1 ns cannot be a goal");
    assert!(with_goal("rate = \"30\"", "").unwrap_err().contains("cannot be read"));
    assert_eq!(
        with_goal("rate = \"1/s\"", "[broker]\npolicy = \"best\"").unwrap_err(),
        "there is no policy of the broker `best`"
    );
}

#[test]
fn delays_of_overload_controllers_are_the_owners_unless_they_follow_goals() {
    use gyre_contract::goals::Delays;
    let with = |keys: &str| with_goal("p99 = \"1 s\"", &format!("[broker]\n{keys}"));
    let whose = |keys: &str| with(keys).unwrap().machine.broker.overload;
    assert_eq!((whose(""), whose("overload = \"owner\"")), (Delays::Owners, Delays::Owners));
    assert_eq!(whose("overload = \"goals\""), Delays::FollowGoals);
    assert!(with("overload = \"mine\"").unwrap_err().contains("`mine`"));
}

#[test]
fn a_broker_divides_the_link_only_if_it_has_a_rate() {
    use gyre_contract::goals::Divides;
    let goal = "rate = \"1/s\"";
    let with = |names: &str| with_goal(goal, &format!("[broker]\ndivides = {names}"));
    let divides = |names: &str| with(names).unwrap().machine.broker.divides;
    assert_eq!((divides("[\"cpu\"]"), divides("[\"link\"]")), (Divides::Cpu, Divides::CpuAndLink));
    assert_eq!(divides("[\"cpu\", \"link\"]"), Divides::CpuAndLink);
    assert!(with("[\"disk\"]").unwrap_err().contains("`disk`"));
    let unlimited =
        format!("{GOOD}\n[tenant.goal]\n{goal}\n[broker]\ndivides = [\"link\"]").replace("rate = \"20 Mbit/s\"", "");
    let refused = read_text(&unlimited).unwrap_err();
    assert!(refused.problems().any(|one| one.message.contains("link without a rate")), "{refused}");
}

#[test]
fn a_budget_comes_with_its_period() {
    let edf = "[policy.cpu]\npolicy = \"edf\"";
    let read = promise(edf, "cpu", "period = \"20 ms\"\nbudget = \"5 ms\"").unwrap();
    let silver = &read.machine.tenants.last().unwrap().entitlements[0];
    assert_eq!(silver.period_ns, Some(20_000_000));
    assert_eq!(silver.budget, Some(gyre_contract::policy::Budget::Time(5_000_000)));
    assert_eq!(promise(edf, "cpu", "period = \"20 ms\"").unwrap_err().0, "a period needs a budget");
    assert_eq!(
        promise(edf, "cpu", "period = \"20 ms\"\nbudget = \"21 ms\"").unwrap_err().0,
        "the budget is longer than the period"
    );
}

/// Replaces the end of the good file's first tenant by a cell, and says what the reader says of it.
fn complaint_of_cell(cell: &str) -> (String, String, String, String) {
    complaint("[tenant.load]", &format!("[tenant.cell]\n{cell}\n[tenant.load]"))
}

#[test]
fn a_cell_in_time_is_read_with_its_defaults() {
    let cell = "[tenant.cell]\ntiming = \"event-triggered\"\ncores = [0, 1]\nactive = \"20 ms\"\n[tenant.load]";
    let machine = read_text(&GOOD.replacen("[tenant.load]", cell, 1)).unwrap().machine;
    let found = machine.tenants[1].cell.unwrap();
    assert_eq!((found.cores, found.period_ns, found.active_ns), (3, 100_000_000, 20_000_000));
    assert!(!found.lends && machine.tenants[2].cell.is_none());
}

#[test]
fn cells_that_cannot_be_are_refused_at_the_key_that_is_to_blame() {
    let (message, under, ..) =
        complaint_of_cell("timing = \"time-triggered\"\ncores = [1]\nperiod = \"10 ms\"\nactive = \"9.5 ms\"");
    assert!(message.contains("core 1 would be promised to 95.0 %"), "{message}");
    assert_eq!(under, "\"9.5 ms\"");
    let (message, under, ..) = complaint_of_cell("timing = \"best-effort\"\ncores = [2]");
    assert!(message.contains("does not have"), "{message}");
    assert_eq!(under, "[2]");
    let (message, ..) = complaint_of_cell("timing = \"dedicated\"\ncores = [0, 1]");
    assert!(message.contains("no core for all others"), "{message}");
    let (message, _, _, help) = complaint_of_cell("timing = \"time-triggered\"\ncores = [1]");
    assert!(message.contains("has no active time") && help.contains("active ="), "{message} {help}");
    let (message, under, ..) = complaint_of_cell("timing = \"dedicated\"\ncores = []");
    assert!(message.contains("names no core") && under == "[]", "{message}");
}

#[test]
fn a_model_says_how_work_comes() {
    let of = |lines: &str| {
        let text = format!(
            "cores = 1\nmemory = \"256 MiB\"\n[image.a]\npackages = []\nsize = \"32 MiB\"\n[[tenant]]\nname = \"a\"\nshare = 1\nimage = \"a\"\ncommand = [\"/x\"]\n[tenant.model]\n{lines}\n"
        );
        parse(Path::new("m.toml"), &text)
    };
    let model = |lines: &str| of(lines).unwrap().tenants[0].model.unwrap();
    let rate = Model { arrival: Arrival::Rate(200_000), work_ns: 4_000_000, varies_percent: 25 };
    assert_eq!(model("rate = \"200/s\"\nwork = \"4 ms\""), rate);
    let clients = Model { arrival: Arrival::Clients(1), work_ns: 30_000, varies_percent: 10 };
    assert_eq!(model("clients = 1\nwork = \"30 us\"\nvaries = \"10 %\""), clients);
    for wrong in [
        "work = \"4 ms\"",
        "clients = 1\nrate = \"1/s\"\nwork = \"4 ms\"",
        "clients = 0\nwork = \"4 ms\"",
        "clients = 1\nwork = \"0 ms\"",
        "clients = 1",
    ] {
        assert!(of(wrong).is_err(), "{wrong}");
    }
}
