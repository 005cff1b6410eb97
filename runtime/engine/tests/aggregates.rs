//! CPU aggregates: a process divides its own time among groups of its threads, each with a policy of its own.

mod common;
use common::*;
use gyre_account::{ActivityId, ActivityParams, Column};
use gyre_engine::simulate::Simulator;
use gyre_engine::{
    AGGREGATES_MAX, AGGREGATES_OF_PROCESS_MAX, Aggregate, AggregateError, Engine, ResourceConfig, Standing,
    ThreadParams, ThreadPolicy, compute,
};
use gyre_machine::{PageTable, Trap, UserContext};
use gyre_message::sleep_ns;
use gyre_schedulers::ClientParams;
use proptest::prelude::*;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const MS: u64 = 1_000_000;

fn machine(cores: usize) -> &'static Engine {
    engine(cores, vec![ResourceConfig::new("linux")])
}

fn process(engine: &Engine, tenant: ActivityId) -> ActivityId {
    let params = ActivityParams { weight: 1024, ..ActivityParams::default() };
    engine.accounts().activities.create_member(tenant, "process", params, 900).unwrap()
}

fn standing(aggregate: &Arc<Aggregate>, params: ClientParams) -> Option<Arc<Standing>> {
    Some(Arc::new(Standing { aggregate: aggregate.clone(), params }))
}

/// A thread that computes for ever, in steps of 100 us, where it stands; it counts its steps.
fn hog(engine: &'static Engine, process: ActivityId, stands: Option<Arc<Standing>>) -> Arc<AtomicU64> {
    let steps = Arc::new(AtomicU64::new(0));
    let counted = steps.clone();
    let thread = async move {
        let mut context = UserContext::new().unwrap();
        let table = PageTable::new().unwrap().root();
        if stands.is_some() {
            engine.join_running(stands);
        }
        loop {
            context.script.push_back((100_000, Trap::SystemCall));
            compute::run(&mut context, &table).await;
            counted.fetch_add(1, Ordering::Relaxed);
        }
    };
    assert!(engine.spawn_thread(process, ThreadParams { cores: u64::MAX, kernel: resource(0) }, Box::pin(thread)));
    steps
}

fn percent(parts: &[u64]) -> Vec<f64> {
    let whole: u64 = parts.iter().sum();
    parts.iter().map(|&part| part as f64 * 100.0 / whole as f64).collect()
}

fn assert_near(found: &[f64], wanted: &[f64], tolerance: f64) {
    let is_near = found.iter().zip(wanted).all(|(found, wanted)| (found - wanted).abs() <= tolerance);
    assert!(is_near, "{found:?} instead of {wanted:?}");
}

#[test]
fn aggregates_divide_their_process_3_2_1_whatever_their_policies_and_numbers_of_threads() {
    for cores in [1, 2] {
        let engine = machine(cores);
        let (first, other) = (tenant(engine, 1), tenant(engine, 1));
        let (own, beside) = (process(engine, first), process(engine, other));
        let kinds = [
            (30_000, ThreadPolicy::RoundRobin, 4),
            (20_000, ThreadPolicy::Priority, 2),
            (10_000, ThreadPolicy::Shares, 6),
        ];
        let aggregates = kinds.map(|(share, policy, threads)| {
            let aggregate = engine.open_aggregate(own, share, policy).unwrap();
            for _ in 0..threads * cores {
                hog(engine, own, standing(&aggregate, ClientParams::default()));
            }
            aggregate
        });
        for _ in 0..cores {
            hog(engine, beside, None);
        }
        Simulator::new(engine, 7).run_for(4_000 * MS, 20_000_000);
        let used = aggregates.each_ref().map(|aggregate| aggregate.used_cycles());
        assert_near(&percent(&used), &[50.0, 33.3, 16.7], 1.0);
        let tenants = [used_everywhere(engine, own, Column::Cycles), used_everywhere(engine, beside, Column::Cycles)];
        assert_near(&percent(&tenants), &[50.0, 50.0], 1.0);
        assert_eq!(aggregates[0].threads(), 4 * cores as u32);
        check_books(engine);
    }
}

