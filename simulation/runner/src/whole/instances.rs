//! Up to eight machines in one process, on one virtual clock: each does what it does alone, also if one of them is killed at a random
//! moment, or its kernel fails.
//!
//! The first machine is that of the seed; the others are drawn from the world's other streams, and switched on at times of their own. Each has
//! disks, a card, a peer and tenants of its own. Compared are the trace, all figures that an instance has of itself, what its tenants did, and
//! its disk; of one that was killed, the trace and the turns until then.

use crate::arguments::Cores;
use crate::whole::image;
use crate::whole::life::{End, Life, live, run as run_lives};
use crate::whole::plan::{MS, Plan};
use crate::whole::run::check_disk;
use gyre_engine::simulate::{InstanceId, World};
use gyre_machine::random::Random;

/// Machines of a world at most.
pub const INSTANCES_MAX: usize = 8;
/// How much later than the first one a machine is switched on at most, ns.
const LATER_NS: u64 = 10 * MS;

/// The outcome of some machines.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// The trace of each, up to its end.
    pub traces: Vec<u64>,
    /// Turns of all.
    pub steps: u64,
    /// The machine that is hit.
    pub hit: Hit,
    /// The end of what failed there, if it came to that.
    pub failed: Option<Failed>,
}

/// The end of one machine that the others must not notice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hit {
    /// All live.
    Nobody,
    /// The machine with this number was killed, ns of the world.
    Killed { number: usize, at_ns: u64 },
    /// The kernel of the machine with this number fails in work for a tenant, if it comes to that.
    Failed { number: usize },
}

/// The end that a failure of the kernel makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failed {
    /// Of the tenant.
    Tenant,
    /// Of the machine.
    Machine,
}

impl Failed {
    fn of(plan: &Plan, end: &End) -> Option<Failed> {
        plan.failing?;
        match end.failed_tenant {
            _ if end.has_crashed => Some(Failed::Machine),
            Some(_) => Some(Failed::Tenant),
            None => None,
        }
    }
}

/// A machine to be.
struct Draft {
    plan: Plan,
    later_ns: u64,
}

impl Draft {
    fn begin(&self, world: &mut World) -> (InstanceId, Life) {
        let (life, id) = Life::begin(world, self.plan.clone(), disk(&self.plan), Vec::new(), self.later_ns);
        (id, life)
    }

    /// Runs it alone until a time of its own; answers its trace and turns.
    fn alone_until(&self, until_ns: u64) -> (u64, u64) {
        let mut world = World::new(self.plan.seed);
        let mut lives = vec![Draft { plan: self.plan.clone(), later_ns: 0 }.begin(&mut world)];
        run_lives(&mut world, &mut lives, until_ns);
        world.instance(lives[0].0).map_or((0, 0), |instance| (instance.trace_hash(), instance.steps()))
    }
}

/// Runs a seed with so many machines.
///
/// # Panics
/// If an instance is not what it is alone, or an invariant does not hold; the message says which.
pub fn run(seed: u64, cores: Cores, count: usize) -> Outcome {
    let drafts = drafts(seed, cores, count);
    let hit = draw_hit(seed, &drafts);
    together(seed, drafts, hit)
}

fn drafts(seed: u64, cores: Cores, count: usize) -> Vec<Draft> {
    let (world, mut random) = (World::new(seed), Random::new(seed, 32));
    let others = (1..count.min(INSTANCES_MAX) as u64)
        .map(|number| Draft { plan: Plan::new(world.stream(number)).with(cores), later_ns: random.below(LATER_NS) });
    std::iter::once(Draft { plan: Plan::new(seed).with(cores), later_ns: 0 }).chain(others).collect()
}

fn draw_hit(seed: u64, drafts: &[Draft]) -> Hit {
    let mut random = Random::new(seed, 31);
    let number = random.below(drafts.len() as u64) as usize;
    let Draft { plan, later_ns } = &drafts[number];
    match random.below(3) {
        0 => Hit::Nobody,
        1 => Hit::Killed { number, at_ns: later_ns + 4 * MS + random.below(plan.busy_ns) },
        _ => Hit::Failed { number },
    }
}

fn disk(plan: &Plan) -> Vec<u8> {
    image::disk(plan.tenants.iter().map(|tenant| tenant.block_bytes))
}

