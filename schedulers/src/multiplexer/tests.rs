//! Random tables under random moments of looking: replicas agree, gangs are whole, admitted periods are whole.

use super::log::ENTRIES;
use super::played::STEPS_MAX;
use super::table::{CORE_PROMILLE_MAX, CORES_MAX};
use super::*;
use proptest::prelude::*;
use std::sync::Barrier;
use std::vec;
use std::vec::Vec;

const MS: u64 = 1_000_000;

fn plan(id: u32, timing: Timing, cores: u8, period_ms: u64, active_ms: u64) -> CellPlan {
    CellPlan { id, timing, cores, period_ns: period_ms * MS, active_ns: active_ms * MS, phase_ns: 0, lends: false }
}

/// A generator of numbers for tests (SplitMix64).
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// Up to eight cells on up to eight cores; not each table can be kept.
fn draw_plans(draw: &mut Draw) -> Vec<CellPlan> {
    let cores = 2 + draw.below(7) as u32;
    let count = 2 + draw.below(7);
    let mut plans = Vec::new();
    for id in 0..count as u32 {
        let mask = (1 + draw.below((1 << cores) - 1)) as u8;
        let timing = [Timing::TimeTriggered, Timing::EventTriggered, Timing::BestEffort][draw.below(3) as usize];
        let period = [5, 10, 20, 40, 50, 100][draw.below(6) as usize];
        let active = (period * (5 + draw.below(30)) / 100).max(1);
        plans.push(CellPlan { phase_ns: draw.below(period) * MS, ..plan(id, timing, mask, period, active) });
    }
    plans
}

/// The first tables of a seed that can be kept.
fn draw_table(draw: &mut Draw) -> Table {
    loop {
        if let Ok(table) = Table::check(&draw_plans(draw), 0) {
            return table;
        }
    }
}

/// Plays one component of a table on all its cores, each with moments of its own; news come at random from any of them.
fn play_on_all_cores(seed: u64, end_ns: u64) {
    let mut draw = Draw(seed);
    let table = draw_table(&mut draw);
    let first = (0..CORES_MAX).find(|core| table.component_of(*core) != 0).expect("a table has a cell");
    let component = table.component_of(first);
    let cores: Vec<usize> = (0..CORES_MAX).filter(|core| table.component_of(*core) == component).collect();
    let log = Log::new(cores.iter().fold(0, |mask, core| mask | 1 << core));
    let mut machines: Vec<(usize, Machine)> = cores.iter().map(|core| (*core, Machine::new(&table, *core))).collect();
    let mut history: Vec<(u64, u8)> = Vec::new();
    let mut now = 0;
    while now < end_ns {
        now += 1 + draw.below(2 * MS);
        let who = draw.below(machines.len() as u64) as usize;
        let late = (now + draw.below(MS)).saturating_sub(draw.below(3 * MS));
        let (core, machine) = &mut machines[who];
        machine.advance(late, *core, &log);
        history.push((machine.now_ns(), machine.active_set()));
        let cell = draw.below(table.cells().len() as u64) as usize;
        if component >> cell & 1 == 1 {
            let news = if draw.below(3) == 0 { News::Rests } else { News::Wakes };
            let _ = log.append(now, cell, news);
        }
    }
    // Whoever looked at whichever moment found the schedule that one more machine finds now.
    history.sort_unstable();
    let mut witness = Machine::new(&table, first);
    for (at, active) in history {
        witness.play_again(at, &log);
        assert_eq!(witness.active_set(), active, "seed {seed}, at {at} ns");
        assert!(gangs_are_whole(&witness, &table), "seed {seed}, at {at} ns");
    }
}

/// Each active cell has all of its cores, and no core has two.
fn gangs_are_whole(machine: &Machine, table: &Table) -> bool {
    (0..CORES_MAX).filter_map(|core| machine.active_on(core)).all(|place| {
        let cores = table.cells()[place].cores;
        (0..CORES_MAX).filter(|core| cores >> core & 1 == 1).all(|core| machine.active_on(core) == Some(place))
    })
}

