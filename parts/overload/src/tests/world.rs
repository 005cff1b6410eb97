//! The law in the world of [`super::plant`].

use super::plant::{CPU_NS, Case, Look, MS, SECOND};
use crate::{LOOK_NS, Law, Means, Sight, State};
use std::vec::Vec;

/// Answers in time, in thousandths of what a server can do whose flows cost `cost_ns`.
fn goodput(looks: &[Look], cost_ns: u64) -> u64 {
    let good: u64 = looks.iter().map(|look| look.good).sum();
    good * cost_ns * 1000 / (looks.len() as u64 * LOOK_NS)
}

fn since(looks: &[Look], seconds: u64) -> Vec<Look> {
    looks.iter().copied().filter(|look| look.at_ns >= seconds * SECOND).collect()
}

fn between(looks: &[Look], from: u64, to: u64) -> Vec<Look> {
    since(looks, from).into_iter().filter(|look| look.at_ns < to * SECOND).collect()
}

#[test]
fn goodput_stays_at_capacity_under_ten_times_the_load() {
    for load_tenths in [10, 20, 50, 100] {
        for seed in [9, 10, 11] {
            let looks = Case { seed, ..Case::new(load_tenths) }.run();
            let good = goodput(&since(&looks, 60), CPU_NS);
            assert!(good >= 980, "{load_tenths} tenths, seed {seed}: {good} / 1000");
        }
    }
}

#[test]
fn without_it_nothing_comes_in_time() {
    for load_tenths in [20, 50, 100] {
        let looks = Case { law: None, ..Case::new(load_tenths) }.run();
        let good = goodput(&since(&looks, 60), CPU_NS);
        assert!(good <= 10, "{load_tenths} tenths: {good} / 1000");
    }
}

/// Figure 2 of the paper: the cache is cold, and the limit rises by itself while it warms up.
#[test]
fn the_limit_rises_by_itself_while_the_cache_warms_up() {
    let looks = Case::new(100).run();
    let mean = |from, to| {
        let looks = between(&looks, from, to);
        looks.iter().map(|look| u64::from(look.limit)).sum::<u64>() / looks.len() as u64
    };
    let (cold, warm) = (mean(1, 6), mean(100, 120));
    assert!(warm >= 2 * cold, "limit {cold}, then {warm}");
    let (first, last) = (goodput(&between(&looks, 0, 5), CPU_NS), goodput(&since(&looks, 60), CPU_NS));
    assert!(first < 900 && last >= 980, "the cache was cold: {first}, then {last}");
}

#[test]
fn a_share_that_falls_to_a_third_is_followed_and_the_delay_kept() {
    // 50 % of the core's time, then 17 %
    let slow_ns = CPU_NS * 50 / 17;
    let costs = std::vec![(0, CPU_NS), (120 * SECOND, slow_ns), (180 * SECOND, CPU_NS)];
    let looks = Case { seconds: 240, costs, ..Case::new(50) }.run();
    for (from, to, cost) in [(60, 120, CPU_NS), (125, 180, slow_ns), (190, 240, CPU_NS)] {
        let part = between(&looks, from, to);
        let good = goodput(&part, cost);
        assert!(good >= 980, "from {from} s: {good} / 1000");
        let mut delays: Vec<u64> = part.iter().map(|look| look.delay_ns / MS).collect();
        delays.sort_unstable();
        let (middle, most) = (delays[delays.len() / 2], delays[delays.len() * 99 / 100]);
        assert!((50..=110).contains(&middle) && most <= 150, "from {from} s: {middle} ms, 99 %: {most} ms");
    }
}

#[test]
fn it_refuses_from_high_water_to_low_water() {
    let mut law = Law::new(100 * MS, Means::Refuse, 0);
    let mut look = |delay_ms: u64, at: u64| {
        law.look(&Sight { open: 16, waited_ns: delay_ms * MS, ended: 9, ..Sight::default() }, at * LOOK_NS)
    };
    let states: Vec<State> =
        [90, 101, 95, 71, 69, 95].iter().enumerate().map(|(at, delay)| look(*delay, at as u64 + 1)).collect();
    use State::{Calm, Refusing};
    assert_eq!(states, [Calm, Refusing, Refusing, Refusing, Calm, Calm]);
}

#[test]
fn a_long_line_is_seen_before_anybody_has_waited_long() {
    let mut law = Law::new(100 * MS, Means::Refuse, 0);
    let seen = Sight { open: 16, waiting: 40, left: 10, ended: 10, waited_ns: 20 * MS };
    assert_eq!(law.look(&seen, LOOK_NS), State::Refusing);
    assert_eq!(law.level(), 4000);
}

#[test]
fn a_limit_that_nobody_uses_does_not_rise() {
    let mut law = Law::new(100 * MS, Means::Refuse, 0);
    for at in 1..100 {
        law.look(&Sight { open: 12, ended: 100, ..Sight::default() }, at * LOOK_NS);
    }
    assert_eq!(law.limit(), 16);
}

#[test]
fn where_flows_do_not_end_the_youngest_tenth_is_ended_and_only_then() {
    let stuck = |ended, means| {
        let mut law = Law::new(100 * MS, means, 0);
        let seen = Sight { open: 200, ended, waited_ns: SECOND, ..Sight::default() };
        (1..=11).map(|at| law.look(&seen, at * LOOK_NS)).collect::<Vec<_>>()
    };
    let states = stuck(0, Means::RefuseAndEnd);
    assert!(states[..10].iter().all(|state| *state == State::Refusing), "{states:?}");
    assert_eq!(states[10], State::Ending(20));
    assert_eq!(stuck(1, Means::RefuseAndEnd)[10], State::Refusing, "11 of 200 ended");
    assert_eq!(stuck(0, Means::Refuse)[10], State::Refusing, "the owner does not want it");
}
