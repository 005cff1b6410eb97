//! Plain cells: processes with lots that they see as shared memory and up to two cores that are kept for them, each killed at some step or not
//! at all.
//!
//! At a step that the seed chooses each gives a core back, if it has another one; somebody else can keep that core from then on. At a later one it
//! asks for a core again, and gets one if one is free.
//!
//! Real are the pool of leases, the memory of plain cells, an address space, and the cores that the engine keeps. [`live`] plays the process,
//! [`keep`] the keeper, by the kernel's rules (`system/kernel/src/seats/plain`): the keeper moves all parts, and the end comes with the
//! memory. Over the seeds a cell is killed at each step; afterwards [`Home::check`] finds every lot clear and every core free.

use crate::whole::cells::home::{BUSY, Home, INVALID, clear};
use crate::whole::cells::seat::{Ask, Phase, Seat};
use gyre_account::{ActivityId, ActivityParams, ResourceId};
use gyre_address_space::{AddressSpace, Limits, LocalFlush, Move, SharedMemory};
use gyre_cell_abi::LOT_BYTES;
use gyre_cell_memory::{Lines, PlainMemory, Shape};
use gyre_machine::PAGE_BYTES;
use gyre_machine::random::Random;
use gyre_message::{WaitQueue, sleep_ns};
use gyre_object::Page;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Plain cells of a seed.
pub const CELLS: u16 = 3;
/// Steps of one.
const STEPS: usize = 7;
/// Cores that one leases, if there are so many.
const CORES: usize = 2;
const PAGE: u64 = PAGE_BYTES as u64;
const NO_LIMITS: Limits =
    Limits { mapped_bytes: u64::MAX, data_bytes: u64::MAX, stack_bytes: 8 << 20, locked_bytes: u64::MAX };

/// A plain cell, which its process and its keeper have in common.
struct Plain {
    seat: Seat,
    memory: PlainMemory,
    /// Its cores; the first one stays.
    cores: RefCell<Vec<usize>>,
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
    let cores = (0..CORES).map_while(|_| home.cores.borrow_mut().pop()).collect();
    let cores = RefCell::new(cores);
    let plain = Rc::new(Plain { seat: Seat::new(number, activity), memory, cores, end: end.clone() });
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
    let gives_core_at = random.below(STEPS as u64) as usize;
    let gets_core_at = gives_core_at + 1 + random.below(STEPS as u64) as usize;
    for step in 0..STEPS {
        plain.end.step.store(step, Ordering::SeqCst);
        plain.end.changed.wake_all();
        sleep_ns(random.below(80_000)).await;
        if step == gives_core_at {
            let has_others = plain.cores.borrow().len() > 1;
            assert_eq!(
                ask(&plain, Ask::GiveCore).await,
                if has_others { 0 } else { INVALID },
                "a core beside the first"
            );
        }
        if step == gets_core_at {
            let before = plain.cores.borrow().len();
            let answer = ask(&plain, Ask::GetCore).await;
            assert_eq!(plain.cores.borrow().len() - before, usize::from(answer == 0), "a core, or none is free");
        }
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
    let cores = bits(&plain.cores.borrow());
    home.engine.keep_cores(cores, plain.seat.activity).await.expect("nobody else has the cores");
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
            Some(Ask::GiveCore) => give_core(&home, &plain).await,
            Some(Ask::GetCore) => get_core(&home, &plain).await,
            _ => INVALID,
        };
        plain.seat.answer.set(Some(answer));
        plain.seat.changed.wake_all();
    }
    let cores = plain.cores.take();
    home.engine.give_cores(bits(&cores));
    home.cores.borrow_mut().extend(cores);
    home.give(&plain.seat, plain.seat.leaving.take());
    for at in plain.memory.lots() {
        assert_eq!(give(&home, &plain, at).await, 0, "a lot that it has");
        assert!(at.is_multiple_of(LOT_BYTES));
    }
    plain.seat.set_phase(Phase::Over);
    home.over.set(home.over.get() + 1);
}

fn bits(cores: &[usize]) -> u64 {
    cores.iter().fold(0, |all, core| all | 1 << core)
}

/// Gives the last core back, which somebody else can keep at once.
async fn give_core(home: &Home, plain: &Plain) -> i64 {
    if plain.cores.borrow().len() < 2 {
        return INVALID;
    }
    let core = plain.cores.borrow_mut().pop().expect("it has two");
    home.engine.give_cores(1 << core);
    let kept = home.engine.keep_cores(1 << core, ActivityId::INFRASTRUCTURE).await;
    kept.expect("a core that was given back is free");
    home.engine.give_cores(1 << core);
    home.cores.borrow_mut().push(core);
    0
}

/// Keeps a free core.
async fn get_core(home: &Home, plain: &Plain) -> i64 {
    let has_room = plain.cores.borrow().len() < CORES;
    let Some(core) = has_room.then(|| home.cores.borrow_mut().pop()).flatten() else { return BUSY };
    // At each moment it is the cell's or the home's.
    plain.cores.borrow_mut().push(core);
    home.engine.keep_cores(1 << core, plain.seat.activity).await.expect("a free core is kept by nobody");
    0
}

async fn give(home: &Home, plain: &Plain, at: u64) -> i64 {
    let Some(lot) = plain.memory.take(at).await else { return INVALID };
    clear(&lot, 1).await;
    home.give(&plain.seat, vec![lot]);
    0
}