#[test]
fn cores_that_look_at_different_moments_find_one_schedule() {
    (0..300).for_each(|seed| play_on_all_cores(seed, 60 * MS));
}

#[test]
fn a_time_triggered_cell_gets_its_budget_in_each_period_beside_others() {
    let table =
        Table::check(&[plan(1, Timing::TimeTriggered, 0b11, 40, 10), plan(2, Timing::BestEffort, 0b01, 100, 5)], 0)
            .unwrap();
    let mut machine = Machine::new(&table, 0);
    let mut active_ns = 0;
    while machine.now_ns() < 400 * MS {
        let (before, was_active) = (machine.now_ns(), machine.active_on(1) == Some(0));
        machine.advance_alone(machine.next_ns().min(400 * MS));
        active_ns += if was_active { machine.now_ns() - before } else { 0 };
    }
    assert_eq!(active_ns, 100 * MS);
}

#[test]
fn an_event_triggered_cell_runs_from_its_wake_up_and_stops_at_its_rest() {
    let table = Table::check(&[plan(1, Timing::EventTriggered, 0b1, 20, 5)], 0).unwrap();
    let log = Log::new(1);
    let mut machine = Machine::new(&table, 0);
    machine.advance(MS, 0, &log);
    assert_eq!(machine.active_on(0), None);
    let at = log.append(MS, 0, News::Wakes).unwrap();
    machine.advance(at - 1, 0, &log);
    assert_eq!(machine.active_on(0), None);
    machine.advance(at, 0, &log);
    assert_eq!(machine.active_on(0), Some(0));
    let at = log.append(at, 0, News::Rests).unwrap();
    machine.advance(at, 0, &log);
    assert_eq!(machine.active_on(0), None);
}

#[test]
fn a_greedy_event_cell_takes_no_time_from_a_cell_with_a_window() {
    let plans = [plan(1, Timing::TimeTriggered, 0b1, 10, 5), plan(2, Timing::EventTriggered, 0b1, 10, 3)];
    let table = Table::check(&plans, 0).unwrap();
    let mut machine = Machine::new(&table, 0);
    machine.wake_all();
    let (mut first, mut second) = (0, 0);
    while machine.now_ns() < 1_000 * MS {
        let (before, active) = (machine.now_ns(), machine.active_on(0));
        machine.advance_alone(machine.next_ns().min(1_000 * MS));
        match active {
            Some(0) => first += machine.now_ns() - before,
            Some(_) => second += machine.now_ns() - before,
            None => {}
        }
    }
    // The second one uses what is left, beyond its budget.
    assert_eq!((first, second), (500 * MS, 500 * MS));
}

#[test]
fn plans_that_cannot_be_are_named_with_their_reason() {
    let fault = |plans: &[CellPlan]| Table::check(plans, 0).err().map(|fault| (fault.cell, fault.kind));
    let good = plan(1, Timing::TimeTriggered, 1, 10, 5);
    assert_eq!(fault(&[CellPlan { cores: 0, ..good }]), Some((1, FaultKind::NoCore)));
    assert_eq!(fault(&[CellPlan { period_ns: 0, ..good }]), Some((1, FaultKind::Period)));
    assert_eq!(fault(&[CellPlan { period_ns: u64::MAX, ..good }]), Some((1, FaultKind::Period)));
    assert_eq!(fault(&[CellPlan { phase_ns: u64::MAX, ..good }]), Some((1, FaultKind::Period)));
    assert_eq!(fault(&[CellPlan { active_ns: u64::MAX, ..good }]), Some((1, FaultKind::Budget)));
    assert_eq!(fault(&[CellPlan { active_ns: 1, ..good }]), Some((1, FaultKind::Budget)));
    assert_eq!(
        fault(&[good, plan(2, Timing::EventTriggered, 1, 10, 5)]),
        Some((2, FaultKind::CoreFull { core: 0, promille: 1000 }))
    );
    assert_eq!(fault(&[good, plan(2, Timing::Dedicated, 0b11, 10, 5)]), Some((1, FaultKind::Dedicated)));
    assert_eq!(fault(&vec![plan(3, Timing::BestEffort, 1, 100, 1); 9]), Some((3, FaultKind::TooMany)));
    assert_eq!(fault(&vec![plan(3, Timing::Dedicated, 1, 100, 1); 17]), Some((3, FaultKind::TooMany)));
}

