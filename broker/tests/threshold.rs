//! The threshold policy holds the 99th percentile of a service between its bounds for a simulated day.

mod rig;

use std::f64::consts::TAU;

use gyre_broker::plan::Cut;
use gyre_broker::threshold::{Bounds, Threshold};
use gyre_broker::{Goal, Knob, Observation, Plan, Resource, Tenant, TenantId, Window};
use rig::{Seed, UNLIMITED};

const SERVICE: TenantId = TenantId(1);
const BATCH: TenantId = TenantId(2);
const WINDOW_NS: u64 = 10_000_000_000;
const WINDOWS: u64 = 8640;
const SECOND_NS: u64 = 1_000_000_000;

/// A service whose load follows the hours; its percentile follows the room between its part and its load.
struct Service {
    seed: Seed,
}

struct Seen {
    beats: u64,
    percentile_ms: f64,
}

impl Service {
    /// Returns the part of the machine that the load needs at the least: 12 to 60 %, and a little noise of 10 s.
    fn load(&mut self, window: u64) -> f64 {
        let hour = window as f64 / WINDOWS as f64;
        0.36 - 0.24 * (TAU * hour).cos() + 0.002 * self.seed.gauss()
    }

    fn window(&mut self, window: u64, part: f64) -> Seen {
        let load = self.load(window);
        // a thousand answers a second on average: with a third of them, the percentile of a window is known to 6 % only
        let beats = (load * 28_000.0) as u64;
        // an M/M/1 queue: the percentile is inverse to the room, and 10 % of room make 180 ms
        let true_ms = (18.0 / (part - load).max(1e-3)).min(18_000.0);
        let deviation = (0.0099 / beats as f64).sqrt() / 0.01 / 4.6;
        Seen { beats, percentile_ms: true_ms * (1.0 + deviation * self.seed.gauss()).max(0.1) }
    }
}

fn window_of(now_ns: u64, service: f64, seen: &Seen, policy: &mut Threshold) -> Plan {
    let goal = Goal::Response { percentile: 99.0, target_ms: 180.0 };
    let observation = Observation { beats: seen.beats, percentile_ms: seen.percentile_ms, ..Observation::default() };
    let all = Tenant { share: [0.5; 5], limit: UNLIMITED, ..Tenant::default() };
    let tenants = [
        Tenant { id: SERVICE, goal, granted: [service, 0.0, 0.0, 0.0, 0.0], seen: observation, ..all },
        Tenant { id: BATCH, granted: [1.0 - service, 0.0, 0.0, 0.0, 0.0], ..all },
    ];
    rig::decide(policy, &Window { now_ns, length_ns: WINDOW_NS, movable: rig::cpu(), tenants: &tenants })
}

fn policy() -> Threshold {
    Threshold::new(SERVICE, BATCH, Resource::Cpu, Bounds::default())
}

#[test]
fn the_percentile_stays_in_its_band_for_a_day() {
    let mut policy = policy();
    let mut service = Service { seed: Seed(7) };
    let (mut part, mut in_band, mut batch_work) = (0.5, 0, 0.0);
    for window in 0..WINDOWS {
        let seen = service.window(window, part);
        in_band += u64::from((160.0..=200.0).contains(&seen.percentile_ms));
        batch_work += 1.0 - part;
        part = window_of(window * WINDOW_NS, part, &seen, &mut policy).part(SERVICE, Resource::Cpu);
    }
    let (band, batch) = (in_band as f64 / WINDOWS as f64, batch_work / WINDOWS as f64);
    println!("{:.1} % of the windows in the band; batch {:.1} % of the machine", band * 100.0, batch * 100.0);
    assert!(band >= 0.9, "{band}");
    assert!(batch >= 0.5, "the batch tenant gets what the service leaves: {batch}");
}

#[test]
fn steps_wait_and_turns_wait_longer() {
    let mut policy = policy();
    let mut steps_at = |second: u64, percentile_ms: f64| {
        let seen = Seen { beats: 1000, percentile_ms };
        let plan = window_of(second * SECOND_NS, 0.5, &seen, &mut policy);
        ((plan.part(SERVICE, Resource::Cpu) - 0.5) / Bounds::default().step).round()
    };
    assert_eq!(steps_at(0, 300.0), 1.0, "late: a step");
    assert_eq!(steps_at(5, 300.0), 0.0, "too soon");
    assert_eq!(steps_at(10, 300.0), 1.0);
    assert_eq!(steps_at(30, 100.0), 0.0, "back only after 30 s");
    assert_eq!(steps_at(40, 100.0), -1.0);
    assert_eq!(steps_at(60, 180.0), 0.0, "in the band");
}

#[test]
fn few_answers_and_bounds_move_nothing() {
    let mut policy = policy();
    let few = Seen { beats: 299, percentile_ms: 500.0 };
    assert_eq!(window_of(0, 0.5, &few, &mut policy).part(SERVICE, Resource::Cpu), 0.5);
    let enough = Seen { beats: 1000, percentile_ms: 500.0 };
    let part = window_of(0, 0.95, &enough, &mut policy).part(SERVICE, Resource::Cpu);
    assert!((0.9499..=0.95).contains(&part), "the batch tenant keeps its least part: {part}");
}

#[test]
fn a_liar_takes_at_most_its_limit() {
    let mut policy = policy();
    let mut parts = [0.2, 0.8];
    for window in 0..200 {
        let seen = Observation { beats: 1000, percentile_ms: 1e12, ..Observation::default() };
        let all = Tenant { share: [0.5; 5], ..Tenant::default() };
        let tenants = [
            Tenant { id: SERVICE, limit: [0.3; 5], granted: [parts[0], 0.0, 0.0, 0.0, 0.0], seen, ..all },
            Tenant { id: BATCH, limit: UNLIMITED, granted: [parts[1], 0.0, 0.0, 0.0, 0.0], ..all },
        ];
        let now_ns = window * WINDOW_NS;
        let plan =
            rig::decide(&mut policy, &Window { now_ns, length_ns: WINDOW_NS, movable: rig::cpu(), tenants: &tenants });
        parts = [plan.part(SERVICE, Resource::Cpu), plan.part(BATCH, Resource::Cpu)];
        let decision = plan.decision(Knob { tenant: SERVICE, resource: Resource::Cpu }).expect("decided");
        assert_eq!(decision.cut, Cut::None, "a step never asks for more than the limit");
    }
    assert!(parts[0] <= 0.3 && parts[0] > 0.29, "{parts:?}");
    assert!(parts[1] >= 0.69, "{parts:?}");
}
