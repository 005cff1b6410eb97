//! Syncs beside a neighbour that syncs without pause, in turn with the same victim alone: on one machine, since two
//! boots differ more than the storm does.
//!
//! * Both tenants run `experiments/fsync/syncer.c`. It takes its role from its name, keeps to a common clock, and
//!   storms in every second round only. So a round alone and one beside make a pair.
//! * The ratio of p99 is taken within a pair, then the median over the pairs. The machine's drift is in neither.
//! * The goal is a ratio of at most [`GOAL`] with at least [`SYNCS_MIN`] syncs in the smallest round.
//! * Linux runs the same with `io.max`, which counts requests: [`LINUX_NS_PER_SECOND`] makes a tenth of the disk of
//!   it.
//!
//! The agent is not asked during the rounds, since its work is on the same cores. Logs are read after the last round;
//! `rounds` reads them.

mod rounds;

use std::time::{Duration, Instant};

use gyre_contract::{boot::Machine, catalogue::Resource, policy::Rate};
use gyre_machine_file as file;

use super::{
    experiment::Experiment,
    note,
    plot::{self, Group},
    program,
    report::{Figure, Report},
    rig::Rig,
};
use crate::{
    cli::Kernel,
    failure::{Failure, Result},
    run::{self, Running},
    ui::Step,
};
use rounds::{Pair, Rounds, median};

const VICTIM: &str = "victim";
const STORM: &str = "storm";
/// Pairs of a round alone and one beside, unless the user chose another number.
const PAIRS: u32 = 8;
/// Length of a round, unless the user chose other seconds.
const ROUND_SECONDS: u32 = 10;
/// Rounds before the first that counts: the machine comes up.
const ROUNDS_BEFORE: u32 = 2;
/// Of the disk, for Linux's storm: a tenth.
const LINUX_NS_PER_SECOND: u64 = 100_000_000;
/// How long the victim may be late.
const PATIENCE: Duration = Duration::from_secs(60);
/// The fewest syncs of a round whose p99 says anything.
const SYNCS_MIN: usize = 50;
/// Beside the storm, times alone.
const GOAL: f64 = 1.1;

/// The experiment on the list.
pub const EXPERIMENT: Experiment = Experiment {
    name: "fsync-storm",
    title: "Syncs beside a neighbour that storms the disk",
    paper: "",
    shows: "A sync waits for its own work and not for the work of a neighbour.",
    run,
};

/// Adversary nr. 3: a neighbour that syncs without pause.
///
/// # Errors
/// When a machine does not run.
pub fn run(rig: &Rig) -> Result<Report> {
    let mut report = EXPERIMENT.report();
    let gyre = measure(rig, Kernel::Gyre)?;
    let linux = measure(rig, Kernel::Linux)?;
    report.figures = figures(&gyre, &linux);
    report.plot("fsync-storm.svg", plot::bars(TITLE, " ms", SERIES, &groups(&gyre, &linux)));
    report.notes.push(format!(
        "{} pairs of rounds of {} s, alone and beside in turn on one machine; the first second of a round does not count. p99 is of each round, then the \
         median over the rounds; a ratio is of the two rounds of a pair, then the median over the pairs. Both tenants' file systems are partitions of one virtio \
         disk of 400 requests a second; the storm may take 1.5 % of the device's time, flushes included. Linux: Debian's cloud kernel, same images and \
         disk, cpu.weight; io.max counts requests and lets the storm have a tenth of them, which are about as many syncs. Times are the host's: what else it does is in \
         them.",
        gyre.pairs().len(),
        seconds(rig)
    ));
    Ok(report)
}

const TITLE: &str = "p99 of the victim's fsync of one appended page, pair by pair";
const SERIES: &[&str] = &["Gyre alone", "Gyre beside", "Linux alone", "Linux beside"];

fn groups(gyre: &Rounds, linux: &Rounds) -> Vec<Group> {
    let both = gyre.pairs().into_iter().zip(linux.pairs());
    let group = |(number, (ours, theirs)): (u32, (Pair, Pair))| Group {
        name: format!("{number}"),
        values: [ours, theirs].iter().flat_map(|pair| [pair.alone.p99, pair.beside.p99]).collect(),
    };
    (1..).zip(both).map(group).collect()
}

fn figures(gyre: &Rounds, linux: &Rounds) -> Vec<Figure> {
    let row = |name: &str, decimals, unit, value: &dyn Fn(&Rounds) -> f64| {
        Figure::new(name, value(gyre), decimals, unit).linux(value(linux))
    };
    let tails = |rounds: &Rounds| rounds.each(|pair| pair.beside.p99 / pair.alone.p99.max(0.001));
    let ratio = median(&tails(gyre));
    let is_met = ratio <= GOAL && gyre.fewest() >= SYNCS_MIN;
    vec![
        row("p99 of the victim's syncs, beside / alone", 2, "", &|rounds| median(&tails(rounds)))
            .goal(format!("<= {GOAL}"), is_met),
        row("the same: least pair", 2, "", &|rounds| least(&tails(rounds))),
        row("the same: largest pair", 2, "", &|rounds| largest(&tails(rounds))),
        row("the same, all rounds together", 2, "", &|rounds| rounds.together(true).p99 / rounds.together(false).p99),
        row("median of the victim's syncs, beside / alone", 2, "", &|rounds| {
            median(&rounds.each(|pair| pair.beside.p50 / pair.alone.p50.max(0.001)))
        }),
        row("alone: p50", 1, "ms", &|rounds| median(&rounds.each(|pair| pair.alone.p50))),
        row("alone: p99", 1, "ms", &|rounds| median(&rounds.each(|pair| pair.alone.p99))),
        row("alone: least p99 of a round", 1, "ms", &|rounds| least(&rounds.each(|pair| pair.alone.p99))),
        row("alone: largest p99 of a round", 1, "ms", &|rounds| largest(&rounds.each(|pair| pair.alone.p99))),
        row("beside: p50", 1, "ms", &|rounds| median(&rounds.each(|pair| pair.beside.p50))),
        row("beside: p99", 1, "ms", &|rounds| median(&rounds.each(|pair| pair.beside.p99))),
        row("beside: least p99 of a round", 1, "ms", &|rounds| least(&rounds.each(|pair| pair.beside.p99))),
        row("beside: largest p99 of a round", 1, "ms", &|rounds| largest(&rounds.each(|pair| pair.beside.p99))),
        row("syncs of the storm", 1, "a second", &|rounds| rounds.stormed_per_second),
        row("syncs of the victim in a round, at least", 0, "", &|rounds| rounds.fewest() as f64),
    ]
}

fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

fn largest(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

/// Returns the seconds of a round.
fn seconds(rig: &Rig) -> u32 {
    rig.seconds.unwrap_or(ROUND_SECONDS).max(2)
}

/// Linux's limit is of requests, which the tool takes for the same part of the disk's: what gives the storm about as many syncs.
fn limit_requests(machine: &mut Machine) {
    let storm = machine.tenants.iter_mut().filter(|tenant| tenant.name == STORM);
    let limits = storm.flat_map(|tenant| &mut tenant.entitlements).filter(|one| one.resource == Resource::Block);
    limits.for_each(|one| one.limit = Some(Rate::PerSecond(LINUX_NS_PER_SECOND)));
}

/// Lets both tenants go through their rounds.
fn measure(rig: &Rig, on: Kernel) -> Result<Rounds> {
    let path = rig.project.root.join("experiments/fsync-storm.toml");
    let mut description = file::read(&path)?;
    if let Some(image) = description.images.get_mut("sync") {
        image.files.insert("/syncer".into(), program::compile(&rig.project, "fsync/syncer.c")?);
    }
    if on == Kernel::Linux {
        limit_requests(&mut description.machine);
    }
    let rounds = rig.count.unwrap_or(PAIRS).max(1) * 2;
    for tenant in &mut description.machine.tenants {
        let (rounds, seconds) = (rounds.to_string(), seconds(rig).to_string());
        let argv = ["/syncer", &tenant.name, &rounds, &seconds].map(str::to_owned).to_vec();
        tenant
            .program
            .iter_mut()
            .filter(|_| [VICTIM, STORM].contains(&tenant.name.as_str()))
            .for_each(|program| program.argv.clone_from(&argv));
    }
    let arguments = rig.arguments(path, on);
    let mut running = run::start(&rig.project, description, &arguments, &rig.stop)?;
    let length = Duration::from_secs(u64::from((rounds + ROUNDS_BEFORE) * seconds(rig)));
    let text = wait(rig, &mut running, on, length)?;
    let found = Rounds::read(&text, seconds(rig));
    if found.pairs().len() < rounds as usize / 2 || found.fewest() == 0 {
        return Err(Failure::new("the victim's log does not tell of all rounds: fewer of them (--count)"));
    }
    tell(on, &found);
    Ok(found)
}

fn tell(on: Kernel, found: &Rounds) {
    for pair in found.pairs() {
        note(&format!(
            "{on:?}: alone {}, beside {}: p99 {:.2} times",
            pair.alone,
            pair.beside,
            pair.beside.p99 / pair.alone.p99.max(0.001)
        ));
    }
}

/// Waits until both tenants have done their rounds, `length` after the start; answers what they said.
fn wait(rig: &Rig, running: &mut Running, on: Kernel, length: Duration) -> Result<String> {
    let step = Step::start(format!("syncing on {on:?}, alone and beside a storm in turn"));
    let started = Instant::now();
    loop {
        if let Some(status) = running.qemu.ended()? {
            return Err(running.qemu.unexpected_end(status));
        }
        if rig.stop.is_set() {
            return Err(Failure::new("ended by the user"));
        }
        step.detail(&format!("{} of {} s", started.elapsed().as_secs(), length.as_secs()));
        std::thread::sleep(Duration::from_secs(1));
        // Not before: the agent's work is on the same cores.
        if started.elapsed() < length {
            continue;
        }
        let text = [VICTIM, STORM].map(|name| running.agent.get(&format!("/logs/{name}")).unwrap_or_default()).concat();
        if rounds::is_over(&text) {
            step.done();
            return Ok(text);
        }
        if started.elapsed() > length + PATIENCE || text.contains("fsync: FAILED") {
            return Err(Failure::new(format!("the tenants did not come to their end; they said: {text}")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two pairs in which alone takes 2 ms and beside so much.
    fn rounds(beside_ms: f64) -> Rounds {
        let line = |round: usize| format!("fsync: took {round} {}\n", if round % 2 == 0 { 2.0 } else { beside_ms });
        let lines: String = (0..4).flat_map(|round| (0..SYNCS_MIN).map(move |_| round)).map(line).collect();
        Rounds::read(&lines, 10)
    }

    #[test]
    fn the_goal_is_met_by_the_median_of_the_pairs() {
        let is_met = |beside| figures(&rounds(beside), &rounds(9.0))[0].is_met;
        assert_eq!([is_met(2.2), is_met(2.3)], [Some(true), Some(false)]);
    }

    #[test]
    fn each_pair_is_a_group_of_the_plot() {
        let groups = groups(&rounds(3.0), &rounds(9.0));
        assert_eq!(groups.len(), 2);
        assert_eq!(groups[1].values, [2.0, 3.0, 2.0, 9.0]);
    }
}
