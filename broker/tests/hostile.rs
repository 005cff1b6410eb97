//! Numbers that nobody should send: no policy makes a part that is no number, a sum above the machine, or a panic of them.

mod rig;

use gyre_broker::pacora::Pacora;
use gyre_broker::plan::WindowError;
use gyre_broker::pota::Pota;
use gyre_broker::pressure::Pressure;
use gyre_broker::static_shares::StaticShares;
use gyre_broker::threshold::{Bounds, Threshold};
use gyre_broker::{Goal, Observation, Parts, Plan, Policy, Resource, ResourceSet, Sample, Tenant, TenantId, Window};
use proptest::prelude::*;

/// A number: half of them sound, half of them absurd.
fn number() -> impl Strategy<Value = f64> {
    let absurd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, -1.0, 1e-320, 1e300, f64::MAX, f64::MIN];
    prop_oneof![4 => 0.0..1.0f64, 2 => 0.0..500.0f64, 2 => prop::sample::select(absurd.to_vec()), 1 => any::<f64>()]
}

fn parts() -> impl Strategy<Value = Parts> {
    prop_oneof![2 => prop::array::uniform5(0.0..0.4f64), 1 => prop::array::uniform5(number())]
}

fn goal() -> impl Strategy<Value = Goal> {
    prop_oneof![
        Just(Goal::None),
        Just(Goal::Soon),
        number().prop_map(|per_s| Goal::Rate { per_s }),
        Just(Goal::Rate { per_s: 30.0 }),
        (number(), number()).prop_map(|(percentile, target_ms)| Goal::Response { percentile, target_ms }),
        Just(Goal::Response { percentile: 99.0, target_ms: 33.0 }),
    ]
}

#[derive(Clone, Debug)]
struct Told {
    goal: Goal,
    penalty: f64,
    share: Parts,
    limit: Parts,
    granted: Parts,
    beats: u64,
    percentile_ms: f64,
    used: Parts,
    stalled: f64,
    samples: Vec<Sample>,
}

prop_compose! {
    fn told()(
        goal in goal(),
        penalty in number(),
        share in parts(),
        limit in prop_oneof![2 => Just(rig::UNLIMITED), 1 => parts()],
        granted in parts(),
        beats in prop_oneof![Just(0), 1..2000u64, any::<u64>()],
        percentile_ms in number(),
        used in parts(),
        stalled in number(),
        samples in prop::collection::vec((parts(), number(), number(), any::<u64>()), 0..40),
    ) -> Told {
        let samples = samples.into_iter().map(|(granted, response_ms, waits_ms, beats)| Sample { granted, response_ms, waits_ms, beats }).collect();
        Told { goal, penalty, share, limit, granted, beats, percentile_ms, used, stalled, samples }
    }
}

fn tenants(told: &[Told]) -> Vec<Tenant<'_>> {
    told.iter()
        .enumerate()
        .map(|(at, told)| Tenant {
            id: TenantId(at as u64),
            goal: told.goal,
            penalty: told.penalty,
            share: told.share,
            limit: told.limit,
            granted: told.granted,
            seen: Observation {
                beats: told.beats,
                percentile_ms: told.percentile_ms,
                used: told.used,
                stalled: told.stalled,
                samples: &told.samples,
            },
        })
        .collect()
}

fn bounds() -> impl Strategy<Value = Bounds> {
    prop::array::uniform5(number()).prop_map(|[upper_ms, lower_ms, step, service_least, batch_least]| Bounds {
        upper_ms,
        lower_ms,
        step,
        service_least,
        batch_least,
        ..Bounds::default()
    })
}

