use gyre_cell_abi::LINES_MIN;

use super::*;
use crate::{
    ahead::Nothing,
    fiber::RoundRobin,
    frames::Buddy,
    io::Wait,
    lines::Lines,
    memory::{Arena, Change, Window},
    pager::Demand,
    testing::Memory,
};

const ARENA: Arena = Arena { start: 0x10_0000_0000, mappings: 0x10_4000_0000, end: 0x10_8000_0000 };

/// A ground of several cores, whose kernel wants parts back.
struct Ground {
    memory: Memory,
    lines: Lines,
    cores: u32,
    wanted: Wanted,
    bells: u32,
    /// The base that a core has set last.
    fs: u64,
}

impl Window for Ground {
    fn read(&self, physical: u64) -> u64 {
        self.memory.read(physical)
    }

    fn write(&mut self, physical: u64, word: u64) {
        self.memory.write(physical, word);
    }

    fn clear(&mut self, physical: u64, bytes: u64) {
        self.memory.clear(physical, bytes);
    }

    fn changed(&mut self, address: u64, change: Change) {
        self.memory.changed(address, change);
    }
}

impl Machine for Ground {
    fn now(&self) -> u64 {
        0
    }

    fn wall_clock(&self) -> u64 {
        0
    }

    fn monotonic_clock(&self) -> u64 {
        0
    }

    fn lines(&self) -> Lines {
        self.lines
    }

    fn bell(&mut self) {
        self.bells += 1;
    }

    fn ring(&mut self) {}

    fn call(&mut self, _: u32, _: [u64; 6]) -> i64 {
        Errno::NOSYS.result()
    }

    fn idle(&mut self, _: u64) {}

    fn hold_signals(&mut self, _: u64) {}

    fn take_signal(&mut self, _: u64) -> Option<Come> {
        None
    }

    fn more(&mut self, _: u64, _: &mut dyn FnMut(u64)) -> Result<(), Errno> {
        Err(Errno::NOMEM)
    }

    fn wanted(&mut self) -> Wanted {
        core::mem::take(&mut self.wanted)
    }

    fn give_lot(&mut self, _: u64) -> Result<(), Errno> {
        Ok(())
    }

    fn fault(&mut self, _: u64, _: Rights) -> Result<Option<u64>, Errno> {
        Err(Errno::FAULT)
    }

    fn read_user(&self, _: u64, _: &mut [u8]) -> Result<(), Errno> {
        Err(Errno::FAULT)
    }

    fn write_user(&mut self, _: u64, _: &[u8]) -> Result<(), Errno> {
        Err(Errno::FAULT)
    }

    fn copy_out(&mut self, _: u64, _: u64, _: u64) -> Result<(), Errno> {
        Err(Errno::FAULT)
    }

    fn copy_in(&mut self, _: u64, _: u64, _: u64) -> Result<(), Errno> {
        Err(Errno::FAULT)
    }

    fn switch(&mut self, _: &mut Fiber, _: &mut Fiber) {}

    fn set_fs(&mut self, base: u64) {
        self.fs = base;
    }

    fn save_extended(&mut self, _: &mut Fiber) {}

    fn load_extended(&mut self, _: &mut Fiber) {}

    fn cores(&self) -> u32 {
        self.cores
    }

    fn exit(&mut self, status: u64) -> ! {
        panic!("the process ends with {status}")
    }

    fn die(&mut self, signal: u32) -> ! {
        panic!("the process ends by signal {signal}")
    }

    fn say(&mut self, text: &str) {
        panic!("{text}")
    }
}

/// A cell of so many cores, whose first thread runs on the first core; so many others are ready.
fn cell(cores: u32, others: usize) -> Runtime<Ground> {
    let (mut memory, frames) = Memory::with_lots(4);
    let frames: &'static mut Buddy = Box::leak(frames);
    let root = memory.root(frames);
    let space = Space::new(ARENA, root, frames, &Demand);
    let policies = Policies {
        scheduler: Box::leak(Box::<RoundRobin>::default()),
        io: Box::leak(Box::new(Wait)),
        ahead: Box::leak(Box::new(Nothing)),
    };
    let ground = Ground { memory, lines: Lines::leaked(LINES_MIN), cores, wanted: Wanted::default(), bells: 0, fs: 0 };
    let mut runtime = Runtime::new(ground, space, policies, Process { id: 1, user: 0 });
    for id in 1..=others {
        runtime.fibers[id].state = State::Ready;
        runtime.fibers_end = id + 1;
        runtime.add(id);
    }
    runtime
}

/// A core does a step; the answer is its next deed, and the core that is woken.
fn step(runtime: &mut Runtime<Ground>, core: usize, step: fn(&mut Runtime<Ground>) -> Then) -> (Then, Option<usize>) {
    runtime.enter(core);
    let then = step(runtime);
    let then = runtime.or_go(then);
    (then, runtime.leave(then))
}

/// A core that computes hears that there is news.
fn notice(runtime: &mut Runtime<Ground>) -> Then {
    runtime.deliver();
    Then::Run
}

fn again(runtime: &mut Runtime<Ground>) -> Then {
    runtime.again()
}

const REST: Then = Then::Rest(0);

