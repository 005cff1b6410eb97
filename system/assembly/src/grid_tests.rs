use super::*;
use gyre_contract::boot::{Link, LogLevel, Way};
use gyre_contract::policy::Setting;
use gyre_schedulers::POLICIES;
use gyre_schedulers::list::Fallback;

pub(crate) fn description() -> Machine {
    Machine {
        name: "test".into(),
        cores: 1,
        memory_bytes: 64 << 20,
        log_level: LogLevel::Info,
        time_slice_us: 4000,
        messages: Dispatch::Inline,
        started_unix_s: 0,
        has_percent_shares: false,
        seed: [7; 32],
        link: Link {
            mac: [2; 6],
            gateway: [10, 77, 0, 1],
            prefix_bits: 24,
            rate_bits_per_second: None,
            way: Way::Card,
        },
        disk_depth: 0,
        resources: Vec::new(),
        activities: Vec::new(),
        broker: Default::default(),
        tenants: Vec::new(),
        zones: Vec::new(),
        cells_bytes: 0,
        cells_runtimes: Vec::new(),
        cells_devices: vec![],
        neighbours: Vec::new(),
        served_disks: 0,
        files: Vec::new(),
        places: 0,
    }
}

fn with_defaults(name: &str) -> Choice {
    let listed = gyre_schedulers::list::find(name).unwrap();
    let required = listed.parameters.iter().filter(|one| matches!(one.default, Fallback::Required(_)));
    let setting = |parameter: &str| Setting { parameter: parameter.into(), value: Value::Plain(1_000_000) };
    Choice { settings: required.map(|one| setting(one.name)).collect(), ..Choice::of(listed) }
}

fn machine(policy: ConfiguredPolicy) -> Machine {
    let at = |resource: Resource| ResourcePolicy {
        resource,
        policy: policy.clone(),
        metric: resource.usual_metric(),
        batch: 1,
        cores: 1,
        priority: 0,
        queue_depth: 16,
    };
    Machine { resources: Resource::all().map(at).collect(), ..description() }
}

fn engine(machine: &Machine) -> &'static Engine {
    build(machine, Box::leak(Box::new(Accounts::new(1)))).expect("the catalogue is a grid")
}

#[test]
fn every_policy_of_the_list_stands_at_every_resource_alone_and_below_another() {
    for outer in POLICIES {
        let flat = ConfiguredPolicy::flat(with_defaults(outer.name));
        assert_eq!(built(&machine(flat.clone()), "cpu", &flat, Metric::Cycles).unwrap().name(), outer.name);
        assert!(configure(&machine(flat.clone())).is_ok(), "{}", outer.name);
        for inner in POLICIES {
            let nested = ConfiguredPolicy { inner: Some(with_defaults(inner.name)), ..flat.clone() };
            assert_eq!(built(&machine(nested.clone()), "cpu", &nested, Metric::Cycles).unwrap().name(), "tree");
        }
    }
}

#[test]
fn a_name_that_is_not_on_the_list_is_refused() {
    let unknown = ConfiguredPolicy::flat(Choice { name: "none".into(), settings: Vec::new() });
    assert_eq!(configure(&machine(unknown)).err(), Some(PolicyError::NoSuchPolicy));
}

#[test]
fn each_resource_and_each_machine_has_a_seed_of_its_own() {
    let machine = description();
    assert_ne!(seed(&machine, "block"), seed(&machine, "tcp"));
    assert_ne!(seed(&machine, "block"), seed(&Machine { seed: [9; 32], ..machine.clone() }, "block"));
}

#[test]
fn the_engine_knows_each_resource_by_the_number_that_code_uses() {
    let machine = description();
    let engine = engine(&machine);
    for resource in below_cpu() {
        assert_eq!(engine.resource(resource.engine_name()), Some(id(resource)));
    }
    assert_eq!(id(Resource::Cpu), COMPUTE);
    assert_eq!(
        engine.resource_ids().count(),
        Resource::COUNT + 2,
        "the catalogue and the engine's `runtime` and `lease`"
    );
    assert_eq!(gates(&machine).collect::<Vec<_>>(), [Resource::Block, Resource::NetworkWrite, Resource::ZoneLink]);
}

#[test]
fn a_metric_of_its_own_makes_a_resource_a_gate() {
    let asked = ResourcePolicy {
        resource: Resource::Ext2,
        policy: ConfiguredPolicy::default(),
        metric: ConfiguredMetric::Bytes,
        batch: 1,
        cores: 1,
        priority: 0,
        queue_depth: 256,
    };
    let machine = Machine { resources: alloc::vec![asked], ..description() };
    let engine = engine(&machine);
    assert!(has_gate(&machine, Resource::Ext2) && !has_gate(&machine, Resource::FileCache));
    assert!(engine.resource_info(id(Resource::Ext2)).is_some_and(|info| info.is_gate));
    assert!(!engine.resource_info(id(Resource::FileCache)).is_some_and(|info| info.is_gate));
}
