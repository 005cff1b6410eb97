//! A forecast: who would meet its goal under a policy.
//!
//! [`forecast`] plays the demands of all tenants ([`demand`]) on a machine in virtual time ([`world`]) and lets the broker itself, which is
//! the one that runs in the machine, divide it. It is a pure function: the same question has the same answer.
//!
//! Windows, looks and changes are those of the broker's program; only the clock and the tenants are not real.
//!
//! Honest limits: a demand is a model of a program, not the program. Caches, the order of messages, slices of time and the emulator are
//! outside of it; the processor is divided as a fluid, exactly by weights and limits.

pub mod chance;
pub mod demand;
pub mod measured;
mod queue;
mod slices;
pub mod world;

use gyre_contract::goals::{BrokerPolicy, Goals, Line, percentile_ns};
use serde::Serialize;

use crate::{Broker, Options, measure};
pub use demand::{Arrival, Demand};
use world::World;

/// Looks in a window, as the broker's program takes them.
const LOOKS: u64 = 4;
/// Longest time that is played, s.
pub const SECONDS_MAX: u32 = 3_600;
/// Most seeds that are played.
pub const SEEDS_MAX: u32 = 64;
/// A goal counts as met if it is met in so many hundredths of the windows.
const MET_PERCENT: f64 = 90.0;

/// A question: what if this policy held?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// The policy.
    pub policy: BrokerPolicy,
    /// How long it is played, s of virtual time, at most [`SECONDS_MAX`].
    pub seconds: u32,
    /// The first seed.
    pub seed: u64,
    /// How many seeds are played, from the first one on, at most [`SEEDS_MAX`].
    pub seeds: u32,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Forecast {
    /// The policy's name.
    pub policy: String,
    /// Seconds that were played under each seed.
    pub seconds: u32,
    /// The seeds.
    pub seeds: Vec<u64>,
    /// Changes that the broker would make, mean of the seeds.
    pub changes: f64,
    /// A line for each tenant.
    pub tenants: Vec<Outcome>,
}

/// The future of one tenant. Means and percentiles are of the second half, when the policy has learnt.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Outcome {
    /// The tenant.
    pub tenant: String,
    /// Its goal in words; empty without one.
    pub goal: String,
    /// Windows of the second half in which the goal is met, percent; nothing without a goal or without beats.
    pub met_percent: Option<f64>,
    /// Percent of those of the worst seed.
    pub worst_percent: Option<f64>,
    /// Percent of the first half's, in which the policy learns.
    pub early_percent: Option<f64>,
    /// Beats or answers a second.
    pub rate_per_s: f64,
    /// The goal's percentile, or 99 %, of their times, ms.
    pub percentile_ms: Option<f64>,
    /// The part of the machine that it holds.
    pub part: f64,
    /// The part that it uses.
    pub used: f64,
    /// The demand that is assumed, in words.
    pub demand: String,
}

impl Outcome {
    /// Says whether the goal would be met; nothing without a goal, or without beats to measure.
    #[must_use]
    pub fn is_met(&self) -> Option<bool> {
        self.met_percent.map(|percent| percent >= MET_PERCENT)
    }
}

/// One window of one tenant.
struct Seen {
    is_met: Option<bool>,
    part: f64,
    used: f64,
}

/// All that one seed showed of one tenant.
#[derive(Default)]
struct Track {
    seen: Vec<Seen>,
    beats: u64,
    buckets: Vec<u64>,
}

/// Plays a machine under a policy. `goals` says what tenants are to reach and hold; a tenant that `demands` does not name wants nothing.
#[must_use]
pub fn forecast(goals: &Goals, demands: &[Demand], question: &Question) -> Forecast {
    let count = question.seeds.clamp(1, SEEDS_MAX);
    let seeds: Vec<u64> = (0..u64::from(count)).map(|at| question.seed.wrapping_add(at)).collect();
    let runs: Vec<(Vec<Track>, u64)> = seeds.iter().map(|seed| play(goals, demands, question, *seed)).collect();
    let changes = runs.iter().map(|(_, changes)| *changes as f64).sum::<f64>() / runs.len().max(1) as f64;
    let outcome = |at: usize| {
        let tracks: Vec<&Track> = runs.iter().filter_map(|(tracks, _)| tracks.get(at)).collect();
        outcome(goals, demands, at, &tracks, seconds(question))
    };
    Forecast {
        policy: question.policy.name().into(),
        seconds: seconds(question),
        changes,
        tenants: (0..goals.tenants.len()).filter(|at| is_shown(goals, *at)).map(outcome).collect(),
        seeds,
    }
}

