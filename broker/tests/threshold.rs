//! The threshold policy: the 99th percentile of a service stays between its bounds for a simulated day and for a recorded one.
//!
//! * Fine steps: a service whose percentile follows from the room between its part and its load, 8640 windows of a day.
//! * Steps of a core: the recorded day of `rig/day.rs`, and a service that needs a second core from [`CORE_MAX`] on.
//! * A service that became faster, or was never slow, gives back what it does not need after a while, by a trial. Trials that fail become seldom.
//! * Whatever is measured, moves lie as far apart as the bounds say.
//!
//! Left out: numbers that nobody should send (`hostile.rs`), cores as the tool counts them (`host/tool/src/zone/control/law.rs`).

#[path = "rig/day.rs"]
mod day;
mod rig;

use std::f64::consts::TAU;

use gyre_broker::plan::Cut;
use gyre_broker::threshold::{Bounds, Threshold};
use gyre_broker::{Goal, Knob, Observation, Plan, Reason, Resource, Tenant, TenantId, Window};
use proptest::prelude::*;
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
    let mut steps_at = |second: u64, beats: u64, percentile_ms: f64| {
        let seen = Seen { beats, percentile_ms };
        let plan = window_of(second * SECOND_NS, 0.5, &seen, &mut policy);
        ((plan.part(SERVICE, Resource::Cpu) - 0.5) / Bounds::default().step).round()
    };
    assert_eq!(steps_at(0, 1000, 300.0), 1.0, "late: a step");
    assert_eq!(steps_at(5, 1000, 300.0), 0.0, "too soon");
    assert_eq!(steps_at(10, 1000, 300.0), 1.0);
    assert_eq!(steps_at(30, 900, 100.0), 0.0, "back only after 30 s");
    assert_eq!(steps_at(40, 900, 100.0), -1.0);
    assert_eq!(steps_at(60, 900, 180.0), 0.0, "in the band");
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

/// Cores that the service and the batch work have together.
const CORES: usize = 3;
/// A window, and the pause after a step.
const PAUSE_NS: u64 = 3 * SECOND_NS;
/// Windows of a turn, and those until the first trial and the last ones.
const TURN: u64 = 3;
const TRIAL: u64 = 10 * TURN;
const TRIAL_MAX: u64 = 160 * TURN;
/// Answers of one core in a window.
const CORE_BEATS: f64 = 300.0;
/// The load from which on one core is late.
const CORE_MAX: f64 = 0.69;

/// A service that has one core or more, and its law.
struct Cores {
    law: Threshold,
    held: usize,
    windows: u64,
    moves: Vec<(u64, isize)>,
    why: Reason,
}

impl Cores {
    fn new(all: usize) -> Cores {
        let core = 1.0 / all as f64;
        let bounds = Bounds {
            upper_ms: day::UPPER_MS,
            lower_ms: day::UPPER_MS * 0.325,
            step: core,
            service_least: core,
            batch_least: core,
            beats_min: 10,
            pause_ns: PAUSE_NS,
            turn_ns: TURN * PAUSE_NS,
        };
        let law = Threshold::new(SERVICE, BATCH, Resource::Cpu, bounds);
        Cores { law, held: 1, windows: 0, moves: Vec::new(), why: Reason::Untouched }
    }

    /// Ends a window with so many answers.
    fn end(&mut self, all: usize, beats: u64, percentile_ms: f64) {
        self.windows += 1;
        let (part, seen) = (self.held as f64 / all as f64, Seen { beats, percentile_ms });
        let plan = window_of(self.windows * PAUSE_NS, part, &seen, &mut self.law);
        let next = (plan.part(SERVICE, Resource::Cpu) * all as f64).round() as usize;
        if next != self.held {
            self.moves.push((self.windows, next as isize - self.held as isize));
        }
        self.why = plan.decision(Knob { tenant: SERVICE, resource: Resource::Cpu }).expect("decided").reason;
        self.held = next;
    }

    /// Ends a window of a load, in parts of what one core serves; what is more than its cores serve waits.
    fn under(&mut self, load: f64, percentile_ms: f64) {
        self.end(CORES, (load.min(self.held as f64) * CORE_BEATS) as u64, percentile_ms);
    }

    /// Ends a window of a service that one core is enough for up to a load; answers whether it was late.
    fn lives(&mut self, load: f64, one_core_max: f64) -> bool {
        let is_late = self.held == 1 && load >= one_core_max;
        self.under(load, if is_late { 300.0 } else { 20.0 });
        is_late
    }
}

#[test]
fn the_recorded_day_is_within_its_threshold_in_nine_of_ten_windows() {
    let is_inside = |window: usize, before, now| day::percentile_ms(window, before, now) <= day::UPPER_MS;
    let recorded = |window: usize| day::RECORDED[window].2;
    let then = (0..day::WINDOWS).filter(|at| is_inside(*at, recorded(at.saturating_sub(1)), recorded(*at))).count();
    assert_eq!(then, 30, "with the cores of that day each window is the recorded one");
    let mut service = Cores::new(CORES);
    let (mut inside, mut before) = (0, 1);
    for window in 0..day::WINDOWS {
        let held = service.held;
        inside += usize::from(is_inside(window, before, held));
        service.under(day::load(window), day::percentile_ms(window, before, held));
        before = held;
    }
    assert!(inside * 10 >= day::WINDOWS * 9, "{inside} of {}", day::WINDOWS);
    assert_eq!(service.moves.iter().map(|(_, by)| *by).collect::<Vec<_>>(), [1, -1], "{:?}", service.moves);
}

