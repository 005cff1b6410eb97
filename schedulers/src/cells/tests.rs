//! Two cores with clients that always, or sometimes, have work: whose turn it is follows from the table alone.

use super::*;
use crate::multiplexer::Table;
use crate::weighted_fair;
use std::vec::Vec;

const MS: u64 = 1_000_000;
const STEP_NS: u64 = 50_000;

fn plan(id: u32, timing: Timing, cores: u8, active_ms: u64) -> CellPlan {
    CellPlan { id, timing, cores, period_ns: 40 * MS, active_ns: active_ms * MS, phase_ns: 0, lends: false }
}

fn epoch(plans: &[CellPlan], from_ns: u64) -> Arc<Epoch> {
    Arc::new(Epoch::new(1, Table::check_with_rest(plans, from_ns).unwrap(), |_| {}))
}

/// Cores whose clients are the owners 0 to 4 by number.
struct Bench {
    cores: Vec<Box<dyn CorePolicy>>,
    now_ns: u64,
    /// By core, then by owner.
    used: Vec<[u64; 5]>,
}

impl Bench {
    fn new(cores: usize) -> Bench {
        let inner: Arc<dyn Policy> = Arc::new(weighted_fair::policy(weighted_fair::Params::default()));
        let policy = policy(inner);
        let mut made: Vec<_> = (0..cores).map(|core| policy.init_core(core)).collect();
        for core in &mut made {
            for owner in 0..5 {
                core.add_client(owner, &ClientParams { owner, ..ClientParams::weighted(1) }, 0).unwrap();
            }
        }
        Bench { cores: made, now_ns: 0, used: std::vec![[0; 5]; cores] }
    }

    fn plan(&mut self, epoch: &Arc<Epoch>) {
        self.cores.iter_mut().for_each(|core| core.set_cells(epoch));
    }

    fn ready(&mut self, core: usize, owner: u32) {
        let now_ns = self.now_ns;
        self.cores[core].client_ready(owner, now_ns);
    }

    /// Each core serves a piece at a time until `end_ns`; who is served stays ready.
    fn run(&mut self, end_ns: u64, mut see: impl FnMut(&[Option<u32>])) {
        while self.now_ns < end_ns {
            let now_ns = self.now_ns;
            let chosen: Vec<_> = self.cores.iter_mut().map(|core| core.schedule(now_ns)).collect();
            see(&chosen);
            self.now_ns += STEP_NS;
            for (at, client) in chosen.iter().enumerate().filter_map(|(at, client)| Some((at, (*client)?))) {
                self.used[at][client as usize] += STEP_NS;
                self.cores[at].client_ready(client, self.now_ns);
            }
        }
    }
}

#[test]
fn without_a_table_the_inner_policy_decides() {
    let mut bench = Bench::new(1);
    [0, 1, 2].iter().for_each(|owner| bench.ready(0, *owner));
    bench.run(30 * MS, |_| {});
    assert_eq!(bench.used[0][..3], [10 * MS; 3]);
}

#[test]
fn a_gang_has_both_cores_at_once_or_none_and_the_rest_has_the_rest() {
    let mut bench = Bench::new(2);
    bench.plan(&epoch(&[plan(1, Timing::TimeTriggered, 0b11, 10)], 5 * MS));
    (0..2).for_each(|core| [1, 2].iter().for_each(|owner| bench.ready(core, *owner)));
    bench.run(405 * MS, |chosen| {
        // A change takes effect at the next piece of each core, which all begin together.
        assert_eq!(chosen[0] == Some(1), chosen[1] == Some(1));
    });
    for core in 0..2 {
        assert!(bench.used[core][1].abs_diff(100 * MS) <= 3 * MS, "{:?}", bench.used);
        assert!(bench.used[core][2].abs_diff(305 * MS) <= 3 * MS, "{:?}", bench.used);
    }
}

