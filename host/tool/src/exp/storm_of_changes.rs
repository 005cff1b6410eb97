//! A storm of changes: all weights are set over and over, and then as they were. A tenant that wants more gets its share again within a
//! second.
//!
//! Changes come in lots, each of which is one change of many parts: a question over the wire for each would be the wire's speed. Time is counted in
//! instructions.

use std::time::{Duration, Instant};

use gyre_contract::{bounds::Floor, goals::Goals, native::Change, promise::Together};
use gyre_machine_file as file;

use super::{
    experiment::Experiment,
    program,
    report::{Figure, Report},
    rig::Rig,
};
use crate::{
    agent::Agent,
    cli::Kernel,
    failure::{Failure, Result},
    qemu::Clock,
    run,
    ui::Step,
};

/// Shares in percent: the machine file's.
const TENANTS: [(&str, u32); 3] = [("victim", 50), ("bystander", 33), ("attacker", 17)];
/// Rounds of all weights in a lot.
const ROUNDS: u32 = 40;
/// How long changes are made, s of the machine.
const STORM_S: u64 = 10;
/// The largest deviation in the second after the storm, points.
const DEVIATION_MOST: f64 = 0.5;
const LIMIT: Duration = Duration::from_secs(900);
const SECOND_NS: u64 = 1_000_000_000;

/// The experiment on the list.
pub const EXPERIMENT: Experiment = Experiment {
    name: "storm-of-changes",
    title: "All weights set over and over, beside Linux with control groups",
    paper: "",
    shows: "Shares hold again in the second after the last of many changes.",
    run,
};

/// The figures of one machine.
struct Seen {
    changes_per_s: f64,
    /// The largest deviation from the shares in the second after the last change, and in the one after that, points.
    first: f64,
    second: f64,
    /// The largest deviation in a second before, points.
    before: f64,
}

fn run(rig: &Rig) -> Result<Report> {
    let (ours, linux) = (measure(rig, Kernel::Gyre)?, measure(rig, Kernel::Linux)?);
    let mut report = EXPERIMENT.report();
    let met = |deviation: f64| deviation <= DEVIATION_MOST;
    report.figures.extend([
        Figure::new("changes of a weight", ours.changes_per_s, 0, "/s")
            .linux(linux.changes_per_s)
            .goal(">= 1000", ours.changes_per_s >= 1000.0),
        Figure::new("D before", ours.before, 2, "points").linux(linux.before),
        Figure::new("D, first second after", ours.first, 2, "points")
            .linux(linux.first)
            .goal("<= 0.5", met(ours.first)),
        Figure::new("D, next second", ours.second, 2, "points").linux(linux.second).goal("<= 0.5", met(ours.second)),
    ]);
    report.notes.push("Three tenants that always compute, 50 / 33 / 17; for 10 s lots of 120 changes, then the shares as they were. One core, an instruction each 4 ns.".into());
    Ok(report)
}

fn measure(rig: &Rig, on: Kernel) -> Result<Seen> {
    let path = rig.project.root.join("experiments/attacks.toml");
    let mut description = file::read(&path)?;
    let program = program::compile(&rig.project, "attacks/attacks.c")?;
    for image in description.images.values_mut() {
        image.files.insert("/attacks".into(), program.clone());
    }
    for tenant in description.machine.tenants.iter_mut().skip(1) {
        if let Some(program) = tenant.program.as_mut() {
            program.argv = vec!["/attacks".into(), "work".into()];
        }
    }
    let clock = Clock::SlowInstructions;
    let arguments = rig.arguments(path, on);
    let running = run::start_with_clock(&rig.project, description, &arguments, &rig.stop, clock)?;
    let step = Step::start(format!("changes on {on:?}"));
    let watch = Watch { rig, agent: &running.agent, started: Instant::now() };
    // On Linux a weight is that of the group: what it was is told with the goals.
    let shares: Vec<u32> = TENANTS.iter().map(|(name, _)| watch.share(name)).collect::<Result<_>>()?;
    watch.second(3 * SECOND_NS)?;
    let before = watch.deviation()?;
    let begun = watch.goals()?.now_ns;
    let mut lots = 0u32;
    let mut now = begun;
    while now < begun + STORM_S * SECOND_NS {
        watch.agent.change(&lot(&shares, lots))?;
        lots += 1;
        now = watch.goals()?.now_ns;
    }
    watch.agent.change(&Together { changes: weights(&shares, 0), ..lot(&shares, 0) })?;
    let (first, second) = (watch.deviation()?, watch.deviation()?);
    step.done();
    let changes = f64::from(lots) * f64::from(ROUNDS) * TENANTS.len() as f64;
    Ok(Seen { changes_per_s: changes * 1e9 / (now - begun).max(1) as f64, before, first, second })
}