#[test]
fn a_core_that_is_wanted_back_goes_and_its_thread_runs_on_another_one() {
    let mut runtime = cell(3, 1);
    assert_eq!([1, 2].map(|core| step(&mut runtime, core, again).0), [Then::Run, REST]);
    runtime.machine.wanted.cores = 1;
    // The first one hears of it, and stays.
    assert_eq!(step(&mut runtime, 0, notice), (Then::Run, None));
    assert_eq!(step(&mut runtime, 1, notice), (Then::Go, Some(2)));
    assert_eq!(runtime.machine.bells, 1, "lines that it has not told of");
    assert_eq!(step(&mut runtime, 2, again), (Then::Run, None));
    assert_eq!(runtime.current, 1, "its thread");
    // One was wanted.
    assert_eq!(step(&mut runtime, 2, notice), (Then::Run, None));
    assert!(runtime.has_others(Then::Run));
}

#[test]
fn a_core_that_goes_wakes_one_that_does_not_know_how_long_to_rest() {
    let mut runtime = cell(3, 1);
    assert_eq!([1, 2].map(|core| step(&mut runtime, core, again).0), [Then::Run, REST]);
    runtime.machine.wanted.cores = 1;
    let sleep = |runtime: &mut Runtime<Ground>| {
        runtime.fiber().state = State::Asleep(7);
        runtime.go_on()
    };
    assert_eq!(step(&mut runtime, 1, sleep), (Then::Go, Some(2)));
    assert_eq!(step(&mut runtime, 2, again), (Then::Rest(7), None));
}

#[test]
fn a_core_that_is_offered_comes_into_the_place_of_one_that_has_gone() {
    let mut runtime = cell(3, 1);
    assert_eq!([1, 2].map(|core| step(&mut runtime, core, again).0), [Then::Run, REST]);
    runtime.machine.wanted.cores = 2;
    assert_eq!([1, 2].map(|core| step(&mut runtime, core, notice).0), [Then::Go, Then::Go]);
    assert_eq!(runtime.takes_core(Then::Run), None, "nothing is offered");
    runtime.machine.wanted = Wanted { offered: 1, ..Wanted::default() };
    assert_eq!(step(&mut runtime, 0, notice), (Then::Run, None));
    assert_eq!([Then::Go, Then::Run, Then::Run].map(|then| runtime.takes_core(then)), [None, Some(1), None]);
    assert!(runtime.has_others(Then::Run));
    assert_eq!(step(&mut runtime, 1, again), (Then::Run, None));
    assert_eq!(runtime.current, 1, "the thread that waited for a core");
}

#[test]
fn a_core_that_does_not_come_wakes_another_one_for_what_it_was_to_do() {
    let mut runtime = cell(3, 1);
    assert_eq!([1, 2].map(|core| step(&mut runtime, core, again).0), [Then::Run, REST]);
    runtime.machine.wanted.cores = 1;
    assert_eq!(step(&mut runtime, 1, notice), (Then::Go, Some(2)));
    assert_eq!(step(&mut runtime, 2, again), (Then::Run, None));
    runtime.machine.wanted = Wanted { offered: 7, ..Wanted::default() };
    assert_eq!(step(&mut runtime, 0, notice), (Then::Run, None));
    assert_eq!(runtime.takes_core(Then::Run), Some(1));
    let sleep = |runtime: &mut Runtime<Ground>| {
        runtime.fiber().state = State::Asleep(7);
        runtime.go_on()
    };
    assert_eq!(step(&mut runtime, 2, sleep), (Then::Rest(7), None));
    let begin = |runtime: &mut Runtime<Ground>| {
        (runtime.fibers[2].state, runtime.fibers_end) = (State::Ready, 3);
        runtime.add(2);
        Then::Run
    };
    assert_eq!(step(&mut runtime, 0, begin), (Then::Run, Some(1)), "it is about to come");
    runtime.enter(0);
    runtime.has_not_come(1);
    assert_eq!(runtime.leave(Then::Run), Some(2));
    assert_eq!(runtime.takes_core(Then::Run), None, "the offer is over");
    assert!(runtime.has_others(Then::Run));
}

#[test]
fn an_order_for_cores_counts_more_than_an_offer() {
    let mut runtime = cell(2, 0);
    runtime.machine.wanted = Wanted { lots: 0, cores: 1, offered: 1 };
    assert_eq!(step(&mut runtime, 0, notice), (Then::Run, None));
    assert_eq!(runtime.takes_core(Then::Run), None);
    assert_eq!(step(&mut runtime, 1, again), (Then::Go, None));
}

#[test]
fn the_first_core_stays_whatever_the_kernel_wants() {
    let mut runtime = cell(2, 0);
    assert_eq!(step(&mut runtime, 1, again), (REST, None));
    runtime.machine.wanted = Wanted { lots: 1, cores: 9, offered: 0 };
    assert!(runtime.has_others(Then::Run));
    assert_eq!(step(&mut runtime, 1, again), (Then::Go, None));
    assert!(runtime.has_others(Then::Go) && !runtime.has_others(Then::Run));
    assert_eq!(step(&mut runtime, 0, notice), (Then::Run, None));
    assert_eq!(runtime.owed.lots, 0, "a lot that is free goes too");
}

#[test]
fn a_thread_in_the_place_of_one_that_has_ended_elsewhere_has_a_base_of_its_own() {
    let mut runtime = cell(2, 1);
    assert_eq!(step(&mut runtime, 1, again), (Then::Run, None));
    let sleep = |runtime: &mut Runtime<Ground>| {
        runtime.fiber().state = State::Asleep(7);
        runtime.go_on()
    };
    assert_eq!(step(&mut runtime, 1, sleep), (Then::Rest(7), None));
    // The first core ends it, and begins another thread in its place.
    (runtime.fibers[1].state, runtime.fibers[1].fs) = (State::Ready, 0x7000);
    runtime.add(1);
    assert_eq!(step(&mut runtime, 1, again), (Then::Run, None));
    assert_eq!(runtime.machine.fs, 0x7000);
}
