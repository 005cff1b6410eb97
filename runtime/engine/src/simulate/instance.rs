//! One instance in the simulator: a kernel and its machine.
//!
//! It owns the engine with its accounts and ledger, the machine with its cores, clocks, frames, entropy and all statics (registry,
//! counters), the devices outside of its cores, its stream of the seed and its trace. Nothing of it is another instance's.
//!
//! Protocol of use: [`Instance::boot`] makes the machine and builds the kernel on it; [`Instance::attach`] adds devices;
//! [`Instance::within`] starts work, or looks at figures, as a core of the instance; a [`super::World`] plays it. Between two of its
//! steps the instance is at rest: no lock is held, and no future is being polled. Only then another one is played.
//!
//! An instance ends by [`Instance::end`], at any moment between two steps. The world does so when it kills it.

use super::{Outside, Stop};
use crate::dispatch::Step;
use crate::engine::Engine;
use crate::limits::INLINE_DEPTH_MAX;
use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;
use gyre_machine::random::Random;
use gyre_machine::{Machine, advance_core_to, armed_timer, core_index, events_pending, select_core, virtual_clock};

/// Clocks closer than this count as equal, ns: the order of the cores' turns is the seed's.
const JITTER_NS: u64 = 2_000;
/// How often the drop of what an instance has may make new work, before that is left as it is.
const DROP_ROUNDS_MAX: usize = 1_000;

/// The goal of an instance: the first that comes of an event, a time and a number of turns.
pub struct Goal<'a> {
    is_done: Box<dyn FnMut() -> bool + 'a>,
    until_ns: u64,
    steps_left: u64,
}

impl<'a> Goal<'a> {
    /// Until `is_done` says so, however long that takes.
    pub fn new(is_done: impl FnMut() -> bool + 'a) -> Goal<'a> {
        Goal { is_done: Box::new(is_done), until_ns: u64::MAX, steps_left: u64::MAX }
    }

    /// Until every core's clock has reached `until_ns`.
    pub fn time(until_ns: u64) -> Goal<'a> {
        Goal { until_ns, ..Goal::new(|| false) }
    }

    /// A step that was looked up is not taken.
    pub(super) fn give_back_step(&mut self) {
        self.steps_left = self.steps_left.saturating_add(1);
    }

    /// Gives the goal up after so many turns.
    pub fn within_steps(self, steps_max: u64) -> Goal<'a> {
        Goal { steps_left: steps_max, ..self }
    }
}

/// The next step of an instance.
pub(super) struct Next {
    /// When it is, ns.
    pub(super) at: u64,
    act: Act,
}

enum Act {
    /// The part outside with this number acts.
    Outside(usize),
    /// One of these cores, which can go on at these times, has a turn.
    Cores(Vec<(u64, usize)>),
}

/// A kernel and its machine.
pub struct Instance {
    machine: &'static Machine,
    engine: &'static Engine,
    random: u64,
    /// The core that had the last turn: devices act while it is selected.
    core: usize,
    dozing: Vec<bool>,
    outside: Vec<Rc<dyn Outside>>,
    /// When a part outside acted last: an event that comes from there is not from before that.
    outside_ns: u64,
    hash: u64,
    steps: u64,
}

impl Instance {
    /// Makes a machine with the clocks at `start_ns` and entropy from `seed`, and builds a kernel on it.
    pub fn boot(seed: u64, start_ns: u64, build: impl FnOnce() -> &'static Engine) -> Instance {
        let machine = Machine::new();
        machine.within(|| {
            gyre_machine::set_virtual_time(start_ns);
            gyre_machine::seed_random(Random::new(seed, ENTROPY).draw());
            Instance::of_thread(build(), seed)
        })
    }

    /// Returns the instance on the machine that this thread plays.
    pub(super) fn of_thread(engine: &'static Engine, seed: u64) -> Instance {
        engine.is_simulated.store(true, core::sync::atomic::Ordering::Relaxed);
        Instance {
            machine: Machine::current(),
            engine,
            random: seed,
            core: 0,
            dozing: (0..engine.cores()).map(|_| false).collect(),
            outside: Vec::new(),
            outside_ns: 0,
            hash: seed,
            steps: 0,
        }
    }

    /// Lets a part outside of the cores act when it wants to.
    pub fn attach(&mut self, outside: Rc<dyn Outside>) {
        self.outside.push(outside);
    }

    /// Works as the first core of the instance: to start tasks, to look at figures.
    pub fn within<T>(&self, work: impl FnOnce() -> T) -> T {
        self.machine.within(work)
    }