fn seconds(question: &Question) -> u32 {
    question.seconds.clamp(1, SECONDS_MAX)
}

fn is_shown(goals: &Goals, at: usize) -> bool {
    goals.tenants.get(at).is_some_and(|tenant| !tenant.is_system && !tenant.is_grouped)
}

/// Plays one seed: what was seen of each tenant, and the changes.
fn play(goals: &Goals, demands: &[Demand], question: &Question, seed: u64) -> (Vec<Track>, u64) {
    let mut world = World::new(goals, demands, seed);
    let mut broker = Broker::new(&Options { policy: question.policy, is_dry_run: false }, world.goals());
    let mut tracks: Vec<Track> = goals.tenants.iter().map(|_| Track::default()).collect();
    let window_ms = broker.window_ms().max(LOOKS);
    let windows = (u64::from(seconds(question)) * 1000 / window_ms).max(2);
    let mut changes = 0;
    for window in 0..windows {
        let before = world.goals().clone();
        for _ in 0..LOOKS {
            world.pass(window_ms / LOOKS);
            broker.look(world.goals());
        }
        let answer = broker.decide().map(|wish| {
            world.make(&wish);
            Ok(window)
        });
        let report = broker.report(answer);
        changes = report.changes;
        let is_late = window >= windows / 2;
        note(&mut tracks, &before, world.goals(), &report.lines, is_late);
    }
    (tracks, changes)
}

/// Notes a window: whether goals were met always, beats and their times only in the second half.
fn note(tracks: &mut [Track], before: &Goals, after: &Goals, lines: &[Line], is_late: bool) {
    let measured = measure::all(before, after);
    for ((track, tenant), measured) in tracks.iter_mut().zip(&after.tenants).zip(measured) {
        let Some(line) = lines.iter().find(|line| line.tenant == tenant.name) else { continue };
        track.seen.push(Seen { is_met: line.is_met, part: line.held, used: line.used });
        if is_late {
            track.beats += measured.beats;
            match track.buckets.is_empty() {
                true => track.buckets = measured.buckets,
                false => track.buckets.iter_mut().zip(&measured.buckets).for_each(|(sum, count)| *sum += count),
            }
        }
    }
}

fn outcome(goals: &Goals, demands: &[Demand], at: usize, tracks: &[&Track], seconds: u32) -> Outcome {
    let Some(tenant) = goals.tenants.get(at) else { return Outcome::default() };
    let aim = measure::aim(tenant);
    let late = |track: &&&Track| track.seen.len() / 2;
    let halves: Vec<(&[Seen], &[Seen])> = tracks.iter().map(|track| track.seen.split_at(late(&track))).collect();
    let second: Vec<&Seen> = halves.iter().flat_map(|(_, second)| *second).collect();
    let worst = halves.iter().filter_map(|(_, second)| met_percent(second.iter())).min_by(f64::total_cmp);
    let mean = |of: fn(&Seen) -> f64| second.iter().map(|seen| of(seen)).sum::<f64>() / second.len().max(1) as f64;
    let beats: u64 = tracks.iter().map(|track| track.beats).sum();
    let mut buckets = vec![0u64; gyre_contract::goals::BUCKETS];
    let counts = |track: &&Track| buckets.iter_mut().zip(&track.buckets).for_each(|(sum, count)| *sum += count);
    tracks.iter().for_each(counts);
    let demand = demands.iter().find(|demand| demand.tenant == tenant.name);
    Outcome {
        tenant: tenant.name.clone(),
        goal: aim.map(|aim| aim.to_string()).unwrap_or_default(),
        met_percent: met_percent(second.iter().copied()),
        worst_percent: worst,
        early_percent: met_percent(halves.iter().flat_map(|(first, _)| *first)),
        rate_per_s: beats as f64 / (f64::from(seconds) / 2.0 * tracks.len().max(1) as f64),
        percentile_ms: percentile_ns(&buckets, measure::thousandths(aim).into()).map(|ns| ns as f64 / 1e6),
        part: mean(|seen| seen.part),
        used: mean(|seen| seen.used),
        demand: demand.map_or_else(|| "nothing is known of it: it wants nothing".into(), ToString::to_string),
    }
}

/// The part of the windows with a measure in which the goal was met, percent.
fn met_percent<'a>(seen: impl Iterator<Item = &'a Seen>) -> Option<f64> {
    let known: Vec<bool> = seen.filter_map(|seen| seen.is_met).collect();
    let met = known.iter().filter(|met| **met).count();
    (!known.is_empty()).then(|| met as f64 * 100.0 / known.len() as f64)
}

#[cfg(test)]
#[path = "forecast/tests.rs"]
mod tests;