#[test]
fn gangs_that_block_each_other_are_refused_with_the_moment() {
    // Each pair of three gangs shares a core: only one of them runs at a time, and together they want more than all the time.
    let gangs = [0b011, 0b110, 0b101].map(|cores| plan(u32::from(cores), Timing::TimeTriggered, cores, 10, 4));
    let fault = Table::check(&gangs, 0).unwrap_err();
    assert_eq!(fault.cell, 0b101);
    assert_eq!(fault.kind, FaultKind::NotWhole { at_ns: 10 * MS, got_ns: 2 * MS });
    // Less of it is kept.
    let gangs = [0b011, 0b110, 0b101].map(|cores| plan(u32::from(cores), Timing::TimeTriggered, cores, 10, 3));
    assert!(Table::check(&gangs, 0).is_ok());
}

/// Three gangs of which each two share a core, with so many ms in each 4 s.
fn slow_gangs(active_ms: u64) -> [CellPlan; 3] {
    [0b011, 0b110, 0b101].map(|cores| plan(u32::from(cores), Timing::TimeTriggered, cores, 4_000, active_ms))
}

#[test]
fn periods_longer_than_a_second_are_looked_through_too() {
    let whole = |plans: &[CellPlan]| Table::check(plans, 0).map(|_| ()).map_err(|fault| (fault.cell, fault.kind));
    let fault = FaultKind::NotWhole { at_ns: 4_000 * MS, got_ns: 800 * MS };
    assert_eq!(whole(&slow_gangs(1_600)), Err((0b101, fault)));
    assert_eq!(whole(&slow_gangs(1_200)), Ok(()));
    assert!(Table::check_with_rest(&slow_gangs(1_600), 0).is_err());
    // The second period is the first one that is not whole.
    let late = CellPlan { phase_ns: 3_900 * MS, ..slow_gangs(1_600)[2] };
    let fault = whole(&[slow_gangs(1_600)[0], slow_gangs(1_600)[1], late]).unwrap_err();
    assert!(matches!(fault.1, FaultKind::NotWhole { at_ns, .. } if at_ns > 4_000 * MS), "{fault:?}");
    // More than one core's time together, and yet each period is whole.
    let halves = [1, 2].map(|cores| plan(u32::from(cores), Timing::TimeTriggered, cores, 4_000, 2_000));
    let beside = plan(3, Timing::BestEffort, 0b11, 100, 5);
    assert_eq!(whole(&[halves[0], halves[1], beside]), Ok(()));
}

/// Seven gangs on eight cores, each of which shares a core with the next one.
fn chain(period_ms: u64, active_us: u64) -> Vec<CellPlan> {
    let active_ns = active_us * 1_000;
    let gang = |at: u32| CellPlan {
        active_ns,
        phase_ns: u64::from(at) * 137_000,
        ..plan(at, Timing::TimeTriggered, 0b11 << at, period_ms, 0)
    };
    (0..7).map(gang).collect()
}

