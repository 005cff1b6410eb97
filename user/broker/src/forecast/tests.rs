use gyre_contract::goals::{Aim, Broker as Settings, Goal, Measure, TenantGoal};

use super::*;

const MS: f64 = 1e6;

/// Two cores; a service at 20 %, batch at 80 %.
fn machine(aim: Aim, shares: [u32; 2]) -> Goals {
    let tenant = |name: &str, share, goal| TenantGoal { name: name.into(), share, goal, ..TenantGoal::default() };
    let goal = Goal { aim, measure: Measure::Either, penalty: 1 };
    let system = TenantGoal { is_system: true, ..tenant("system", 1_000, None) };
    let tenants = vec![system, tenant("web", shares[0], Some(goal)), tenant("batch", shares[1], None)];
    let broker = Settings {
        window_ms: 1_000,
        step_thousandths: 50,
        pause_ms: 1_000,
        turn_ms: 3_000,
        answers_min: 50,
        ..Settings::default()
    };
    Goals { broker, cores: 2, cycles_per_second: 1_000_000_000, tenants, ..Goals::default() }
}

fn response(ms: u64) -> Aim {
    Aim::Response { thousandths: 990, target_ns: ms * 1_000_000 }
}

fn ask(policy: BrokerPolicy) -> Question {
    Question { policy, seconds: 60, seed: 1, seeds: 2 }
}

/// 200 answers a second of 4 ms each want 40 % of the machine.
fn web_and_batch() -> Vec<Demand> {
    vec![Demand::new("web", Arrival::PerSecond(200.0), 4.0 * MS), Demand::new("batch", Arrival::Always, MS)]
}

#[test]
fn a_share_that_is_too_small_misses_and_the_threshold_meets() {
    // Four clients of 4 ms each: 16 ms of work before each, which take 40 ms at 20 % of two cores.
    let goals = machine(response(42), [20_000, 80_000]);
    let web = Demand { varies: 0.1, ..Demand::new("web", Arrival::Clients(4), 4.0 * MS) };
    let demands = [web, Demand::new("batch", Arrival::Always, MS)];
    let still = forecast(&goals, &demands, &ask(BrokerPolicy::Static));
    assert_eq!(still.tenants[0].is_met(), Some(false), "{still:?}");
    assert!((still.tenants[0].used - 0.2).abs() < 0.02, "it gets its share: {still:?}");
    let moved = forecast(&goals, &demands, &ask(BrokerPolicy::Threshold));
    assert_eq!(moved.tenants[0].is_met(), Some(true), "{moved:?}");
    assert!(moved.tenants[0].part > 0.24 && moved.changes >= 1.0, "{moved:?}");
    assert_eq!(moved.tenants[1].is_met(), None, "batch has no goal");
    assert!(moved.tenants.iter().all(|outcome| outcome.tenant != "system"));
}

#[test]
fn who_waits_for_its_core_gets_more_by_pressure() {
    // 40 % of the machine is wanted: at 20 % it stalls for good.
    for shares in [[20_000, 80_000], [80_000, 20_000]] {
        let seen = forecast(&machine(response(300), shares), &web_and_batch(), &ask(BrokerPolicy::Pressure));
        let web = &seen.tenants[0];
        assert_eq!(web.is_met(), Some(true), "{shares:?}: {seen:?}");
        assert!(seen.changes >= 1.0 && (0.35..=0.95).contains(&web.part), "{shares:?}: {seen:?}");
    }
}

#[test]
fn what_one_does_not_want_goes_to_the_others() {
    let goals = machine(response(300), [20_000, 80_000]);
    let alone = vec![Demand::new("web", Arrival::PerSecond(200.0), 4.0 * MS)];
    let seen = forecast(&goals, &alone, &ask(BrokerPolicy::Static));
    assert_eq!(seen.tenants[0].is_met(), Some(true), "{seen:?}");
    assert!((seen.tenants[0].rate_per_s - 200.0).abs() < 10.0, "{seen:?}");
    assert!((seen.tenants[0].used - 0.4).abs() < 0.02, "{seen:?}");
}

#[test]
fn pota_holds_a_rate_with_little_more_than_it_needs() {
    // Beats of 30 ms of one core: 30 a second want 45 % of two cores.
    let goals = machine(Aim::Rate(30_000), [80_000, 20_000]);
    let demands = [Demand::new("web", Arrival::Clients(1), 30.0 * MS), Demand::new("batch", Arrival::Always, MS)];
    let seen = forecast(&goals, &demands, &ask(BrokerPolicy::Pota));
    assert!((0.44..=0.55).contains(&seen.tenants[0].part), "{seen:?}");
    assert!(seen.tenants[0].rate_per_s >= 29.0, "{seen:?}");
}

#[test]
fn a_limit_holds_whatever_the_policy_gives() {
    use gyre_contract::{
        catalogue,
        policy::{Entitlement, Rate},
    };
    let mut goals = machine(response(300), [20_000, 80_000]);
    let cpu = catalogue::Resource::Cpu;
    goals.tenants[1].at_cpu = Some(Entitlement { limit: Some(Rate::CoreThousandths(500)), ..Entitlement::none(cpu) });
    let seen = forecast(&goals, &web_and_batch(), &ask(BrokerPolicy::Threshold));
    assert!(seen.tenants[0].used <= 0.26, "500 thousandths of a core are a quarter of two: {seen:?}");
    assert_eq!(seen.tenants[0].is_met(), Some(false));
}

#[test]
fn the_answer_follows_from_the_question() {
    let goals = machine(response(300), [20_000, 80_000]);
    let once = forecast(&goals, &web_and_batch(), &ask(BrokerPolicy::Pacora));
    assert_eq!(once, forecast(&goals, &web_and_batch(), &ask(BrokerPolicy::Pacora)));
    let other = forecast(&goals, &web_and_batch(), &Question { seed: 7, ..ask(BrokerPolicy::Pacora) });
    assert_ne!(once.tenants, other.tenants);
}

#[test]
fn absurd_demands_are_played_to_the_end() {
    let goals = machine(response(1), [1, 1]);
    for (arrival, work_ns) in [
        (Arrival::PerSecond(f64::INFINITY), 0.0),
        (Arrival::PerSecond(f64::NAN), f64::NAN),
        (Arrival::Clients(u32::MAX), -1.0),
        (Arrival::PerSecond(1e9), f64::INFINITY),
    ] {
        let demand = Demand { varies: f64::NAN, beside_ns: f64::NAN, ..Demand::new("web", arrival, work_ns) };
        let seen = forecast(&goals, &[demand], &Question { seconds: 3, ..ask(BrokerPolicy::Threshold) });
        assert!(seen.tenants[0].used <= 1.0 + 1e-9, "{arrival:?}: {seen:?}");
    }
    let empty = forecast(&Goals::default(), &[], &ask(BrokerPolicy::Static));
    assert!(empty.tenants.is_empty());
}

#[test]
fn demands_are_found_again_in_what_was_measured() {
    let goals = machine(response(300), [50_000, 50_000]);
    let mut world = World::new(&goals, &web_and_batch(), 3);
    world.pass(5_000);
    let before = world.goals().clone();
    world.pass(20_000);
    let found = measured::demands(&before, world.goals());
    let Arrival::PerSecond(rate) = found[1].arrival else { panic!("{found:?}") };
    assert!((rate - 200.0).abs() < 20.0 && (found[1].work_ns / MS - 4.0).abs() < 0.4, "{found:?}");
    assert_eq!(found[2].arrival, Arrival::Always);
    assert!(found[1].beside_ns < 50.0 * MS, "{found:?}");
}