#[test]
fn each_policy_orders_the_threads_of_its_aggregate() {
    let engine = machine(1);
    let own = process(engine, tenant(engine, 1));
    let open = |policy| engine.open_aggregate(own, 1000, policy).unwrap();
    let turns = open(ThreadPolicy::RoundRobin);
    let in_turn = [1, 9].map(|weight| hog(engine, own, standing(&turns, ClientParams::weighted(weight))));
    let urgent = open(ThreadPolicy::Priority);
    let by_urgency = [3, 4].map(|priority| hog(engine, own, standing(&urgent, ClientParams::urgent(priority))));
    let shares = open(ThreadPolicy::Shares);
    let by_share = [100, 300].map(|weight| hog(engine, own, standing(&shares, ClientParams::weighted(weight))));
    let due = open(ThreadPolicy::Deadlines);
    let budget = |ms: u64| ClientParams { period_ns: 20 * MS, burst: ms * MS, ..ClientParams::default() };
    let by_budget = [1, 2].map(|ms| hog(engine, own, standing(&due, budget(ms))));
    Simulator::new(engine, 9).run_for(8_000 * MS, 20_000_000);
    let steps = |threads: &[Arc<AtomicU64>; 2]| threads.each_ref().map(|steps| steps.load(Ordering::Relaxed));
    assert_near(&percent(&steps(&in_turn)), &[50.0, 50.0], 1.0);
    let by_urgency = steps(&by_urgency);
    assert!(by_urgency[0] <= 30 && by_urgency[1] > 1000, "{by_urgency:?}");
    assert_near(&percent(&steps(&by_share)), &[25.0, 75.0], 1.0);
    assert_near(&percent(&steps(&by_budget)), &[33.3, 66.7], 1.5);
    let used = [&turns, &urgent, &shares, &due].map(|aggregate| aggregate.used_cycles());
    assert_near(&percent(&used), &[25.0; 4], 1.0);
}

#[test]
fn a_share_changes_while_threads_run() {
    let engine = machine(1);
    let own = process(engine, tenant(engine, 1));
    let open = || engine.open_aggregate(own, 1000, ThreadPolicy::RoundRobin).unwrap();
    let (one, two) = (open(), open());
    for aggregate in [&one, &two] {
        hog(engine, own, standing(aggregate, ClientParams::default()));
    }
    let mut simulator = Simulator::new(engine, 3);
    simulator.run_for(1_000 * MS, 20_000_000);
    let before = [one.used_cycles(), two.used_cycles()];
    assert_near(&percent(&before), &[50.0, 50.0], 1.0);
    engine.set_aggregate_share(&one, 3000);
    simulator.run_for(2_000 * MS, 20_000_000);
    let after = [one.used_cycles() - before[0], two.used_cycles() - before[1]];
    assert_near(&percent(&after), &[75.0, 25.0], 1.0);
}

#[test]
fn a_thread_that_goes_from_one_to_another_is_charged_where_it_stands() {
    let engine = machine(2);
    let own = process(engine, tenant(engine, 1));
    let aggregates = [0, 1].map(|_| engine.open_aggregate(own, 1000, ThreadPolicy::Shares).unwrap());
    let places = aggregates.clone();
    let thread = async move {
        let mut context = UserContext::new().unwrap();
        let table = PageTable::new().unwrap().root();
        for place in places.iter().map(Some).chain([None]).cycle() {
            engine.join_running(place.and_then(|aggregate| standing(aggregate, ClientParams::weighted(7))));
            context.script.push_back((1_000_000, Trap::SystemCall));
            compute::run(&mut context, &table).await;
        }
    };
    assert!(engine.spawn_thread(own, ThreadParams { cores: 1, kernel: resource(0) }, Box::pin(thread)));
    (0..2).for_each(|_| drop(hog(engine, own, None)));
    Simulator::new(engine, 2).run_for(2_000 * MS, 20_000_000);
    let [one, two] = aggregates.each_ref().map(|aggregate| aggregate.used_cycles());
    assert!(one > 50 * MS && one.abs_diff(two) <= 2 * MS, "{one} and {two}");
    check_books(engine);
}

