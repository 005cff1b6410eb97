//! Cells on simulated cores: at every instant of every seed a gang has all of its cores or none of them.

mod common;
use common::*;
use gyre_account::ActivityId;
use gyre_engine::simulate::{Simulator, Stop};
use gyre_engine::{CellsError, Engine, GridConfig, ResourceConfig, ThreadParams, compute};
use gyre_machine::{PageTable, Trap, UserContext, core_index, now};
use gyre_schedulers::multiplexer::{CellPlan, Epoch, FaultKind, Timing};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

const MS: u64 = 1_000_000;
const MARGIN_NS: u64 = 2 * MS;
/// A program runs so long until it looks at the clock, ns.
const BURST_NS: u64 = 5_000;
/// A core leaves a slot so much later at most: the message that is under way, and the look itself.
const LATE_NS: u64 = 40_000;

/// A stay of a tenant's thread on a core.
#[derive(Clone, Copy, Debug)]
struct Stay {
    tenant: usize,
    core: usize,
    from_ns: u64,
    to_ns: u64,
}

type Stays = Arc<Mutex<Vec<Stay>>>;

struct Machine {
    engine: &'static Engine,
    tenants: Vec<ActivityId>,
    stays: Stays,
}

impl Machine {
    fn new(cores: usize, tenants: usize) -> Machine {
        let engine = engine_of(cores, GridConfig::new(vec![ResourceConfig::new("linux")]));
        let tenants = (0..tenants).map(|_| tenant(engine, 1)).collect();
        Machine { engine, tenants, stays: Stays::default() }
    }

    fn plan(&self, tenant: usize, timing: Timing, cores: u8, active_ms: u64) -> CellPlan {
        let id = self.tenants[tenant].0;
        CellPlan { id, timing, cores, period_ns: 20 * MS, active_ns: active_ms * MS, phase_ns: 0, lends: false }
    }

    /// A thread that computes in short bursts, and sleeps after each `busy_ns` for as long, or never.
    fn thread(&self, tenant: usize, cores: u64, busy_ns: Option<u64>) {
        let (engine, stays) = (self.engine, self.stays.clone());
        let program = Box::pin(async move {
            let mut context = UserContext::new().unwrap();
            let table = PageTable::new().unwrap().root();
            let mut done_ns = 0;
            loop {
                let (core, from_ns) = (core_index(), engine.ns(now()));
                context.script.push_back((BURST_NS, Trap::SystemCall));
                compute::run(&mut context, &table).await;
                let to_ns = engine.ns(now());
                // A longer one was interrupted, and somebody else was served in between.
                if core == core_index() && to_ns - from_ns <= 2 * BURST_NS {
                    stays.lock().unwrap().push(Stay { tenant, core, from_ns, to_ns });
                }
                done_ns += BURST_NS;
                if let Some(busy_ns) = busy_ns.filter(|busy_ns| done_ns >= *busy_ns) {
                    done_ns = 0;
                    gyre_message::sleep_ns(busy_ns).await;
                }
            }
        });
        let params = ThreadParams { cores, kernel: resource(0) };
        assert!(engine.spawn_thread(self.tenants[tenant], params, program));
    }

    fn had(&self, tenant: usize, core: usize) -> u64 {
        let stays = self.stays.lock().unwrap();
        let of = stays.iter().filter(|stay| (stay.tenant, stay.core) == (tenant, core));
        of.map(|stay| stay.to_ns - stay.from_ns).sum()
    }

    /// Stays of one tenant on one core that follow each other, as one.
    fn runs(&self) -> Vec<Stay> {
        let mut stays = self.stays.lock().unwrap().clone();
        stays.sort_unstable_by_key(|stay| (stay.core, stay.from_ns));
        let mut runs: Vec<Stay> = Vec::new();
        for stay in stays {
            let goes_on = |run: &&mut Stay| {
                (run.core, run.tenant) == (stay.core, stay.tenant) && stay.from_ns <= run.to_ns + 2 * BURST_NS
            };
            match runs.last_mut().filter(goes_on) {
                Some(run) => run.to_ns = stay.to_ns,
                None => runs.push(stay),
            }
        }
        runs
    }

    /// While a core runs a cell's thread, no other core of that cell runs anybody else.
    fn check_gangs(&self, cells: &[(usize, u8)], from_ns: u64, seed: u64) {
        let runs = self.runs();
        for run in runs.iter().filter(|run| run.from_ns >= from_ns) {
            let Some((_, cores)) = cells.iter().find(|(tenant, _)| *tenant == run.tenant) else { continue };
            assert!(cores >> run.core & 1 == 1, "seed {seed}: {run:?} is not on a core of its cell");
            for other in runs.iter().filter(|other| other.tenant != run.tenant && cores >> other.core & 1 == 1) {
                let overlap = other.to_ns.min(run.to_ns).saturating_sub(other.from_ns.max(run.from_ns));
                assert!(overlap <= LATE_NS, "seed {seed}: {run:?} beside {other:?}");
            }
        }
    }
}

fn agree(epoch: &Epoch, cores: usize) {
    for place in 0..epoch.table.cells().len() {
        let cell = epoch.table.cells()[place];
        let of = (0..cores).filter(|core| cell.cores >> core & 1 == 1);
        let had: Vec<u64> =
            of.map(|core| epoch.figures(core, place).unwrap().active_ns.load(Ordering::Relaxed)).collect();
        let (least, most) = (had.iter().min().unwrap(), had.iter().max().unwrap());
        // A core's figure is of its last change.
        assert!(most - least <= cell.active_ns + 25 * MS, "{cell:?}: {had:?}");
    }
}