    /// Returns its kernel.
    pub fn engine(&self) -> &'static Engine {
        self.engine
    }

    /// Returns a number that depends on every turn so far: when each core did what.
    pub fn trace_hash(&self) -> u64 {
        self.hash
    }

    /// Turns so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Returns the earliest clock of all cores, ns.
    pub fn now_ns(&self) -> u64 {
        self.within(|| self.cores().filter(|&core| !self.engine.is_vacant(core)).map(virtual_clock).min().unwrap_or(0))
    }

    /// Ends it as INIT on all of its cores does: nothing of it goes on. Its tasks, messages and timers are dropped, its devices stop, its
    /// frames have no owner. Its statics stay, as the image of a dead kernel does, and are not looked at.
    pub(super) fn end(self) {
        let Instance { machine, engine, outside, dozing, .. } = self;
        drop(outside);
        machine.within(|| {
            let abandon = |core| {
                select_core(core);
                engine.abandon_core()
            };
            for _ in 0..DROP_ROUNDS_MAX {
                // A drop may have asked another core for something.
                if (0..dozing.len()).map(abandon).sum::<usize>() == 0 {
                    break;
                }
            }
        });
        machine.stop();
    }

    fn cores(&self) -> core::ops::Range<usize> {
        0..self.dozing.len()
    }

    /// Plays it from here on, until the caller plays another one.
    pub(super) fn select(&self) {
        debug_assert_eq!(gyre_object::locks_held(), 0, "an instance is left with a lock held");
        self.machine.select(self.core);
    }

    /// Makes every core look: the caller may have started tasks on one that idles.
    pub(super) fn rouse_all(&mut self) {
        for core in self.cores() {
            if core::mem::take(&mut self.dozing[core]) {
                select_core(core);
                self.engine.rouse();
            }
        }
        self.core = core_index();
    }

    /// Lets a core come to a vacant slot, at the present of the instance. False if the slot has one.
    pub(super) fn join(&mut self, slot: usize) -> bool {
        let now_ns = self.now_ns();
        let has_come = self.machine.within(|| {
            select_core(slot);
            advance_core_to(slot, now_ns);
            self.engine.arrive(slot).is_ok()
        });
        if let Some(dozing) = self.dozing.get_mut(slot).filter(|_| has_come) {
            *dozing = false;
        }
        has_come
    }

    /// Returns the next step on the way to a goal, or why there is none.
    pub(super) fn next(&self, goal: &mut Goal<'_>) -> Result<Next, Stop> {
        if goal.steps_left == 0 {
            return Err(Stop::Exhausted);
        }
        goal.steps_left -= 1;
        if (goal.is_done)() {
            return Err(Stop::Done);
        }
        let now_ns = self.busy_now().max(self.outside_ns);
        let ready: Vec<(u64, usize)> =
            self.cores().filter_map(|core| Some((self.ready_at(core, now_ns)?, core))).collect();
        let first = ready.iter().min().map(|(at, _)| *at);
        let event = self.next_outside().filter(|(at, _)| first.is_none_or(|first| *at <= first));
        let next = match (event, first) {
            (Some((at, index)), _) => Next { at, act: Act::Outside(index) },
            (None, Some(at)) => Next { at, act: Act::Cores(ready) },
            (None, None) => return Err(Stop::Quiet),
        };
        if next.at >= goal.until_ns { Err(Stop::TimeOver) } else { Ok(next) }
    }

    /// Takes a step.
    pub(super) fn step(&mut self, next: Next) {
        match next.act {
            Act::Outside(index) => self.act_outside(index, next.at),
            Act::Cores(ready) => {
                let close: Vec<_> = ready.into_iter().filter(|(at, _)| *at <= next.at + JITTER_NS).collect();
                let choice = self.draw(close.len() as u64) as usize;
                if let Some(&(at, core)) = close.get(choice) {
                    self.turn(core, at);
                }
            }
        }
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.random ^ (self.random >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % below.max(1)
    }

    /// When a core can go on, if it can at all.
    fn ready_at(&self, core: usize, now_ns: u64) -> Option<u64> {
        if self.engine.is_vacant(core) {
            return None;
        }
        let clock = virtual_clock(core);
        if !*self.dozing.get(core)? {
            return Some(clock);
        }
        if events_pending(core) {
            return Some(clock.max(now_ns));
        }
        armed_timer(core).map(|deadline| deadline.max(clock))
    }

    /// Returns the earliest clock of a core that is not idle: an event that wakes another one is not from before that.
    fn busy_now(&self) -> u64 {
        self.cores()
            .filter(|&core| !self.dozing.get(core).copied().unwrap_or(true) && !self.engine.is_vacant(core))
            .map(virtual_clock)
            .min()
            .unwrap_or(0)
    }

    /// Returns the part outside that acts next, and when.
    fn next_outside(&self) -> Option<(u64, usize)> {
        let times = self.outside.iter().enumerate().filter_map(|(index, outside)| Some((outside.next_at()?, index)));
        times.min()
    }

    fn act_outside(&mut self, index: usize, at: u64) {
        self.outside_ns = self.outside_ns.max(at);
        self.note([index as u64, at, u64::MAX]);
        if let Some(outside) = self.outside.get(index).cloned() {
            outside.act(at);
        }
    }

    fn note<const N: usize>(&mut self, words: [u64; N]) {
        for word in words {
            self.hash = (self.hash ^ word).wrapping_mul(0x0000_0100_0000_01B3).rotate_left(23);
        }
    }

    fn turn(&mut self, core: usize, at: u64) {
        self.steps += 1;
        self.core = core;
        select_core(core);
        advance_core_to(core, at);
        if core::mem::take(&mut self.dozing[core]) {
            self.engine.rouse();
        }
        let step = self.engine.step();
        if let Step::Idle { until_cycles } = step {
            self.dozing[core] = self.engine.doze(until_cycles);
        }
        let queue = u64::from(self.engine.hot.here().queue.get());
        self.note([core as u64, virtual_clock(core), queue, u64::from(step == Step::Worked)]);
    }
}

/// Purpose of the stream of an instance's entropy.
const ENTROPY: u64 = 21;

impl Engine {
    /// Drops every task, message and timer of this core, for all activities; answers how many. No handler runs any more: requests that a
    /// drop makes are queued.
    fn abandon_core(&'static self) -> usize {
        let depth = self.hot.here().depth.replace(INLINE_DEPTH_MAX);
        let tasks = self.drop_tasks(|_| true).dropped;
        let inbox = self.inboxes.get(core_index());
        let messages = inbox.into_iter().flat_map(|inbox| core::iter::from_fn(|| inbox.pop())).count();
        let timers = core::iter::from_fn(|| self.state.here().borrow_mut().timers.expire(u64::MAX)).count();
        self.hot.here().depth.set(depth);
        tasks + messages + timers
    }
}
