//! One seed: chaos, then everything must end; then the checks.

use crate::arguments::Cores;
use crate::reached::Reached;
use crate::stages::failures::{Failures, of_grid};
use crate::stages::grid::{Grid, Held, Order, build};
use crate::stages::workload::{Counts, Started, start};
use gyre_account::{ActivityId, ResourceId};
use gyre_engine::simulate::{Mover, Moves, Simulator, Stop};
use gyre_machine::random::Random;
use gyre_message::sleep_ns;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::Ordering;

/// The outcome of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// Depends on every turn.
    pub trace: u64,
    /// Turns.
    pub steps: u64,
    /// Requests sent.
    pub requests: u64,
    /// Those of them that were answered with `Gone`, or given up.
    pub cut_short: u64,
    /// Kernel failures in work for one of the tenants.
    pub failures: usize,
    /// Cores that left and came back.
    pub moves: Moves,
    /// Resources of the grid, and those whose work failed.
    pub reached: Reached,
}

const CHAOS_NS: u64 = 20_000_000;
/// When the first core moves.
const MOVES_FROM_NS: u64 = 100_000;
const STEPS_MAX: u64 = 3_000_000;

/// Runs a seed.
///
/// # Panics
/// If an invariant does not hold; the message says which.
pub fn run(seed: u64, cores: Cores) -> Outcome {
    let grid = build(seed);
    let counts = Rc::new(Counts::default());
    let Started { tenants, doomed } = start(&grid, seed, &counts);
    let killed = kill_them(&grid, seed, &doomed);
    let failures = Failures::plan(&grid, seed, &tenants);
    let mut simulator = Simulator::new(grid.engine, seed);
    let mover = Rc::new(Mover::new(grid.engine, seed, MOVES_FROM_NS, tenants.to_vec()));
    if cores == Cores::Moving {
        simulator.attach(mover.clone());
    }
    assert_ne!(simulator.run_for(CHAOS_NS, STEPS_MAX), Stop::Exhausted, "chaos takes too many turns");
    *grid.is_over.lock() = true;
    mover.stop();
    let stop = simulator.run(STEPS_MAX, || false);
    assert_eq!(stop, Stop::Quiet, "what was begun does not end");
    assert_eq!(killed.get(), doomed.len(), "not all kills were answered");
    check(&grid, &counts, &failures);
    Outcome {
        trace: simulator.trace_hash(),
        steps: simulator.steps(),
        requests: counts.sent.get(),
        cut_short: counts.gone.get() + counts.abandoned.get(),
        failures: failures.count(),
        moves: mover.moves(),
        reached: reached(&grid, &failures),
    }
}

fn reached(grid: &Grid, failures: &Failures) -> Reached {
    let (engine, failed) = (grid.engine, failures.resources());
    let name = |resource| engine.resource_name(resource);
    let has_failed = |resource: &ResourceId| failed >> resource.0 & 1 == 1;
    Reached::new(of_grid(engine).map(name), of_grid(engine).filter(has_failed).map(name))
}

fn kill_them(grid: &Grid, seed: u64, doomed: &[ActivityId]) -> Rc<Cell<usize>> {
    let mut random = Random::new(seed, 5);
    let killed = Rc::new(Cell::new(0));
    for &activity in doomed {
        let (at, engine, killed) = (random.below(CHAOS_NS), grid.engine, killed.clone());
        engine.spawn_for(ResourceId::RUNTIME, ActivityId::INFRASTRUCTURE, async move {
            sleep_ns(at).await;
            // Its tenant may have been killed before it.
            let _ = engine.kill(activity).await;
            killed.set(killed.get() + 1);
        });
    }
    killed
}

fn check(grid: &Grid, counts: &Counts, failures: &Failures) {
    let engine = grid.engine;
    for core in 0..engine.cores() {
        let partition = engine.accounts().line(core).partition();
        assert_eq!(partition.unattributed(), 0, "core {core}: {partition:?}");
        if engine.is_vacant(core) {
            continue;
        }
        gyre_machine::select_core(core);
        let figures = engine.copy_figures();
        let left = (figures.tasks, figures.queued, figures.timers);
        // The device waits for its next frame on the first core.
        let device = usize::from(core == 0);
        assert_eq!(left, (device, 0, 0), "tasks, queued messages and timers left on core {core}");
    }
    // A failure leaves the future of one task as it lies.
    let lost = failures.count();
    assert!(Held::count() <= lost, "{} objects are still held, {lost} may be lost", Held::count());
    let ended = counts.answered.get() + counts.gone.get() + counts.abandoned.get();
    assert!(ended <= counts.sent.get() && counts.sent.get() - ended <= lost as u64, "requests sent and ended");
    let (accepted, sent) = (grid.driver.accepted.load(Ordering::Relaxed), grid.driver.sent.load(Ordering::Relaxed));
    assert_eq!(sent, accepted, "frames that left the device, and requests that it took");
    let mut log = grid.head.log.lock();
    log.retain(|(order, _)| failures.tenant.is_none_or(|tenant| tenant.0 != order.activity));
    check_order(&log);
}

/// Requests of one activity with one label: one at a time, in the order made.
fn check_order(log: &[(Order, bool)]) {
    let mut chains: std::collections::BTreeMap<(u32, u64), Vec<(u64, bool)>> = Default::default();
    for (order, has_ended) in log {
        chains.entry((order.activity, order.label)).or_default().push((order.number, *has_ended));
    }
    for ((activity, label), chain) in chains {
        let mut last = 0;
        for pair in chain.chunks(2) {
            let is_whole = pair.len() == 2 && pair[0].0 == pair[1].0 && !pair[0].1 && pair[1].1;
            assert!(is_whole, "activity {activity}, label {label}: two at a time: {pair:?}");
            assert!(pair[0].0 > last, "activity {activity}, label {label}: {} after {last}", pair[0].0);
            last = pair[0].0;
        }
    }
}