#[test]
fn who_lends_gives_its_cores_away_until_it_has_work() {
    for (lends, others) in [(false, 300 * MS), (true, 400 * MS)] {
        let mut bench = Bench::new(1);
        bench.plan(&epoch(&[CellPlan { lends, ..plan(1, Timing::TimeTriggered, 1, 10) }], 0));
        bench.ready(0, 2);
        bench.run(400 * MS, |_| {});
        assert!(bench.used[0][2].abs_diff(others) <= MS, "{lends}: {:?}", bench.used);
        bench.now_ns = 401 * MS;
        bench.ready(0, 1);
        assert!(bench.cores[0].tenure(2, bench.now_ns) <= bench.now_ns, "it must stop at once");
        assert_eq!(bench.cores[0].schedule(bench.now_ns), Some(1));
    }
}

#[test]
fn greedy_cells_divide_what_is_left_and_leave_the_rest_its_part() {
    let mut bench = Bench::new(1);
    let best = |id| CellPlan { period_ns: 100 * MS, active_ns: 5 * MS, ..plan(id, Timing::BestEffort, 1, 5) };
    bench.plan(&epoch(&[plan(1, Timing::TimeTriggered, 1, 10), best(2), best(3)], 0));
    (1..5).for_each(|owner| bench.ready(0, owner));
    bench.run(4_000 * MS, |_| {});
    let [_, window, first, second, other] = bench.used[0];
    assert!(window.abs_diff(1_000 * MS) <= 20 * MS, "{:?}", bench.used);
    assert!(first.abs_diff(second) <= 20 * MS, "{:?}", bench.used);
    assert!(other >= 200 * MS, "{:?}", bench.used);
}

#[test]
fn a_dedicated_core_leaves_a_twentieth_to_requests_of_others() {
    let mut bench = Bench::new(1);
    bench.plan(&epoch(&[plan(1, Timing::Dedicated, 1, 10)], 0));
    [1, 2].iter().for_each(|owner| bench.ready(0, *owner));
    bench.run(1_000 * MS, |_| {});
    assert!(bench.used[0][2].abs_diff(50 * MS) <= 3 * MS, "{:?}", bench.used);
}

#[test]
fn the_infrastructure_goes_before_a_cell_and_is_counted() {
    let mut bench = Bench::new(1);
    let table = epoch(&[plan(1, Timing::Dedicated, 1, 10)], 0);
    bench.plan(&table);
    bench.ready(0, 1);
    bench.ready(0, 0);
    let chosen = bench.cores[0].schedule(0);
    assert_eq!(chosen, Some(0));
    assert_eq!(bench.cores[0].schedule(0), Some(1));
}

#[test]
fn an_event_cell_sleeps_wakes_and_is_charged_for_its_gang() {
    let mut bench = Bench::new(2);
    let table = epoch(&[plan(1, Timing::EventTriggered, 0b11, 10)], 0);
    bench.plan(&table);
    (0..2).for_each(|core| bench.ready(core, 2));
    bench.run(10 * MS, |_| {});
    assert_eq!(table.figures(0, 0).unwrap().active_ns.load(Ordering::Relaxed), 0);
    bench.ready(0, 1);
    bench.run(410 * MS, |_| {});
    let had = [0, 1].map(|core| table.figures(core, 0).unwrap().active_ns.load(Ordering::Relaxed));
    assert!(had[0] >= 90 * MS && had[0].abs_diff(had[1]) <= 10 * MS, "{had:?}");
    assert_eq!(bench.used[1][1], 0, "it has no work there");
}

#[test]
fn a_change_turns_a_cell_into_one_of_the_others_and_back_without_loss() {
    let mut bench = Bench::new(1);
    [1, 2].iter().for_each(|owner| bench.ready(0, *owner));
    for round in 0..10 {
        let plans = [plan(1, Timing::TimeTriggered, 1, 10)];
        let table = epoch(if round % 2 == 0 { &plans } else { &[] }, bench.now_ns);
        bench.plan(&table);
        bench.run(bench.now_ns + 40 * MS, |_| {});
        assert!(table.swapped_ns(0).is_some());
    }
    let [_, cell, other, ..] = bench.used[0];
    // Ten of forty in five rounds; half in the others, where the inner policy knows that it is behind.
    assert!(cell >= 5 * 10 * MS && cell + other == 400 * MS, "{:?}", bench.used);
}