/// Many rounds of other weights.
fn lot(shares: &[u32], seed: u32) -> Together {
    let changes = (1..=ROUNDS).flat_map(|round| weights(shares, round.wrapping_mul(7).wrapping_add(seed))).collect();
    Together { by: "storm-of-changes".into(), reason: "an experiment".into(), changes }
}

/// The weights of all tenants, turned by a number: 0 are the shares.
fn weights(shares: &[u32], turn: u32) -> Vec<Change> {
    let weight = |(at, share): (u32, &u32)| if turn == 0 { *share } else { 1 + (share + 131 * turn * (at + 1)) % 4000 };
    let names = TENANTS.iter().map(|(name, _)| *name);
    (0..).zip(shares).map(weight).zip(names).map(|(share, name)| change(name, share)).collect()
}

fn change(name: &str, share: u32) -> Change {
    let name = name.into();
    let share = Some(share);
    Change::Tenant { name, share, memory_bytes: None, process_memory_bytes: None, processes: None, floor: Floor::Held }
}

/// Looks at a machine.
struct Watch<'a> {
    rig: &'a Rig,
    agent: &'a Agent,
    started: Instant,
}

impl Watch<'_> {
    /// The machine's clock runs while it boots: no answer yet is no failure.
    fn goals(&self) -> Result<Goals> {
        loop {
            if let Ok(shown) = self.agent.goals() {
                return Ok(shown.goals);
            }
            if self.rig.stop.is_set() || self.started.elapsed() > LIMIT {
                return Err(Failure::new("the machine does not answer"));
            }
            std::thread::sleep(Duration::from_millis(300));
        }
    }

    fn share(&self, name: &str) -> Result<u32> {
        Ok(self.goals()?.tenants.iter().find(|tenant| tenant.name == name).map_or(1, |tenant| tenant.share))
    }

    /// Waits for a time of the machine; answers the goals at its begin and its end.
    fn second(&self, ns: u64) -> Result<(Goals, Goals)> {
        let first = self.goals()?;
        loop {
            std::thread::sleep(Duration::from_millis(50));
            let last = self.goals()?;
            if last.now_ns >= first.now_ns + ns {
                return Ok((first, last));
            }
        }
    }

    fn deviation(&self) -> Result<f64> {
        let (first, last) = self.second(SECOND_NS)?;
        Ok(deviation(&first, &last))
    }
}

/// The largest deviation of a tenant's part of what all three used, points.
fn deviation(first: &Goals, last: &Goals) -> f64 {
    let of = |goals: &Goals, name: &str| goals.tenants.iter().find(|one| one.name == name).map_or(0, |one| one.cycles);
    let used = TENANTS.map(|(name, _)| of(last, name).saturating_sub(of(first, name)) as f64);
    let all = used.iter().sum::<f64>().max(1.0);
    let points = |(used, (_, share)): (&f64, &(&str, u32))| (100.0 * used / all - f64::from(*share)).abs();
    used.iter().zip(&TENANTS).map(points).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use gyre_contract::goals::TenantGoal;

    use super::*;

    #[test]
    fn the_deviation_is_the_largest_of_the_three() {
        let goals = |cycles: [u64; 3]| {
            let tenant = |((name, _), cycles): (&(&str, u32), u64)| TenantGoal {
                name: (*name).into(),
                cycles,
                ..TenantGoal::default()
            };
            Goals { tenants: TENANTS.iter().zip(cycles).map(tenant).collect(), ..Goals::default() }
        };
        let seen = deviation(&goals([100, 100, 100]), &goals([620, 410, 270]));
        assert!((seen - 2.0).abs() < 1e-9, "{seen}");
    }

    #[test]
    fn a_storm_ends_with_the_shares() {
        let shares = [5000, 3300, 1700];
        assert_eq!(weights(&shares, 0)[0], change("victim", 5000));
        let lot = lot(&shares, 3);
        assert_eq!(lot.changes.len(), 120);
        assert!(lot.changes.iter().all(|one| matches!(one, Change::Tenant { share: Some(1..=4000), .. })));
    }
}