fn together(seed: u64, mut drafts: Vec<Draft>, hit: Hit) -> Outcome {
    if let Hit::Failed { number } = hit {
        let plan = drafts[number].plan.clone();
        drafts[number].plan = plan.failing_as(Random::new(seed, 33).below(u64::MAX));
    }
    let mut world = World::new(seed);
    let mut lives: Vec<(InstanceId, Life)> = drafts.iter().map(|draft| draft.begin(&mut world)).collect();
    let mut numbers: Vec<usize> = (0..drafts.len()).collect();
    let mut ran = vec![(0, 0); drafts.len()];
    if let Hit::Killed { number, at_ns } = hit {
        run_lives(&mut world, &mut lives, at_ns);
        numbers.remove(number);
        ran[number] = kill(&mut world, lives.remove(number));
    }
    run_lives(&mut world, &mut lives, u64::MAX);
    let mut failed = None;
    for (number, (id, life)) in numbers.into_iter().zip(&lives) {
        let end = life.report(world.instance(*id).expect("it lives on"));
        check_alone(number, &drafts[number].plan, &end);
        failed = failed.or(Failed::of(&drafts[number].plan, &end));
        ran[number] = (end.trace, end.steps);
    }
    if let Hit::Killed { number, at_ns } = hit {
        let alone = drafts[number].alone_until(at_ns.saturating_sub(drafts[number].later_ns));
        assert_eq!(ran[number], alone, "instance {number} was another one than alone before it was killed");
    }
    let (traces, steps): (Vec<u64>, Vec<u64>) = ran.into_iter().unzip();
    Outcome { traces, steps: steps.into_iter().sum(), hit, failed }
}

/// Kills a machine; answers the trace and turns that it had.
fn kill(world: &mut World, (id, life): (InstanceId, Life)) -> (u64, u64) {
    let steps = world.instance(id).map_or(0, |instance| instance.steps());
    let trace = world.kill(id).expect("it is killed once");
    life.check_gone();
    (trace, steps)
}

/// Compares what a machine came to beside others with what it comes to alone.
fn check_alone(number: usize, plan: &Plan, beside: &End) {
    let alone = live(plan.clone(), disk(plan), Vec::new());
    assert_eq!(beside.figures, alone.figures, "instance {number} counts what it does not count alone");
    assert_eq!(
        (beside.trace, beside.steps),
        (alone.trace, alone.steps),
        "instance {number} has another trace than alone"
    );
    assert_eq!((beside.done, beside.ends), (alone.done, alone.ends), "instance {number}: what its tenants did");
    assert_eq!(
        (beside.has_crashed, beside.failed_tenant),
        (alone.has_crashed, alone.failed_tenant),
        "instance {number}: how it ended"
    );
    assert!(beside.image == alone.image, "instance {number}: its disk");
    let is_hurt = |index| beside.has_crashed || beside.has_failed || beside.failed_tenant == Some(index);
    check_disk(&mut beside.image.clone(), plan, is_hurt);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn play(seed: u64, count: usize, hit: impl Fn(&[Draft]) -> Hit) -> Outcome {
        let drafts = drafts(seed, Cores::Still, count);
        let hit = hit(&drafts);
        together(seed, drafts, hit)
    }

    #[test]
    fn eight_machines_do_not_see_each_other_and_the_first_is_that_of_the_seed() {
        for seed in (1..=1).filter(|_| image::is_possible()) {
            let outcome = play(seed, INSTANCES_MAX, |_| Hit::Nobody);
            let traces: std::collections::BTreeSet<u64> = outcome.traces.iter().copied().collect();
            assert!(traces.len() == INSTANCES_MAX && outcome.failed.is_none(), "{outcome:?}");
            let plan = Plan::new(seed);
            assert_eq!(outcome.traces[0], live(plan.clone(), disk(&plan), Vec::new()).trace);
        }
    }

    #[test]
    fn killing_one_machine_leaves_the_others_traces() {
        for seed in (3..=5).filter(|_| image::is_possible()) {
            let number = seed as usize % 3;
            let at = |drafts: &[Draft]| drafts[number].later_ns + 5 * MS + Random::new(seed, 31).below(10 * MS);
            let outcome = play(seed, 3, |drafts| Hit::Killed { number, at_ns: at(drafts) });
            assert!(outcome.traces.iter().all(|trace| *trace != 0), "{outcome:?}");
        }
    }

    #[test]
    fn a_failure_of_one_kernel_leaves_the_others_traces() {
        let mut seen = Vec::new();
        for seed in (1..=4).filter(|_| image::is_possible()) {
            seen.extend(play(seed, 2, |_| Hit::Failed { number: 1 }).failed);
        }
        let has_all = [Failed::Tenant, Failed::Machine].iter().all(|one| seen.contains(one));
        assert!(has_all || !image::is_possible(), "{seen:?}");
    }
}
