//! Plain cells: processes with lots that they see as shared memory and a core that is kept for them, each killed at some step or not at all.
//!
//! Real are the pool of leases, the memory of plain cells, an address space, and the cores that the engine keeps. [`live`] plays the process,
//! [`keep`] the keeper, by the kernel's rules (`system/kernel/src/seats/plain`): the keeper moves all parts, and the end comes with the
//! memory. Over the seeds a cell is killed at each step; afterwards [`Home::check`] finds every lot clear and every core free.

use crate::whole::cells::home::{Home, clear};
use crate::whole::cells::seat::{Ask, Phase, Seat};
use gyre_account::{ActivityId, ActivityParams, ResourceId};
use gyre_address_space::{AddressSpace, Limits, LocalFlush, Move, SharedMemory};
use gyre_cell_abi::LOT_BYTES;
use gyre_cell_memory::{Lines, PlainMemory, Shape};
use gyre_machine::PAGE_BYTES;
use gyre_machine::random::Random;
use gyre_message::{WaitQueue, sleep_ns};
use gyre_object::Page;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Plain cells of a seed.
pub const CELLS: u16 = 3;
/// Steps of one.
const STEPS: usize = 7;
const PAGE: u64 = PAGE_BYTES as u64;
const NO_LIMITS: Limits =
    Limits { mapped_bytes: u64::MAX, data_bytes: u64::MAX, stack_bytes: 8 << 20, locked_bytes: u64::MAX };

/// A plain cell, which its process and its keeper have in common.
struct Plain {
    seat: Seat,
    memory: PlainMemory,
    end: Arc<End>,
}

/// The end of a cell, and its progress.
#[derive(Default)]
struct End {
    has_come: AtomicBool,
    step: AtomicUsize,
    changed: WaitQueue,
}

/// Lies in the memory, and ends the cell with it.
struct Guard(Arc<End>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.has_come.store(true, Ordering::SeqCst);
        self.0.changed.wake_all();
    }
}

/// Starts a plain cell and its keeper; which step it is killed at follows from the seed.
pub fn start(home: &Rc<Home>, seed: u64, number: u16) {
    let activities = &home.engine.accounts().activities;
    let activity = activities.create(Some(home.tenant), "plain", ActivityParams::default()).expect("there is a place");
    let kill_at = (seed.wrapping_mul(u64::from(CELLS)).wrapping_add(number.into()) % (STEPS as u64 + 1)) as usize;
    let mut random = Random::new(seed, 170 + u64::from(number));
    let space = AddressSpace::new(&LocalFlush, NO_LIMITS, activity).expect("there is memory");
    let end = Arc::new(End::default());
    let shared = Arc::new(SharedMemory::of_comings(Arc::new(Guard(end.clone()))));
    let page = Page::zeroed().expect("there is memory");
    let lines = Lines::new(vec![page], Shape { cores: 1, lines: 0 });
    let memory = PlainMemory::new(lines, &space, &shared);
    let plain = Rc::new(Plain { seat: Seat::new(number, activity), memory, end: end.clone() });
    let pause_ns = random.below(150_000);
    let engine = home.engine;
    engine.spawn_for(ResourceId::RUNTIME, ActivityId::INFRASTRUCTURE, keep(home.clone(), plain.clone()));
    engine.spawn_for(ResourceId::RUNTIME, activity, live(home.clone(), plain, (space, shared), random));
    engine.spawn_for(ResourceId::RUNTIME, ActivityId::INFRASTRUCTURE, async move {
        let is_near = || end.step.load(Ordering::SeqCst) >= kill_at || end.has_come.load(Ordering::SeqCst);
        end.changed.until(|| is_near().then_some(())).await;
        sleep_ns(pause_ns).await;
        if kill_at < STEPS {
            let _ = engine.kill(activity).await;
        }
    });
}