#[test]
fn a_day_has_one_late_window_and_one_move_each_way() {
    let mut service = Cores::new(CORES);
    for days in 1..=3 {
        let late: Vec<usize> = (0..day::WINDOWS).filter(|at| service.lives(day::load(*at), CORE_MAX)).collect();
        assert_eq!(late, [9], "late windows of day {days}");
        assert_eq!(service.moves.len(), 2 * days, "{:?}", service.moves);
        assert_eq!(service.held, 1, "by night");
    }
}

#[test]
fn a_service_that_became_faster_gives_its_core_back_after_a_while_and_says_why() {
    let mut service = Cores::new(CORES);
    assert!(service.lives(0.9, CORE_MAX), "one core is late");
    for _ in 1..TRIAL {
        service.lives(0.9, 2.0);
        assert_eq!((service.held, service.why), (2, Reason::NeededAt { beats: 270, late_at: 270 }));
    }
    service.lives(0.9, 2.0);
    let early_ns = TRIAL * PAUSE_NS;
    assert_eq!((service.held, service.why), (1, Reason::Trial { late_at: 270, early_ns }));
    assert!(!(0..1000).any(|_| service.lives(0.9, 2.0)), "one core is enough now");
    assert_eq!(service.moves.len(), 2, "{:?}", service.moves);
    let said = [Reason::NeededAt { beats: 270, late_at: 270 }, service.why, Reason::Trial { late_at: 270, early_ns }];
    assert_eq!(
        said.map(|reason| reason.to_string()),
        [
            "its 270 answers need what it holds: a step less was late at 270",
            "its 20.0 ms are out of the bounds, but nothing is left to move",
            "it was early for 90 s, so it tries whether a step less, which was late at 270 answers, is enough now",
        ]
    );
}

#[test]
fn trials_that_fail_become_seldom_and_nine_of_ten_windows_are_in_time() {
    let mut service = Cores::new(CORES);
    let windows = 20 * TRIAL_MAX;
    let late = (0..windows).filter(|_| service.lives(0.9, CORE_MAX)).count() as u64;
    assert!(late * 10 <= windows, "{late} of {windows}");
    let held: Vec<u64> = service.moves.chunks_exact(2).map(|pair| pair[1].0 - pair[0].0).collect();
    assert_eq!(held[..5], [1, 2, 4, 8, 16].map(|times| times * TRIAL), "windows for which a core was held");
    assert!(held[5..].iter().all(|windows| *windows == TRIAL_MAX) && held.len() > 8, "never for ever: {held:?}");
}

#[test]
fn a_service_that_carries_more_than_before_is_tried_soon_again() {
    let mut service = Cores::new(CORES);
    for _ in 0..40 * TRIAL {
        service.lives(0.6, 0.5);
    }
    let moves = service.moves.len();
    // a new program: one core carries half as much again, and is asked for more
    for _ in 0..20 * TRIAL {
        service.lives(0.6, 0.8);
    }
    assert_eq!(service.held, 1);
    assert!(service.lives(0.9, 0.8), "it is late at more answers than ever");
    assert_eq!(service.moves.len(), moves + 2, "one trial, one step: {:?}", &service.moves[moves..]);
    let begun = service.windows;
    while service.held == 2 {
        service.lives(0.9, 0.8);
    }
    assert_eq!(service.windows - begun, TRIAL);
}

#[test]
fn the_load_of_one_step_tells_of_all_sizes_by_proportion() {
    const ALL: usize = 5;
    let mut service = Cores::new(ALL);
    for (held, beats) in [(1, 100), (2, 180)] {
        assert_eq!(service.held, held);
        service.end(ALL, beats, 300.0);
    }
    (0..TURN).for_each(|_| service.end(ALL, 170, 20.0));
    assert_eq!((service.held, service.why), (3, Reason::NeededAt { beats: 170, late_at: 180 }));
    service.end(ALL, 100, 20.0);
    assert_eq!(service.held, 2, "with two cores it was late at 180 answers");
    service.end(ALL, 100, 20.0);
    assert_eq!((service.held, service.why), (2, Reason::NeededAt { beats: 100, late_at: 90 }));
    service.end(ALL, 60, 20.0);
    assert_eq!(service.held, 1);
}

/// A window: its length in nanoseconds, its answers, and their percentile in milliseconds.
fn windows() -> impl Strategy<Value = Vec<(u64, u64, f64)>> {
    prop::collection::vec((0..20 * SECOND_NS, 0..2000_u64, 0.0..400.0_f64), 1..400)
}

proptest! {
    #[test]
    fn moves_lie_a_pause_apart_and_a_turn_if_they_go_back(windows in windows()) {
        let (mut policy, bounds) = (policy(), Bounds::default());
        let (mut part, mut now_ns, mut last) = (0.5, 0, None);
        for (length_ns, beats, percentile_ms) in windows {
            now_ns += length_ns;
            let next = window_of(now_ns, part, &Seen { beats, percentile_ms }, &mut policy).part(SERVICE, Resource::Cpu);
            if (next - part).abs() > 1e-9 {
                let (is_up, before) = (next > part, last.replace((now_ns, next > part)));
                if let Some((then_ns, was_up)) = before {
                    let least_ns = if is_up == was_up { bounds.pause_ns } else { bounds.turn_ns };
                    prop_assert!(now_ns - then_ns >= least_ns, "{} ns after the last one", now_ns - then_ns);
                }
            }
            part = next;
        }
    }
}