#[test]
fn what_is_refused_and_what_a_place_needs_to_be_free_again() {
    let engine = machine(1);
    let lead = tenant(engine, 1);
    let own = process(engine, lead);
    let open = |owner| engine.open_aggregate(owner, 1, ThreadPolicy::RoundRobin);
    assert_eq!(open(lead).err(), Some(AggregateError::NoProcess));
    let all: Vec<_> = (0..AGGREGATES_OF_PROCESS_MAX).map(|_| open(own).unwrap()).collect();
    assert_eq!(open(own).err(), Some(AggregateError::Full));
    for other in (1..AGGREGATES_MAX / AGGREGATES_OF_PROCESS_MAX).map(|_| process(engine, lead)) {
        (0..AGGREGATES_OF_PROCESS_MAX).for_each(|_| drop(open(other).unwrap()));
    }
    assert_eq!(open(process(engine, lead)).err(), Some(AggregateError::Full));
    let stays = all.last().unwrap().clone();
    hog(engine, own, standing(&stays, ClientParams::default()));
    let mut simulator = Simulator::new(engine, 5);
    simulator.run_for(10 * MS, 1_000_000);
    assert_eq!(engine.close_aggregate(&stays), Err(AggregateError::Busy));
    let numbers: Vec<u32> = all.iter().map(|aggregate| aggregate.number()).collect();
    for aggregate in &all[..10] {
        engine.close_aggregate(aggregate).unwrap();
    }
    assert!(engine.find_aggregate(own, numbers[0]).is_none() && engine.find_aggregate(lead, numbers[20]).is_none());
    // A place is free when nobody names its aggregate any more.
    assert_eq!(open(own).err(), Some(AggregateError::Full));
    drop(all);
    let again = open(own).unwrap();
    assert!(!numbers.contains(&again.number()));
    engine.close_aggregates(own);
    assert!(engine.find_aggregate(own, again.number()).is_none());
}

#[test]
fn a_thousand_come_and_go_with_their_threads() {
    let engine = machine(2);
    let own = process(engine, tenant(engine, 1));
    let done = Rc::new(Cell::new(0));
    let count = done.clone();
    engine.spawn_for(resource(0), own, async move {
        for round in 0..1000u64 {
            let policy = [ThreadPolicy::RoundRobin, ThreadPolicy::Priority, ThreadPolicy::Shares][round as usize % 3];
            let aggregate = engine.open_aggregate(own, 100, policy).unwrap();
            let stands = standing(&aggregate, ClientParams::default());
            let thread = async move {
                let mut context = UserContext::new().unwrap();
                let table = PageTable::new().unwrap().root();
                engine.join_running(stands);
                context.script.push_back((20_000, Trap::SystemCall));
                compute::run(&mut context, &table).await;
            };
            let params = ThreadParams { cores: u64::MAX, kernel: resource(0) };
            assert!(engine.spawn_thread(own, params, Box::pin(thread)));
            sleep_ns(MS).await;
            while engine.close_aggregate(&aggregate).is_err() {
                sleep_ns(MS).await;
            }
            count.set(count.get() + 1);
        }
    });
    Simulator::new(engine, 11).run(20_000_000, || done.get() == 1000);
    assert_eq!(done.get(), 1000);
    let ended = Rc::new(Cell::new(false));
    let over = ended.clone();
    engine.spawn_for(resource(0), ActivityId::INFRASTRUCTURE, async move {
        engine.close_aggregates(own);
        engine.accounts().activities.end(own);
        over.set(engine.end_members(vec![own]).await.is_ok());
    });
    Simulator::new(engine, 12).run(1_000_000, || ended.get());
    assert!(ended.get() && !engine.accounts().activities.exists(own));
    check_books(engine);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    /// Whatever the shares: each aggregate gets its part of the process, within a hundredth of the whole.
    #[test]
    fn any_shares_hold(shares in prop::collection::vec(1_000u32..60_000, 2..6), seed in 0u64..1000) {
        let engine = machine(1);
        let own = process(engine, tenant(engine, 1));
        let aggregates: Vec<_> = shares.iter().map(|&share| {
            let aggregate = engine.open_aggregate(own, share, ThreadPolicy::RoundRobin).unwrap();
            hog(engine, own, standing(&aggregate, ClientParams::default()));
            aggregate
        }).collect();
        Simulator::new(engine, seed).run_for(3_000 * MS, 20_000_000);
        let used: Vec<u64> = aggregates.iter().map(|aggregate| aggregate.used_cycles()).collect();
        let wanted = percent(&shares.iter().map(|&share| u64::from(share)).collect::<Vec<_>>());
        assert_near(&percent(&used), &wanted, 1.0);
    }
}