fn run(machine: &Machine, simulator: &mut Simulator, until_ns: u64) {
    assert_eq!(simulator.run_for(until_ns, 100_000_000), Stop::TimeOver);
    check_books(machine.engine);
}

#[test]
fn gangs_are_whole_at_every_instant_of_every_seed() {
    for seed in 0..24 {
        let machine = Machine::new(3, 4);
        for core in 0..3 {
            machine.thread(0, 1 << core, None);
            machine.thread(3, 1 << core, None);
        }
        for core in 1..3 {
            machine.thread(1, 1 << core, Some(300_000 + seed * 50_000));
        }
        machine.thread(2, 0b1, Some(700_000));
        let plans = [
            machine.plan(0, Timing::TimeTriggered, 0b011, 5),
            machine.plan(1, Timing::EventTriggered, 0b110, 6),
            machine.plan(2, Timing::BestEffort, 0b001, 2),
        ];
        let epoch = machine.engine.set_cells(&plans, MARGIN_NS).unwrap();
        let mut simulator = Simulator::new(machine.engine, seed);
        run(&machine, &mut simulator, 100 * MS);
        assert!(machine.engine.is_taken_up(&epoch), "seed {seed}");
        // Threads go to the cores of their cell at first.
        machine.check_gangs(&[(0, 0b011), (1, 0b110), (2, 0b001)], 10 * MS, seed);
        agree(&epoch, 3);
        let had = [0, 1].map(|core| machine.had(0, core));
        // A quarter of the time, of which bursts that were cut and the clock's looks are not counted.
        assert!(had.iter().all(|ns| (16 * MS..=27 * MS).contains(ns)), "seed {seed}: {had:?}");
        assert!(machine.had(3, 2) > 10 * MS, "seed {seed}: who is no cell has its part");
    }
}

#[test]
fn a_change_at_run_time_is_taken_up_by_all_cores_at_one_time() {
    for seed in 0..6 {
        let machine = Machine::new(2, 2);
        for core in 0..2 {
            machine.thread(0, u64::MAX, None);
            machine.thread(1, 1 << core, None);
        }
        let mut simulator = Simulator::new(machine.engine, seed);
        let first = machine.engine.set_cells(&[machine.plan(0, Timing::TimeTriggered, 0b11, 5)], MARGIN_NS).unwrap();
        let busy = machine.engine.set_cells(&[], MARGIN_NS);
        assert_eq!(busy.unwrap_err(), CellsError::Busy);
        run(&machine, &mut simulator, 100 * MS);
        let more = [machine.plan(0, Timing::TimeTriggered, 0b11, 15)];
        let second = machine.engine.set_cells(&more, MARGIN_NS).unwrap();
        run(&machine, &mut simulator, 200 * MS);
        for core in 0..2 {
            let late = second.swapped_ns(core).unwrap() - second.table.from_ns;
            assert!(late <= LATE_NS, "seed {seed}: core {core} came {late} ns late");
            assert!(second.ready_ns(core).unwrap() < second.table.from_ns);
        }
        assert_eq!((first.number, second.number), (1, 2));
        machine.check_gangs(&[(0, 0b11)], 10 * MS, seed);
        machine.engine.set_cells(&[], MARGIN_NS).unwrap();
        machine.stays.lock().unwrap().clear();
        run(&machine, &mut simulator, 300 * MS);
        let had: Vec<u64> = (0..2).map(|tenant| (0..2).map(|core| machine.had(tenant, core)).sum()).collect();
        assert!(had[0].abs_diff(had[1]) <= 20 * MS, "seed {seed}: nobody is a cell any more: {had:?}");
    }
}

#[test]
fn a_dedicated_core_is_its_cells_own_and_a_lender_gives_what_it_leaves() {
    let machine = Machine::new(2, 3);
    machine.thread(0, u64::MAX, None);
    (0..2).for_each(|_| machine.thread(1, u64::MAX, None));
    let plans = [
        machine.plan(0, Timing::Dedicated, 0b10, 1),
        CellPlan { lends: true, ..machine.plan(2, Timing::TimeTriggered, 0b01, 10) },
    ];
    machine.engine.set_cells(&plans, MARGIN_NS).unwrap();
    let mut simulator = Simulator::new(machine.engine, 1);
    run(&machine, &mut simulator, 100 * MS);
    machine.check_gangs(&[(0, 0b10)], 20 * MS, 1);
    assert!(machine.had(0, 1) >= 75 * MS, "{}", machine.had(0, 1));
    assert!(machine.had(1, 0) >= 75 * MS, "all of what the lender leaves: {}", machine.had(1, 0));
}

#[test]
fn tables_that_cannot_be_are_refused_and_change_nothing() {
    let machine = Machine::new(2, 3);
    let set = |plans: &[CellPlan]| machine.engine.set_cells(plans, MARGIN_NS).map(|_| ()).unwrap_err();
    let good = machine.plan(0, Timing::TimeTriggered, 0b01, 12);
    assert!(matches!(set(&[CellPlan { cores: 0b100, ..good }]), CellsError::NoSuchCore { .. }));
    assert!(matches!(set(&[good, good]), CellsError::Table(_)));
    assert_eq!(set(&[machine.plan(0, Timing::Dedicated, 0b11, 1)]), CellsError::NoCoreLeft);
    let second = machine.plan(1, Timing::EventTriggered, 0b01, 8);
    let CellsError::Table(fault) = set(&[good, second]) else { panic!("the core is full") };
    assert_eq!(fault.kind, FaultKind::CoreFull { core: 0, promille: 1000 });
    assert!(machine.engine.cells().is_none());
}
