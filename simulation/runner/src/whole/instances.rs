//! Two machines in one process, on one virtual clock: each does what it does alone, also if the other is killed at a random moment.
//!
//! The first machine is that of the seed, the second one is drawn from the world's second stream. Both have disks, a card, a peer and
//! tenants of their own. Compared are the trace, all figures that an instance has of itself, what its tenants did, and its disk.

use crate::arguments::Cores;
use crate::whole::image;
use crate::whole::life::{End, Life, live, run as run_lives};
use crate::whole::plan::{MS, Plan};
use crate::whole::run::check_disk;
use gyre_engine::simulate::{InstanceId, World};
use gyre_machine::random::Random;

/// The outcome of two machines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// The trace of each, up to its end.
    pub traces: [u64; 2],
    /// Turns of both.
    pub steps: u64,
    /// When the second one was killed, ns.
    pub killed_ns: Option<u64>,
}

/// How the second machine ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Lives,
    KilledAt(u64),
}

/// Runs a seed.
///
/// # Panics
/// If an instance is not what it is alone, or an invariant does not hold; the message says which.
pub fn run(seed: u64, cores: Cores) -> Outcome {
    let world = World::new(seed);
    let plans = [Plan::new(seed), Plan::new(world.stream(1))].map(|plan| plan.with(cores));
    let mut random = Random::new(seed, 31);
    let killed_ns = 4 * MS + random.below(plans[1].busy_ns);
    let fate = if random.once_in(2) { Fate::KilledAt(killed_ns) } else { Fate::Lives };
    together(world, plans, fate)
}

fn disk(plan: &Plan) -> Vec<u8> {
    image::disk(plan.tenants.iter().map(|tenant| tenant.block_bytes))
}

fn together(mut world: World, plans: [Plan; 2], fate: Fate) -> Outcome {
    let begin = |plan: &Plan| {
        let (life, id) = Life::begin(&mut world, plan.clone(), disk(plan), Vec::new());
        (id, life)
    };
    let mut lives: Vec<(InstanceId, Life)> = plans.iter().map(begin).collect();
    let mut traces = [0; 2];
    let mut steps = 0;
    if let Fate::KilledAt(at_ns) = fate {
        run_lives(&mut world, &mut lives, at_ns);
        let (id, life) = lives.remove(1);
        steps = world.instance(id).map_or(0, |instance| instance.steps());
        traces[1] = world.kill(id).expect("it is killed once");
        life.check_gone();
    }
    run_lives(&mut world, &mut lives, u64::MAX);
    for (index, (id, life)) in lives.iter().enumerate() {
        let end = life.report(world.instance(*id).expect("it lives on"));
        check_alone(index, &plans[index], &end);
        traces[index] = end.trace;
        steps += end.steps;
    }
    let killed_ns = if let Fate::KilledAt(at_ns) = fate { Some(at_ns) } else { None };
    Outcome { traces, steps, killed_ns }
}

/// Compares what a machine came to beside another one with what it comes to alone.
fn check_alone(index: usize, plan: &Plan, beside: &End) {
    let alone = live(plan.clone(), disk(plan), Vec::new());
    assert_eq!(beside.figures, alone.figures, "instance {index} counts what it does not count alone");
    assert_eq!(
        (beside.trace, beside.steps),
        (alone.trace, alone.steps),
        "instance {index} has another trace than alone"
    );
    assert_eq!((beside.done, beside.ends), (alone.done, alone.ends), "instance {index}: what its tenants did");
    assert!(beside.image == alone.image, "instance {index}: its disk");
    check_disk(&mut beside.image.clone(), plan, |_| beside.has_crashed || beside.has_failed);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plans(seed: u64) -> [Plan; 2] {
        [Plan::new(seed), Plan::new(World::new(seed).stream(1))]
    }

    #[test]
    fn two_machines_do_not_see_each_other() {
        for seed in (1..=2).filter(|_| image::is_possible()) {
            let outcome = together(World::new(seed), plans(seed), Fate::Lives);
            assert!(outcome.killed_ns.is_none() && outcome.traces[0] != outcome.traces[1]);
        }
    }

    #[test]
    fn killing_one_machine_leaves_the_others_trace() {
        for seed in (3..=4).filter(|_| image::is_possible()) {
            let at_ns = 5 * MS + Random::new(seed, 31).below(10 * MS);
            let outcome = together(World::new(seed), plans(seed), Fate::KilledAt(at_ns));
            assert_eq!(outcome.killed_ns, Some(at_ns));
        }
    }
}
