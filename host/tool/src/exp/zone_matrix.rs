//! Two kinds of work beside each other, each with each, in two zones; on Linux in two control groups on cores of their own (R12 and Fig. 6 of
//! the Horizontal OS' paper).
//!
//! * The cost of an operation is CPU time of the virtual processor that the host gave.
//! * Each of two kinds works alone, then both beside each other, in turn, on one machine: each is once the victim. The figure is the median of
//!   the ratios.
//! * A neighbour that only computes costs something too, on a host whose processors share caches: each pair is compared with that one also.
//! * It holds what software does to each other; caches and bandwidth of memory are the host's, and both kernels have the same.

use std::{fmt::Write as _, time::Duration};

use super::{
    company::{Company, as_it_is, median},
    experiment::Experiment,
    plot::{self, Group},
    report::{Figure, Report},
    rig::Rig,
};
use crate::{cli::Kernel, failure::Result, ui::Step};

/// Kinds of work (`experiments/zone_work/work.c`): loops, page faults, names of files, reads and writes of a cached file, pipes, TCP, fork, threads
/// that take turns, poll, signals.
const KINDS: [&str; 11] =
    ["compute", "faults", "names", "reads", "writes", "pipes", "sockets", "forks", "threads", "polls", "signals"];
/// The workers, each in a zone of its own.
const ONE: &str = "a";
const OTHER: &str = "b";
const COMPUTE: &str = "compute";
/// Measurements of each two kinds, unless the user chose another number.
const ROUNDS: u32 = 3;
const WINDOW: Duration = Duration::from_millis(500);
const GOAL: f64 = 1.05;

/// The experiment on the list.
pub const EXPERIMENT: Experiment = Experiment {
    name: "zone-matrix",
    title: "Each kind of work beside each other, in two zones",
    paper: "",
    shows: "Work in one zone costs no more because of the work in another.",
    run,
};

/// One pair.
struct Pair {
    victim: &'static str,
    other: &'static str,
    /// CPU time of an operation beside the other, divided by that alone.
    cost: f64,
    /// That ratio of the time within which 99 of 100 operations are done.
    tail: f64,
}

/// Measures all pairs on both kernels.
///
/// # Errors
/// When a machine does not run.
pub fn run(rig: &Rig) -> Result<Report> {
    let linux = measure(rig, "zone-work-linux.toml", Kernel::Linux)?;
    let ours = measure(rig, "zone-work.toml", Kernel::Gyre)?;
    Ok(report(&ours, &linux))
}

fn measure(rig: &Rig, file: &str, on: Kernel) -> Result<Vec<Pair>> {
    let mut company = Company::start(rig, file, on, &as_it_is)?;
    let step = Step::start(format!("pairs of work on {on:?}"));
    // A program's first operations prepare what the others use.
    for kind in KINDS {
        company.work(rig, &[(ONE, kind), (OTHER, kind)], WINDOW)?;
    }
    let mut pairs = vec![];
    for (place, one) in KINDS.into_iter().enumerate() {
        for other in KINDS.into_iter().skip(place) {
            step.detail(&format!("{one} beside {other}"));
            pairs.extend(both(rig, &mut company, one, other)?);
        }
    }
    pairs.sort_by_key(|pair| (place_of(pair.victim), place_of(pair.other)));
    step.done();
    Ok(pairs)
}

fn place_of(kind: &str) -> usize {
    KINDS.iter().position(|one| *one == kind).unwrap_or(KINDS.len())
}

/// Measures two kinds beside each other: each as the victim, or one pair if both are the same.
fn both(rig: &Rig, company: &mut Company, one: &'static str, other: &'static str) -> Result<Vec<Pair>> {
    let mut ratios: [Vec<(f64, f64)>; 2] = Default::default();
    for _ in 0..rig.count.unwrap_or(ROUNDS) {
        let alone = [company.work(rig, &[(ONE, one)], WINDOW)?, company.work(rig, &[(OTHER, other)], WINDOW)?].concat();
        let beside = company.work(rig, &[(ONE, one), (OTHER, other)], WINDOW)?;
        for (ratios, (alone, beside)) in ratios.iter_mut().zip(alone.iter().zip(&beside)) {
            ratios.push((beside.cost_us / alone.cost_us, beside.p99_ns / alone.p99_ns));
        }
    }
    let [first, second] = ratios.map(|ratios| {
        let (costs, tails): (Vec<f64>, Vec<f64>) = ratios.into_iter().unzip();
        (median(costs), median(tails))
    });
    let pair = |victim, other, (cost, tail)| Pair { victim, other, cost, tail };
    let mut pairs = vec![pair(one, other, first)];
    pairs.extend((one != other).then(|| pair(other, one, second)));
    Ok(pairs)
}