fn policies(bounds: Bounds) -> [Box<dyn Policy>; 7] {
    let threshold = |bounds| Threshold::new(TenantId(0), TenantId(1), Resource::Cpu, bounds);
    [
        Box::new(StaticShares),
        Box::new(threshold(bounds)),
        Box::new(threshold(Bounds::default())),
        Box::new(Pressure),
        Box::new(Pota::new(Resource::Cpu)),
        Box::new(Pota::new(Resource::Memory)),
        Box::new(Pacora::new()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_plan_is_sound(
        windows in prop::collection::vec((any::<u64>(), any::<u64>(), prop::collection::vec(told(), 0..7)), 1..6),
        movable in prop::sample::subsequence(Resource::ALL.to_vec(), 0..=4),
        bounds in bounds(),
    ) {
        let movable = ResourceSet::of(&movable);
        for policy in &mut policies(bounds) {
            for (now_ns, length_ns, told) in &windows {
                let tenants = tenants(told);
                let window = Window { now_ns: *now_ns, length_ns: *length_ns, movable, tenants: &tenants };
                rig::decide(policy.as_mut(), &window);
            }
        }
    }

    #[test]
    fn policies_side_by_side_never_share_a_knob(
        told in prop::collection::vec(told(), 0..7),
        bounds in bounds(),
    ) {
        let tenants = tenants(&told);
        let window = Window { movable: ResourceSet::of(&Resource::ALL), tenants: &tenants, ..Window::default() };
        let mut plan = Plan::new(&window).expect("the window is sound");
        for policy in &mut policies(bounds) {
            let before = plan.clone();
            policy.decide(&window, &mut plan);
            rig::check(&plan, &tenants);
            for (knob, decision) in before.iter().filter(|(_, decision)| decision.owner.is_some_and(|owner| owner != policy.owner())) {
                let after = plan.decision(knob).expect("a plan keeps its knobs");
                prop_assert_eq!(after.owner, decision.owner);
                prop_assert_eq!(after.part, decision.part);
            }
        }
    }
}

#[test]
fn windows_with_too_many_tenants_or_one_twice_are_refused() {
    let many: Vec<Tenant<'_>> = (0..65).map(|id| Tenant { id: TenantId(id), ..Tenant::default() }).collect();
    let window = |tenants| Window { tenants, ..Window::default() };
    assert_eq!(Plan::new(&window(&many)).err(), Some(WindowError::TooManyTenants));
    assert!(Plan::new(&window(&many[..64])).is_ok());
    let twice = [many[3], many[4], many[3]];
    assert_eq!(Plan::new(&window(&twice)).err(), Some(WindowError::Twice(TenantId(3))));
}

#[test]
fn sixty_four_tenants_get_their_share_or_an_optimum() {
    let samples = [Sample { granted: [0.02; 5], response_ms: 10.0, ..Sample::default() }; 80];
    let seen = Observation { beats: 40, percentile_ms: 10.0, samples: &samples, ..Observation::default() };
    let tenant = |id| Tenant {
        id: TenantId(id),
        goal: Goal::Soon,
        penalty: 1.0,
        share: [1.0 / 64.0; 5],
        limit: rig::UNLIMITED,
        granted: [1.0 / 64.0; 5],
        seen,
    };
    let tenants: Vec<Tenant<'_>> = (0..64).map(tenant).collect();
    let window = Window { movable: ResourceSet::of(&Resource::ALL), tenants: &tenants, ..Window::default() };
    let plan = rig::decide(&mut Pacora::new(), &window);
    assert_eq!(plan.part(TenantId(63), Resource::Cpu), 1.0 / 64.0, "beyond the places of the programme");
}

/// An honest stream: it works 10 ms of a whole machine for each beat.
const HONEST_WORK_MS: f64 = 10.0;
const HONEST_TARGET_MS: f64 = 60.0;

/// A window of three honest streams and a liar that reports `told`; what each holds is `parts`.
fn beside(policy: &mut dyn Policy, at: u64, parts: &mut [Parts; 4], told: &Told, limit: f64) {
    let sample = |part: f64, beat: u64| {
        let granted = [part * if (at + beat).is_multiple_of(2) { 1.04 } else { 1.0 }; 5];
        Sample { granted, response_ms: HONEST_WORK_MS / granted[0], beats: 4, ..Sample::default() }
    };
    let honest: Vec<Vec<Sample>> =
        parts[..3].iter().map(|parts| (0..4).map(|beat| sample(parts[0], beat)).collect()).collect();
    let goal = Goal::Response { percentile: 90.0, target_ms: HONEST_TARGET_MS };
    let stream = |id: usize| Tenant {
        id: TenantId(id as u64),
        goal,
        penalty: 1.0,
        share: [0.25; 5],
        limit: rig::UNLIMITED,
        granted: parts[id],
        seen: Observation {
            beats: 16,
            percentile_ms: HONEST_WORK_MS / parts[id][0],
            used: [0.15; 5],
            stalled: 0.0,
            samples: &honest[id],
        },
    };
    let liar = Tenant {
        id: TenantId(3),
        goal,
        penalty: 1.0,
        share: [0.25; 5],
        limit: [limit; 5],
        granted: parts[3],
        seen: Observation {
            beats: told.beats,
            percentile_ms: told.percentile_ms,
            used: told.used,
            stalled: told.stalled,
            samples: &told.samples,
        },
    };
    let tenants = [stream(0), stream(1), stream(2), liar];
    let movable = ResourceSet::of(&[Resource::Cpu]);
    let window = Window { now_ns: at * 1_000_000_000, length_ns: 1_000_000_000, movable, tenants: &tenants };
    let plan = rig::decide(policy, &window);
    let given: Vec<f64> = (0..4).map(|id| plan.part(TenantId(id), Resource::Cpu)).collect();
    parts.iter_mut().zip(given).for_each(|(parts, part)| *parts = [part; 5]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn whatever_a_liar_reports_neighbours_whose_needs_fit_beside_its_limit_meet_their_goals(
        lies in prop::collection::vec(told(), 1..12),
        limit in 0.01..0.3f64,
    ) {
        let mut policy = Pacora::new();
        let mut parts = [[0.25; 5]; 4];
        for at in 0..40u64 {
            beside(&mut policy, at, &mut parts, &lies[at as usize % lies.len()], limit);
            prop_assert!(parts[3][0] <= limit, "{parts:?}");
            if at >= 20 {
                for part in &parts[..3] {
                    prop_assert!(HONEST_WORK_MS / part[0] <= HONEST_TARGET_MS, "window {at}: {parts:?}");
                }
            }
        }
    }
}