#[test]
fn a_table_is_looked_through_in_a_bounded_number_of_steps() {
    let steps = |plans: &[CellPlan]| Table::check(plans, 0).and_then(|table| table.check_components());
    let short = steps(&chain(1, 200)).unwrap();
    assert!((5_000..=STEPS_MAX).contains(&short), "{short} steps for the shortest periods");
    let slow = plan(9, Timing::TimeTriggered, 0b11, 10_000, 100);
    let beside = |fine: CellPlan| steps(&[&chain(10_000, 2_000_000)[1..6], &[slow, fine]].concat());
    let fine = |period_ms: u64| CellPlan { active_ns: MS / 10, ..plan(8, Timing::TimeTriggered, 0b1, period_ms, 0) };
    assert_eq!(beside(fine(1)), Err(TableFault { cell: 8, kind: FaultKind::TooFine }));
    assert!(beside(fine(10)).unwrap() <= STEPS_MAX);
    // A budget that is filled again and again, while others leave it time, makes steps, too.
    let greedy = CellPlan { active_ns: MS / 10, ..plan(8, Timing::BestEffort, 0b1, 10_000, 0) };
    assert_eq!(beside(greedy), Err(TableFault { cell: 8, kind: FaultKind::TooFine }));
}

#[test]
fn a_log_that_nobody_reads_refuses_and_takes_again_after_a_look() {
    let table = Table::check(&[plan(1, Timing::EventTriggered, 0b1, 20, 5)], 0).unwrap();
    let log = Log::new(1);
    let mut last = 0;
    for _ in 0..ENTRIES {
        last = log.append(0, 0, News::Wakes).unwrap();
    }
    assert_eq!(log.append(0, 0, News::Wakes), Err(LogFull));
    Machine::new(&table, 0).advance(last, 0, &log);
    assert!(log.append(last, 0, News::Rests).is_ok());
}

#[test]
fn threads_that_write_and_read_at_once_agree() {
    let table = Table::check(&[plan(1, Timing::EventTriggered, 0b1111, 20, 5)], 0).unwrap();
    for round in 0..20 {
        let (log, barrier) = (Log::new(0b1111), Barrier::new(4));
        let finals: Vec<Machine> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4usize)
                .map(|core| {
                    let (log, barrier, table) = (&log, &barrier, &table);
                    scope.spawn(move || {
                        let (mut machine, mut draw) = (Machine::new(table, core), Draw(round * 4 + core as u64));
                        let mut now = 0;
                        for _ in 0..2_000 {
                            now += draw.below(60_000);
                            machine.advance(now, core, log);
                            if draw.below(4) == 0 {
                                let news = if draw.below(2) == 0 { News::Rests } else { News::Wakes };
                                let _ = log.append(now, 0, news);
                            }
                        }
                        barrier.wait();
                        // Two looks: the first frees places, and all come to one end.
                        machine.advance(1_000 * MS, core, log);
                        machine
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("no thread panics")).collect()
        });
        assert!(finals.windows(2).all(|pair| pair[0] == pair[1]), "round {round}: {finals:?}");
    }
}

proptest! {
    /// Bounds of any plans, also mad ones, hold without a panic; a table that is accepted leaves each core its rest.
    #[test]
    fn any_plans_are_answered(numbers in proptest::collection::vec((any::<u64>(), any::<u64>(), any::<u64>(), any::<u8>(), 0usize..4), 0..20)) {
        let timings = [Timing::Dedicated, Timing::TimeTriggered, Timing::EventTriggered, Timing::BestEffort];
        let plans: Vec<CellPlan> = numbers.iter().zip(0u32..).map(|((period, active, phase, cores, timing), id)| CellPlan {
            id, timing: timings[*timing], cores: *cores, period_ns: *period, active_ns: *active, phase_ns: *phase, lends: false,
        }).collect();
        if let Ok(table) = Table::check(&plans, 0) {
            for core in 0..CORES_MAX {
                let on_it = table.cells().iter().filter(|cell| cell.cores >> core & 1 == 1 && cell.timing != Timing::Dedicated);
                let promille: u64 = on_it.map(|cell| cell.active_ns * 1000 / cell.period_ns).sum();
                prop_assert!(promille <= CORE_PROMILLE_MAX);
            }
        }
    }
}