/// The process: its memory goes with this future, however that ends.
async fn live(
    home: Rc<Home>,
    plain: Rc<Plain>,
    (space, shared): (Arc<AddressSpace>, Arc<SharedMemory>),
    random: Random,
) {
    let mut random = random;
    let mut window = 0;
    for step in 0..STEPS {
        plain.end.step.store(step, Ordering::SeqCst);
        plain.end.changed.wake_all();
        sleep_ns(random.below(80_000)).await;
        let place = |number: usize| window + plain.memory.lots().get(number).copied().unwrap_or(0);
        match step {
            0 => window = plain.memory.show(&space, 1).await.expect("there is room"),
            1 => {
                let lots = loop {
                    match home.take(&plain.seat, 2) {
                        Some(lots) => break lots,
                        None => sleep_ns(100_000).await,
                    }
                };
                lots.into_iter().for_each(|lot| _ = plain.memory.add(lot).map_err(|_| ()).expect("a lot of its own"));
            }
            2 => space.copy_out(place(0) + 5 * PAGE, &[7; 64]).await.expect("it is there"),
            3 => {
                let again = space.remap(place(0) + 5 * PAGE, 0, PAGE, Move::IfNeeded).await.expect("there is room");
                let mut bytes = [0; 64];
                space.copy_in(again, &mut bytes).await.expect("it is there");
                assert_eq!(bytes, [7; 64], "a page that is shown again");
            }
            4 => _ = ask(&plain, Ask::More(1)).await,
            5 => {
                let (at, given) = (place(0), plain.memory.lots().first().copied().unwrap_or(0));
                assert_eq!(ask(&plain, Ask::Give(given)).await, 0, "a lot of its own");
                assert!(space.copy_out(at, &[1]).await.is_err(), "a lot that was given back is there");
            }
            _ => space.copy_out(place(0), &[9; 4096]).await.expect("it is there"),
        }
    }
    plain.end.step.store(STEPS, Ordering::SeqCst);
    drop((space, shared));
}

/// Has the keeper answer.
async fn ask(plain: &Plain, ask: Ask) -> i64 {
    plain.seat.ask.set(Some(ask));
    plain.end.changed.wake_all();
    plain.seat.changed.until(|| plain.seat.answer.take()).await
}

/// The keeper: moves all parts, and takes everything back at the end.
async fn keep(home: Rc<Home>, plain: Rc<Plain>) {
    let core = home.cores.borrow_mut().pop();
    if let Some(core) = core {
        home.engine.keep_cores(1 << core, plain.seat.activity).await.expect("nobody else has the core");
    }
    let news = || (plain.end.has_come.load(Ordering::SeqCst) || plain.seat.ask.get().is_some()).then_some(());
    loop {
        plain.end.changed.until(news).await;
        if plain.end.has_come.load(Ordering::SeqCst) {
            break;
        }
        let answer = match plain.seat.ask.take() {
            Some(Ask::More(count)) => home.take(&plain.seat, count).map_or(-12, |lots| {
                // The process may have gone: then they come back with the others, as nobody has seen them.
                lots.into_iter()
                    .filter_map(|lot| plain.memory.add(lot).err())
                    .for_each(|lot| plain.seat.leaving.borrow_mut().push(lot));
                0
            }),
            Some(Ask::Give(at)) => give(&home, &plain, at).await,
            _ => -22,
        };
        plain.seat.answer.set(Some(answer));
        plain.seat.changed.wake_all();
    }
    if let Some(core) = core {
        home.engine.give_cores(1 << core);
        home.cores.borrow_mut().push(core);
    }
    home.give(&plain.seat, plain.seat.leaving.take());
    for at in plain.memory.lots() {
        assert_eq!(give(&home, &plain, at).await, 0, "a lot that it has");
        assert!(at.is_multiple_of(LOT_BYTES));
    }
    plain.seat.set_phase(Phase::Over);
    home.over.set(home.over.get() + 1);
}

async fn give(home: &Home, plain: &Plain, at: u64) -> i64 {
    let Some(lot) = plain.memory.take(at).await else { return -22 };
    clear(&lot, 1).await;
    home.give(&plain.seat, vec![lot]);
    0
}
