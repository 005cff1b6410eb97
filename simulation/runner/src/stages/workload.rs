//! The work of the tenants of a seed.

use crate::stages::grid::{Grid, Held, Lost, Order};
use gyre_account::{ActivityId, ActivityParams, ResourceId};
use gyre_engine::{COMPUTE, ThreadParams, compute};
use gyre_machine::random::Random;
use gyre_machine::{PageTable, Trap, UserContext};
use gyre_message::{Labels, sleep_ns, yield_now};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Counts of requests.
#[derive(Default)]
pub struct Counts {
    /// Sent.
    pub sent: Cell<u64>,
    /// Answered with a value.
    pub answered: Cell<u64>,
    /// Answered with `Gone`.
    pub gone: Cell<u64>,
    /// Given up, because the asker was killed.
    pub abandoned: Cell<u64>,
    /// Next number per activity and label.
    numbers: RefCell<BTreeMap<(u32, u64), u64>>,
}

fn bump(cell: &Cell<u64>) {
    cell.set(cell.get() + 1);
}

/// A request that its asker waits for; counted as abandoned if the asker is killed.
struct Asked<'a>(&'a Counts, bool);

impl Asked<'_> {
    fn done<T>(mut self, answer: Result<T, Lost>) {
        self.1 = true;
        bump(if answer.is_ok() { &self.0.answered } else { &self.0.gone });
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if !self.1 {
            bump(&self.0.abandoned);
        }
    }
}

/// The activities of a seed.
#[derive(Default)]
pub struct Started {
    /// Those at the top.
    pub tenants: Vec<ActivityId>,
    /// Those that will be killed on the way.
    pub doomed: Vec<ActivityId>,
}

/// Starts the tenants and their tasks.
pub fn start(grid: &Grid, seed: u64, counts: &Rc<Counts>) -> Started {
    let mut random = Random::new(seed, 2);
    let activities = &grid.engine.accounts().activities;
    let mut started = Started::default();
    for _ in 0..1 + random.below(4) {
        let params = ActivityParams { weight: 1 + random.below(50) as u32, ..ActivityParams::default() };
        let Ok(tenant) = activities.create(None, "tenant", params) else { continue };
        started.tenants.push(tenant);
        for _ in 0..random.below(3) {
            let Ok(process) = activities.create(Some(tenant), "process", ActivityParams::default()) else { continue };
            clients(grid, process, &mut random, counts);
            if random.once_in(2) {
                started.doomed.push(process);
            }
        }
        clients(grid, tenant, &mut random, counts);
        if random.once_in(4) {
            started.doomed.push(tenant);
        }
    }
    started
}

fn clients(grid: &Grid, activity: ActivityId, random: &mut Random, counts: &Rc<Counts>) {
    for _ in 0..1 + random.below(4) {
        let task = client(grid, activity, Random::new(random.below(u64::MAX), 3), counts.clone());
        grid.engine.spawn_for(ResourceId::RUNTIME, activity, task);
    }
    for _ in 0..random.below(3) {
        let (mut random, is_over) = (Random::new(random.below(u64::MAX), 4), grid.is_over);
        let params = ThreadParams { cores: u64::MAX, kernel: COMPUTE };
        grid.engine.spawn_thread(
            activity,
            params,
            Box::pin(async move {
                let _held = Held::new();
                let (Ok(mut context), Ok(table)) = (UserContext::new(), PageTable::new()) else { return };
                let root = table.root();
                while !*is_over.lock() {
                    context.script.push_back((random.below(900_000), Trap::SystemCall));
                    compute::run(&mut context, &root).await;
                    if random.once_in(3) {
                        sleep_ns(random.below(300_000)).await;
                    }
                }
            }),
        );
    }
}

fn client(
    grid: &Grid,
    activity: ActivityId,
    mut random: Random,
    counts: Rc<Counts>,
) -> impl Future<Output = ()> + 'static {
    let (first, device, is_over) = (grid.first, grid.device, grid.is_over);
    async move {
        let _held = Held::new();
        while !*is_over.lock() {
            let asked = Asked(&counts, false);
            bump(&counts.sent);
            if random.once_in(4) {
                let answer = device.send(0, 64 + random.below(1_400)).await;
                asked.done(answer);
            } else {
                let label = random.below(3);
                let number = number_of(&counts, activity, label);
                let labels = Labels { affinity: random.below(6), dependency: label };
                let order = Order { activity: activity.0, label, number };
                let answer = first.labelled(labels).pass(order, random.below(1 << 40)).await;
                asked.done(answer);
            }
            match random.below(6) {
                0 => sleep_ns(random.below(50_000)).await,
                1 => yield_now().await,
                _ => {}
            }
        }
    }
}

fn number_of(counts: &Counts, activity: ActivityId, label: u64) -> u64 {
    let mut numbers = counts.numbers.borrow_mut();
    let next = numbers.entry((activity.0, label)).or_insert(0);
    *next += 1;
    *next
}
