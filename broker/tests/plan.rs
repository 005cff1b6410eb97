//! Plans: one owner a knob, cuts at limits and at the rest of the machine, silence, and sentences for people.

mod rig;

use gyre_broker::pacora::Pacora;
use gyre_broker::plan::{Cut, Refused};
use gyre_broker::pota::Pota;
use gyre_broker::static_shares::StaticShares;
use gyre_broker::{
    Goal, Knob, Observation, Owner, Plan, Policy, Reason, Resource, ResourceSet, Sample, Tenant, TenantId, Window,
};
use rig::UNLIMITED;

const ONE: Knob = Knob { tenant: TenantId(1), resource: Resource::Cpu };
const TWO: Knob = Knob { tenant: TenantId(2), resource: Resource::Cpu };

fn tenant<'a>(id: u64, share: f64, granted: f64) -> Tenant<'a> {
    let (share, granted) = ([share; 5], [granted; 5]);
    Tenant { id: TenantId(id), share, limit: UNLIMITED, granted, ..Tenant::default() }
}

fn window<'a>(tenants: &'a [Tenant<'a>]) -> Window<'a> {
    Window { now_ns: 0, length_ns: 1_000_000_000, movable: rig::cpu(), tenants }
}

#[test]
fn a_knob_has_one_owner() {
    let tenants = [tenant(1, 0.5, 0.25), tenant(2, 0.5, 0.5)];
    let mut plan = Plan::new(&window(&tenants)).expect("sound");
    assert_eq!(plan.set(Owner::Pota, ONE, 0.5, Reason::Share), Ok(0.5));
    assert_eq!(plan.set(Owner::Pacora, ONE, 0.1, Reason::Share), Err(Refused::Owned(Owner::Pota)));
    assert_eq!(plan.part(TenantId(1), Resource::Cpu), 0.5);
    assert_eq!(plan.set(Owner::Pota, ONE, f64::NAN, Reason::Share), Err(Refused::NotANumber));
    let nobody = Knob { tenant: TenantId(9), resource: Resource::Cpu };
    assert_eq!(plan.set(Owner::Pota, nobody, 0.1, Reason::Share), Err(Refused::UnknownTenant));
}

#[test]
fn what_is_asked_for_is_cut_at_the_limit_and_at_the_rest() {
    let limited = Tenant { limit: [0.25; 5], ..tenant(1, 0.5, 0.1) };
    let tenants = [limited, tenant(2, 0.5, 0.5)];
    let mut plan = Plan::new(&window(&tenants)).expect("sound");
    assert_eq!(plan.set(Owner::Pota, ONE, 0.5, Reason::Share), Ok(0.25));
    assert_eq!(plan.decision(ONE).map(|decision| decision.cut), Some(Cut::Limit { asked: 0.5 }));
    assert_eq!(plan.set(Owner::Pota, TWO, 0.875, Reason::Share), Ok(0.75));
    assert_eq!(plan.decision(TWO).map(|decision| decision.cut), Some(Cut::Rest { asked: 0.875 }));
    assert_eq!(plan.sum(Resource::Cpu), 1.0);
}

#[test]
fn shares_above_the_machine_are_scaled_and_swapped_in_one_go() {
    let tenants = [tenant(1, 1.0, 0.1), tenant(2, 0.6, 0.9)];
    let plan = rig::decide(&mut StaticShares, &window(&tenants));
    assert!((plan.part(TenantId(1), Resource::Cpu) - 0.625).abs() < 1e-6, "who grows waits for who shrinks");
    assert!((plan.part(TenantId(2), Resource::Cpu) - 0.375).abs() < 1e-6);
}

#[test]
fn who_is_silent_keeps_its_part_for_three_windows() {
    let pacora_samples = [Sample { granted: [0.5; 5], response_ms: 20.0, ..Sample::default() }; 80];
    for mut policy in [Box::new(Pota::new(Resource::Cpu)) as Box<dyn Policy>, Box::new(Pacora::new())] {
        let mut held = 0.5;
        for silent in 0..6 {
            let beats = if silent == 0 { 40 } else { 0 };
            let seen = Observation { beats, samples: &pacora_samples, ..Observation::default() };
            let goal = Goal::Rate { per_s: 30.0 };
            let tenants = [Tenant { goal, penalty: 1.0, seen, ..tenant(1, 0.2, held) }];
            let plan = rig::decide(policy.as_mut(), &window(&tenants));
            let part = plan.part(TenantId(1), Resource::Cpu);
            match silent {
                0 => held = part,
                1..=3 => assert_eq!(part, held, "{} window {silent}", policy.owner().name()),
                _ => assert!((part - 0.2).abs() < 1e-6, "{} window {silent}: {part}", policy.owner().name()),
            }
        }
    }
}

#[test]
fn who_has_no_function_yet_keeps_its_share() {
    let samples = [Sample { granted: [0.5; 5], response_ms: 20.0, ..Sample::default() }; 59];
    let seen = Observation { beats: 59, samples: &samples, ..Observation::default() };
    let tenants = [Tenant { goal: Goal::Soon, penalty: 1.0, seen, ..tenant(1, 0.25, 0.5) }];
    let plan = rig::decide(&mut Pacora::new(), &window(&tenants));
    assert_eq!(plan.part(TenantId(1), Resource::Cpu), 0.25);
    let text = plan.decision(ONE).map(ToString::to_string).unwrap_or_default();
    assert_eq!(text, "25.0 % by pacora: 59 responses are too few to know its function, which needs 60");
}

#[test]
fn a_rate_that_is_always_too_low_gets_the_limit_and_no_more() {
    let mut policy = Pota::new(Resource::Cpu);
    let mut granted = 0.1;
    for _ in 0..100 {
        let seen = Observation { beats: 1, ..Observation::default() };
        let liar = Tenant { goal: Goal::Rate { per_s: 30.0 }, limit: [0.3; 5], seen, ..tenant(1, 0.1, granted) };
        let tenants = [liar, tenant(2, 0.5, 0.5)];
        let plan = rig::decide(&mut policy, &window(&tenants));
        granted = plan.part(TenantId(1), Resource::Cpu);
        assert_eq!(plan.part(TenantId(2), Resource::Cpu), 0.5, "the other keeps its share");
    }
    assert!(granted > 0.29, "the lie takes it to its limit: {granted}");
}

#[test]
fn what_the_broker_may_not_move_stays() {
    let seen = Observation { beats: 10, ..Observation::default() };
    let tenants = [Tenant { goal: Goal::Rate { per_s: 30.0 }, seen, ..tenant(1, 0.2, 0.5) }];
    let window = Window { movable: ResourceSet::of(&[Resource::Link]), ..window(&tenants) };
    let plan = rig::decide(&mut Pota::new(Resource::Cpu), &window);
    assert_eq!(plan.decision(ONE).map(|decision| (decision.part, decision.owner)), Some((0.5, None)));
}
