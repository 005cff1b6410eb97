use super::*;
use alloc::boxed::Box;
use alloc::vec;
use gyre_contract::boot::{Limits, Neighbours, Orphans, Root, Tenant, TenantKind};
use gyre_contract::policy::ResourcePolicy;

fn tenant(name: &str) -> Tenant {
    Tenant {
        name: name.into(),
        kind: TenantKind::Customer,
        parent: None,
        share: 1,
        entitlements: vec![],
        limits: Limits::default(),
        monitor: false,
        address: [10, 77, 0, 11],
        root: Root::Disk(0),
        program: None,
        ports: vec![],
        overload: None,
        goal: None,
        cell: None,
        restart: gyre_contract::boot::Restart::Never,
        volumes: vec![],
        orphans: Orphans::Program,
        neighbours: Neighbours::All,
    }
}

/// A machine with two tenants and this policy at processor and network.
fn table(policy: &str) -> Table {
    let listed = gyre_schedulers::list::find(policy).unwrap();
    let at = |resource: Resource| ResourcePolicy {
        resource,
        policy: Policy::flat(Choice::of(listed)),
        metric: resource.usual_metric(),
        batch: 1,
        cores: u64::MAX,
        priority: 0,
        queue_depth: 64,
    };
    let mut machine = crate::grid::tests::description();
    machine.link.rate_bits_per_second = Some(8_000_000);
    machine.resources = vec![at(Resource::Cpu), at(Resource::NetworkWrite)];
    machine.tenants = vec![tenant("gold"), tenant("bronze")];
    Table::of(Box::leak(Box::new(machine)))
}

fn reserved(tenant: &str, parts: u64) -> Promise {
    Promise { reservation: Wish::Be(Rate::CoreThousandths(parts)), ..Promise::none(tenant, Resource::Cpu) }
}

fn admit(table: &Table, promises: &[Promise]) -> Result<Table, Refused> {
    table.admit(2, (0..).zip(promises))
}

#[test]
fn reservations_are_admitted_up_to_nine_tenths_of_the_cores() {
    let before = table("mclock");
    let after = admit(&before, &[reserved("gold", 900), reserved("bronze", 900)]).unwrap();
    assert_eq!(after.at(0, Resource::Cpu).unwrap().reservation, Some(Rate::CoreThousandths(900)));
    let refused = admit(&after, &[reserved("gold", 901)]).unwrap_err();
    let sum = Refusal::Sum { resource: Resource::Cpu, wanted: 1801, most: 1800, unit: SumUnit::CoreThousandths };
    assert_eq!(refused, Refused { part: 0, why: sum });
    // As one change, one gives what the other takes, in whatever order.
    let moved = admit(&after, &[reserved("gold", 1000), reserved("bronze", 800)]).unwrap();
    assert_eq!(moved.at(1, Resource::Cpu).unwrap().reservation, Some(Rate::CoreThousandths(800)));
}

#[test]
fn a_link_with_a_rate_is_summed_too() {
    let at = |bytes| Promise {
        reservation: Wish::Be(Rate::PerSecond(bytes)),
        ..Promise::none("gold", Resource::NetworkWrite)
    };
    let table = table("mclock");
    assert!(admit(&table, &[at(900_000)]).is_ok());
    assert!(matches!(admit(&table, &[at(900_001)]).unwrap_err().why, Refusal::Sum { most: 900_000, .. }));
    let part_of_core = Promise { limit: Wish::Be(Rate::CoreThousandths(1)), ..at(1) };
    assert!(matches!(admit(&table, &[part_of_core]).unwrap_err().why, Refusal::Value { .. }), "bytes are no cycles");
}

#[test]
fn a_promise_that_nobody_would_keep_is_refused_with_its_key() {
    let refused = admit(&table("wfq"), &[reserved("gold", 1)]).unwrap_err();
    assert!(matches!(refused.why, Refusal::NotKept { ref promise, .. } if promise == "reservation"), "{refused:?}");
    let at_tcp = Promise { share: Wish::Be(1), ..Promise::none("gold", Resource::Tcp) };
    assert!(matches!(admit(&table("wfq"), &[at_tcp]).unwrap_err().why, Refusal::NoScheduler { .. }));
    assert!(matches!(admit(&table("wfq"), &[reserved("gould", 1)]).unwrap_err().why, Refusal::NoTenant { .. }));
    let mut other = table("wfq");
    other.set_policy(Resource::Cpu, &Policy::flat(Choice::of(gyre_schedulers::list::find("mclock").unwrap())));
    assert!(admit(&other, &[reserved("gold", 1)]).is_ok(), "the policy of now counts");
}

#[test]
fn budgets_need_a_period_and_fit_into_a_core() {
    let budget = |tenant, ms: u64| Promise {
        period_ns: Wish::Be(20_000_000),
        budget: Wish::Be(Budget::Time(ms * 1_000_000)),
        ..Promise::none(tenant, Resource::Cpu)
    };
    let table = table("edf");
    let after = admit(&table, &[budget("gold", 10), budget("bronze", 8)]).unwrap();
    let why = admit(&after, &[budget("bronze", 9)]).unwrap_err().why;
    assert!(matches!(why, Refusal::Sum { wanted: 950, most: 900, .. }), "{why:?}");
    let bare = Promise { period_ns: Wish::Keep, ..budget("gold", 1) };
    assert!(matches!(admit(&table, &[bare]).unwrap_err().why, Refusal::Value { ref key, .. } if key == "period"));
    assert!(admit(&table, &[budget("gold", 21)]).is_err(), "more than the period");
}

#[test]
fn a_reservation_stays_below_the_limit() {
    let both = Promise { limit: Wish::Be(Rate::CoreThousandths(199)), ..reserved("gold", 200) };
    assert!(matches!(admit(&table("mclock"), &[both]).unwrap_err().why, Refusal::AboveLimit { .. }));
    let cleared = Promise { reservation: Wish::Clear, ..Promise::none("gold", Resource::Cpu) };
    let after = admit(&table("mclock"), &[reserved("gold", 200), cleared]).unwrap();
    assert_eq!(after.at(0, Resource::Cpu).unwrap().reservation, None, "the later part counts");
}