/// Costs of all pairs, each divided by its victim's beside a neighbour that computes.
fn beside_computing(pairs: &[Pair]) -> Vec<f64> {
    let computing = |victim| pairs.iter().find(|pair| pair.victim == victim && pair.other == COMPUTE);
    pairs.iter().filter_map(|pair| Some(pair.cost / computing(pair.victim)?.cost)).collect()
}

fn report(ours: &[Pair], linux: &[Pair]) -> Report {
    let mut report = EXPERIMENT.report();
    let costs = |pairs: &[Pair]| pairs.iter().map(|pair| pair.cost).collect::<Vec<_>>();
    let most = |values: Vec<f64>| values.into_iter().fold(f64::NAN, f64::max);
    let worst = most(costs(ours));
    let count = ours.iter().filter(|pair| pair.cost <= GOAL).count();
    let count_linux = linux.iter().filter(|pair| pair.cost <= GOAL).count();
    report.figures.extend([
        Figure::count("pairs", ours.len() as u64)
            .goal(format!("{}", KINDS.len().pow(2)), ours.len() == KINDS.len().pow(2)),
        Figure::new("worst pair: CPU time of an operation, times that alone", worst, 2, "x")
            .linux(most(costs(linux)))
            .goal(format!("<= {GOAL}"), worst <= GOAL),
        Figure::new("median of the pairs", median(costs(ours)), 3, "x").linux(median(costs(linux))),
        Figure::new("worst pair, times that beside a program that computes", most(beside_computing(ours)), 2, "x")
            .linux(most(beside_computing(linux))),
        Figure::new("median of the pairs, times that", median(beside_computing(ours)), 3, "x")
            .linux(median(beside_computing(linux))),
        Figure::new(format!("pairs within {GOAL}"), count as f64, 0, "").linux(count_linux as f64),
        Figure::new("p99 of an operation, times that alone: median", median(ours.iter().map(|pair| pair.tail)), 2, "x")
            .linux(median(linux.iter().map(|pair| pair.tail))),
    ]);
    for victim in KINDS {
        let of =
            |pairs: &[Pair]| most(pairs.iter().filter(|pair| pair.victim == victim).map(|pair| pair.cost).collect());
        report.figures.push(Figure::new(format!("{victim}: worst neighbour"), of(ours), 2, "x").linux(of(linux)));
    }
    let group = |victim: &str| {
        let of = |pairs: &[Pair]| median(pairs.iter().filter(|pair| pair.victim == victim).map(|pair| pair.cost));
        Group { name: victim.into(), values: vec![of(ours), of(linux)] }
    };
    let groups: Vec<Group> = KINDS.iter().map(|victim| group(victim)).collect();
    let title = "CPU time of an operation beside others, times that alone (median)";
    report.plot("zone-matrix.svg", plot::bars(title, " x", &["zones", "Linux"], &groups));
    report.lines = Some(lines(ours, linux));
    report.notes.push(
        "Eleven kinds of work of our own in place of the paper's eleven programs, as CPU time that the host gave to the virtual processor for each \
         operation. Linux: two control groups, each program bound to a core of its own. Absolute interference by caches and memory bandwidth is \
         the host's: two cores of a shared one. It is in the ratios to a victim alone, and divided out of those to a victim beside one that computes."
            .into(),
    );
    report
}

fn lines(ours: &[Pair], linux: &[Pair]) -> String {
    let mut text = String::from("victim,other,cost,cost_linux,p99,p99_linux\n");
    for (pair, rival) in ours.iter().zip(linux) {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{},{},{:.3},{:.3},{:.3},{:.3}",
            pair.victim, pair.other, pair.cost, rival.cost, pair.tail, rival.tail
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_pair_decides() {
        let pair = |victim, cost| Pair { victim, other: "compute", cost, tail: 1.0 };
        let report = report(&[pair("faults", 1.01), pair("names", 1.2)], &[pair("faults", 1.5), pair("names", 1.1)]);
        let worst = &report.figures[1];
        assert_eq!((worst.value, worst.is_met, worst.linux), (Some(1.2), Some(false), Some(1.5)));
        assert!(report.lines.unwrap().contains("names,compute,1.200,1.100"));
    }

    #[test]
    fn a_neighbour_that_computes_is_divided_out() {
        let pair = |other, cost| Pair { victim: "names", other, cost, tail: 1.0 };
        assert_eq!(beside_computing(&[pair("compute", 1.5), pair("faults", 1.8)]), [1.0, 1.2]);
    }
}
