//! The conference of `experiments/conference.toml` in virtual time, led by the broker that runs on the machine: four streams by the clock, one of
//! them large at a time, and an indexer that takes what it gets, on one core beside the system's own work.

use gyre_broker_program::{
    Broker, Options,
    forecast::{Arrival, Demand, world::World},
};
use gyre_contract::goals::{Aim, Broker as Settings, BrokerPolicy, Goal, Goals, Measure, TenantGoal};

const STREAMS: [&str; 4] = ["anna", "berta", "carla", "dora"];
const FRAMES_PER_S: f64 = 15.0;
/// The work of a small frame, ns: 13 % of the core at 15 frames a second.
const FRAME_NS: f64 = 0.13 / FRAMES_PER_S * 1e9;
const LARGE: f64 = 1.6;
/// When which stream is large, s.
const SIZES: [(usize, std::ops::Range<u64>); 3] = [(0, 25..40), (1, 40..55), (2, 55..65)];
const SECONDS: u64 = 80;
const LEARNS_S: u64 = 20;
const SEEDS: u64 = 8;

fn conference() -> Goals {
    let tenant = |name: &str, share, goal| TenantGoal { name: name.into(), share, goal, ..TenantGoal::default() };
    let goal =
        Goal { aim: Aim::Response { thousandths: 900, target_ns: 66_000_000 }, measure: Measure::Beats, penalty: 100 };
    let streams = STREAMS.map(|name| tenant(name, 18_000, Some(goal)));
    let system = TenantGoal { is_system: true, ..tenant("system", 20_000, None) };
    let tenants = streams.into_iter().chain([tenant("indexer", 28_000, None), system]).collect();
    let broker = Settings { window_ms: 500, ..Settings::default() };
    Goals { cores: 1, cycles_per_second: 1_000_000_000, broker, tenants, ..Goals::default() }
}

/// A frame's work varies by a twentieth. The broker, the agent and its logs take a part of the core, in pieces.
fn demands(system: f64) -> Vec<Demand> {
    let stream = |name| Demand { varies: 0.05, ..Demand::new(name, Arrival::ByClock(FRAMES_PER_S), FRAME_NS) };
    let system = Demand::new("system", Arrival::PerSecond(10.0), system / 10.0 * 1e9);
    STREAMS.map(stream).into_iter().chain([Demand::new("indexer", Arrival::Always, 1e6), system]).collect()
}

/// The seconds of all streams after the learning.
#[derive(Default, Debug)]
struct Lateness {
    all: u64,
    late: u64,
    /// Those that were late more than 3 s after a change.
    settled: u64,
}

impl Lateness {
    fn percent(&self, count: u64) -> f64 {
        100.0 * count as f64 / self.all as f64
    }
}

fn is_late(frames: u64, late: u64) -> bool {
    late as f64 > 0.1 * frames as f64
}

/// How the processor is divided.
#[derive(Clone, Copy, Debug)]
enum Division {
    /// Exactly by weights, at each moment.
    Fluid,
    /// By slices, and who wakes goes first for a while, as schedulers of machines do it.
    Slices,
}

fn play(policy: BrokerPolicy, division: Division, system: f64) -> Lateness {
    let mut seen = Lateness::default();
    (1..=SEEDS).for_each(|seed| play_seed(policy, division, system, seed, &mut seen));
    let (late, settled) = (seen.percent(seen.late), seen.percent(seen.settled));
    println!("{}, {division:?}, the system takes {system}: late {late:.2} %, settled {settled:.2} %", policy.name());
    seen
}

fn play_seed(policy: BrokerPolicy, division: Division, system: f64, seed: u64, seen: &mut Lateness) {
    let world = World::new(&conference(), &demands(system), seed);
    let mut world = if let Division::Slices = division { world.sliced() } else { world };
    let mut broker = Broker::new(&Options { policy, is_dry_run: false }, world.goals());
    let window_ms = broker.window_ms();
    for second in 0..SECONDS {
        for (stream, large) in &SIZES {
            let size = if large.contains(&second) { LARGE } else { 1.0 };
            world.resize(STREAMS[*stream], FRAME_NS * size);
        }
        let mut frames = [(0, 0); 4];
        for _ in 0..1000 / window_ms {
            for _ in 0..4 {
                world.pass_telling(window_ms / 4, |at, ns, beats| {
                    if let Some((all, late)) = frames.get_mut(at) {
                        *all += beats;
                        *late += u64::from(ns > 1e9 / FRAMES_PER_S) * beats;
                    }
                });
                broker.look(world.goals());
            }
            let answer = broker.decide().map(|wish| world.make(&wish)).map(|()| Ok(second));
            broker.report(answer);
        }
        note(seen, second, &frames);
    }
}

fn note(seen: &mut Lateness, second: u64, frames: &[(u64, u64); 4]) {
    let moments = SIZES.iter().flat_map(|(_, large)| [large.start, large.end]).filter(|at| *at <= second);
    let since = moments.map(|at| second - at).min().unwrap_or(second);
    for (all, late) in frames.iter().filter(|_| second >= LEARNS_S) {
        let is_late = is_late(*all, *late);
        seen.all += 1;
        seen.late += u64::from(is_late);
        seen.settled += u64::from(is_late && since > 3);
    }
}

#[test]
fn streams_are_late_only_within_3_s_of_a_change() {
    for (division, settled) in [(Division::Fluid, 0.3), (Division::Slices, 0.3)] {
        let seen = play(BrokerPolicy::Pacora, division, 0.0);
        assert!(seen.percent(seen.late) <= 5.0, "{seen:?}");
        assert!(seen.percent(seen.settled) <= settled, "{seen:?}");
    }
}

#[test]
fn beside_a_system_that_works_the_optimum_is_better_than_fixed_shares() {
    let fixed = play(BrokerPolicy::Static, Division::Slices, 0.05);
    let led = play(BrokerPolicy::Pacora, Division::Slices, 0.05);
    assert!(led.percent(led.late) <= 5.0 && led.late <= fixed.late, "{led:?} beside {fixed:?}");
}
