//! Shares of the whole machine hold for tenants whose threads are short, come and go, and wait for each other: shells that run
//! one program after the other, as in the paper's file experiment (Figs 9 to 11).

mod common;
use common::*;
use gyre_account::{ActivityId, Column};
use gyre_engine::simulate::{Simulator, Stop};
use gyre_engine::{Engine, GridConfig, ResourceConfig, ThreadParams, compute, weighted_cpu};
use gyre_machine::{PageTable, Trap, UserContext};
use gyre_schedulers::{weighted_fair, worst_case_fair};

const WINDOW_NS: u64 = 1_000_000_000;

fn params() -> ThreadParams {
    ThreadParams { cores: u64::MAX, kernel: resource(0) }
}

/// Numbers that differ from run to run of a program.
struct Random(u64);

impl Random {
    fn draw(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

async fn compute_for(ns: u64) {
    let mut context = UserContext::new().unwrap();
    let table = PageTable::new().unwrap().root();
    context.script.push_back((ns, Trap::SystemCall));
    compute::run(&mut context, &table).await;
}

/// A shell: starts a program, waits for it, works a little itself, starts the next one.
fn shell(engine: &'static Engine, activity: ActivityId, seed: u64, program_ns: u64) {
    let thread = Box::pin(async move {
        let mut random = Random(seed);
        loop {
            compute_for(100_000 + random.draw(300_000)).await;
            let (done, end) = gyre_message::reply_pair::<Result<(), Nobody>>();
            let ns = program_ns / 2 + random.draw(program_ns);
            let program = Box::pin(async move {
                compute_for(ns).await;
                done.send(Ok(()));
            });
            assert!(engine.spawn_thread(activity, params(), program));
            end.await.unwrap();
        }
    });
    assert!(engine.spawn_thread(activity, params(), thread));
}

/// A program that computes for ever.
fn hog(engine: &'static Engine, activity: ActivityId) {
    let thread = Box::pin(async {
        let mut context = UserContext::new().unwrap();
        let table = PageTable::new().unwrap().root();
        loop {
            compute::run(&mut context, &table).await;
        }
    });
    assert!(engine.spawn_thread(activity, params(), thread));
}

/// Starts `shells` for each tenant and returns each second's shares.
fn shells(cores: usize, counts: &[usize], program_ns: u64, seed: u64) -> Vec<Vec<f64>> {
    seconds(cores, seed, counts, |engine, tenant, number| shell(engine, tenant, seed * 100 + number, program_ns))
}

/// Starts so many of something for each of three tenants, runs for some seconds, and returns each second's shares after the first.
fn seconds(
    cores: usize,
    seed: u64,
    counts: &[usize],
    start: impl Fn(&'static Engine, ActivityId, u64),
) -> Vec<Vec<f64>> {
    seconds_of(engine(cores, linux()), seed, counts, start)
}

fn linux() -> Vec<ResourceConfig> {
    vec![ResourceConfig::new("linux")]
}

/// Runs it on a machine that is there.
fn seconds_of(
    engine: &'static Engine,
    seed: u64,
    counts: &[usize],
    start: impl Fn(&'static Engine, ActivityId, u64),
) -> Vec<Vec<f64>> {
    let cores = engine.cores();
    let tenants = [50, 33, 17].map(|weight| tenant(engine, weight));
    for (&tenant, &count) in tenants.iter().zip(counts) {
        (0..count).for_each(|number| start(engine, tenant, number as u64));
    }
    let mut simulator = Simulator::new(engine, seed);
    let used = || tenants.iter().map(|&tenant| used_everywhere(engine, tenant, Column::Cycles)).collect::<Vec<_>>();
    let mut windows = Vec::new();
    let mut before = used();
    for second in 1..=5 {
        assert_eq!(simulator.run_for(second * WINDOW_NS, 10_000_000), Stop::TimeOver);
        let after = used();
        let spent: Vec<u64> = after.iter().zip(&before).map(|(after, before)| after - before).collect();
        let sum: u64 = spent.iter().sum();
        assert!(
            sum > cores as u64 * WINDOW_NS / 100 * 97,
            "cores idled: {sum} of {} ns used",
            cores as u64 * WINDOW_NS
        );
        if second > 1 {
            windows.push(spent.iter().map(|&ns| ns as f64 * 100.0 / sum as f64).collect());
        }
        before = after;
    }
    check_books(engine);
    windows
}

fn assert_each(windows: &[Vec<f64>], wanted: &[f64], points: f64) {
    for window in windows {
        for (share, wanted) in window.iter().zip(wanted) {
            assert!((share - wanted).abs() <= points, "{windows:?} instead of {wanted:?}");
        }
    }
}

#[test]
fn shells_with_short_programs_get_their_tenants_shares_in_every_second() {
    for seed in 1..=4 {
        assert_each(&shells(2, &[2, 2, 2], 15_000_000, seed), &[50.0, 33.0, 17.0], 1.0);
    }
}

#[test]
fn shares_hold_over_all_cores_under_worst_case_fairness_too() {
    // Two threads of three tenants on three cores: no placement gives each core's tenants the whole machine's shares.
    gyre_machine::set_core_count(3);
    let weighted_fair::Params { debt_max, credit_max, .. } = weighted_cpu();
    let params = worst_case_fair::Params { debt_max, credit_max, ..Default::default() };
    let grid = GridConfig { cpu: Box::new(worst_case_fair::policy(params)), ..GridConfig::new(linux()) };
    let hogs = seconds_of(engine_of(3, grid), 9, &[2, 2, 2], |engine, tenant, _| hog(engine, tenant));
    assert_each(&hogs, &[50.0, 33.0, 17.0], 0.5);
}

#[test]
fn a_tenant_with_more_shells_gets_no_more() {
    assert_each(&shells(2, &[2, 2, 8], 15_000_000, 5), &[50.0, 33.0, 17.0], 1.0);
    assert_each(&shells(4, &[4, 5, 16], 4_000_000, 6), &[50.0, 33.0, 17.0], 1.0);
}

#[test]
fn what_one_tenant_cannot_use_goes_to_the_others_by_weight() {
    // One thread can use one of four cores; the others share three by 33 : 17.
    let hogs = seconds(4, 7, &[1, 4, 4], |engine, tenant, _| hog(engine, tenant));
    assert_each(&hogs, &[25.0, 49.5, 25.5], 1.0);
    let hogs = seconds(3, 8, &[1, 3, 2], |engine, tenant, _| hog(engine, tenant));
    assert_each(&hogs, &[33.3, 44.0, 22.7], 1.0);
}

#[test]
fn threads_bound_to_a_core_run_there_and_nowhere_else_and_follow_a_change() {
    let engine = engine(3, linux());
    let [bound, other] = [1, 1].map(|weight| tenant(engine, weight));
    let rounds = 40;
    for number in 0..4 {
        let thread = Box::pin(async move {
            for round in 0..rounds {
                engine.bind_running(1 << (if round < rounds / 2 { 2 } else { 1 }));
                compute_for(5_000_000 + number * 1_000).await;
            }
        });
        assert!(engine.spawn_thread(bound, params(), thread));
    }
    (0..3).for_each(|_| hog(engine, other));
    let mut simulator = Simulator::new(engine, 11);
    let on = |core| used(engine, core, bound, Column::Cycles);
    assert_eq!(simulator.run_for(WINDOW_NS / 4, 10_000_000), Stop::TimeOver);
    assert!(on(0) < 1_000_000 && on(1) < 1_000_000 && on(2) > 100_000_000, "{} {} {}", on(0), on(1), on(2));
    assert_eq!(simulator.run_for(3 * WINDOW_NS, 10_000_000), Stop::TimeOver);
    assert!(on(0) < 1_000_000 && on(1) > 390_000_000 && on(2) > 390_000_000, "{} {} {}", on(0), on(1), on(2));
    check_books(engine);
}
