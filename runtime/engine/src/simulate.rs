//! Plays all cores of a simulated machine in one thread, in virtual time, under one seed: the same seed, the same run.
//!
//! Each core has its own clock. The core that is furthest behind goes next, for one turn; among cores whose clocks are close, the
//! seed decides, so that different seeds show different interleavings. A core that idles waits for its timer or an event.

use crate::dispatch::Step;
use crate::engine::Engine;
use alloc::rc::Rc;
use alloc::vec::Vec;
use gyre_machine::{advance_core_to, armed_timer, events_pending, select_core, virtual_clock};

/// Clocks closer than this count as equal, ns: the order of the cores' turns is the seed's.
const JITTER_NS: u64 = 2_000;

/// Why a simulation stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// What it ran for has come.
    Done,
    /// No core has anything to do and no timer is armed: finished, or a wake-up was lost.
    Quiet,
    /// It took too many turns.
    Exhausted,
    /// The time given was over.
    TimeOver,
}

/// What lies outside of the cores and acts at times of its own: a device, a wire, who is at its other end. It reaches cores by their
/// interrupts only.
pub trait Outside {
    /// When it acts next, ns; `None` while it waits for somebody.
    fn next_at(&self) -> Option<u64>;
    /// Acts. `at_ns` is the time that [`Outside::next_at`] said.
    fn act(&self, at_ns: u64);
}

/// The cores of a machine and a seed.
pub struct Simulator {
    engine: &'static Engine,
    random: u64,
    dozing: Vec<bool>,
    outside: Vec<Rc<dyn Outside>>,
    /// When somebody outside acted last: what comes from there is not from before that.
    outside_ns: u64,
    hash: u64,
    steps: u64,
}

impl Simulator {
    /// A simulator of this engine's cores. The machine must be in virtual time (`gyre_machine::set_virtual_time`).
    pub fn new(engine: &'static Engine, seed: u64) -> Simulator {
        engine.is_simulated.store(true, core::sync::atomic::Ordering::Relaxed);
        let dozing = (0..engine.cores()).map(|_| false).collect();
        Simulator { engine, random: seed, dozing, outside: Vec::new(), outside_ns: 0, hash: seed, steps: 0 }
    }

    /// Lets somebody outside of the cores act when it wants to.
    pub fn attach(&mut self, outside: Rc<dyn Outside>) {
        self.outside.push(outside);
    }

    /// A number that depends on every turn so far: when each core did what.
    pub fn trace_hash(&self) -> u64 {
        self.hash
    }

    /// Turns so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// The earliest clock of all cores, ns.
    pub fn now_ns(&self) -> u64 {
        (0..self.dozing.len()).map(virtual_clock).min().unwrap_or(0)
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.random ^ (self.random >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % below.max(1)
    }

    /// When a core can go on, if it can at all.
    fn ready_at(&self, core: usize, now_ns: u64) -> Option<u64> {
        let clock = virtual_clock(core);
        if !*self.dozing.get(core)? {
            return Some(clock);
        }
        if events_pending(core) {
            return Some(clock.max(now_ns));
        }
        armed_timer(core).map(|deadline| deadline.max(clock))
    }

    /// Runs until `is_done`, at most `steps_max` turns.
    pub fn run(&mut self, steps_max: u64, mut is_done: impl FnMut() -> bool) -> Stop {
        self.run_to(u64::MAX, steps_max, &mut is_done)
    }

    /// Runs until every core's clock has reached `until_ns`.
    pub fn run_for(&mut self, until_ns: u64, steps_max: u64) -> Stop {
        self.run_to(until_ns, steps_max, &mut || false)
    }

    fn run_to(&mut self, until_ns: u64, steps_max: u64, is_done: &mut dyn FnMut() -> bool) -> Stop {
        self.rouse_all();
        for _ in 0..steps_max {
            if is_done() {
                return Stop::Done;
            }
            let now_ns = self.busy_now().max(self.outside_ns);
            let ready: Vec<(u64, usize)> =
                (0..self.dozing.len()).filter_map(|core| Some((self.ready_at(core, now_ns)?, core))).collect();
            let first = ready.iter().min().map_or(u64::MAX, |(at, _)| *at);
            let event = self.next_outside().filter(|(at, _)| *at <= first);
            if ready.is_empty() && event.is_none() {
                return Stop::Quiet;
            }
            if event.map_or(first, |(at, _)| at) >= until_ns {
                return Stop::TimeOver;
            }
            if let Some((at, index)) = event {
                self.act_outside(index, at);
                continue;
            }
            let close: Vec<_> = ready.iter().filter(|(at, _)| *at <= first + JITTER_NS).collect();
            let choice = self.draw(close.len() as u64) as usize;
            if let Some(&&(at, core)) = close.get(choice) {
                self.turn(core, at);
            }
        }
        Stop::Exhausted
    }

    /// Makes every core look: the caller may have started tasks on one that idles.
    fn rouse_all(&mut self) {
        for core in 0..self.dozing.len() {
            if core::mem::take(&mut self.dozing[core]) {
                select_core(core);
                self.engine.rouse();
            }
        }
    }

    /// The earliest clock of a core that is not idle: an event that wakes another one is not from before that.
    fn busy_now(&self) -> u64 {
        (0..self.dozing.len())
            .filter(|&core| !self.dozing.get(core).copied().unwrap_or(true))
            .map(virtual_clock)
            .min()
            .unwrap_or(0)
    }

    /// Who outside acts next, and when.
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
