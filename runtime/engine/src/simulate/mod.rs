//! Plays the cores of simulated instances in one thread, in virtual time, under one seed: the same seed, the same run.
//!
//! An [`Instance`] is a kernel and its machine. A [`World`] plays several instances on one virtual clock; a [`Simulator`] is the world of
//! a test with one instance, that of its thread.
//!
//! * Each core has its own clock. The core that is furthest behind goes next, for one turn; among cores of one instance whose clocks are
//!   close, the instance's stream of the seed decides, so that different seeds show different interleavings.
//! * A core that idles waits for its timer or an event. Devices and wires act at times of their own ([`Outside`]).
//! * Instances share nothing but the order of time, unless they are linked. So what one does, and its trace, is what it is alone.
//!
//! * Memory that instances share is plain memory; an interrupt of one to another is a part outside of that one, and [`Reach`] tells the world.
//!
//! Left out: a core that leaves an instance stands still until it joins that again.

mod instance;
mod mover;
mod world;

pub use instance::{Goal, Instance};
pub use mover::{Mover, Moves};
pub use world::{InstanceId, Reach, Reached, World};

use crate::engine::Engine;
use alloc::rc::Rc;

/// Why a simulation stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// The event it ran for has come.
    Done,
    /// No core has anything to do and no timer is armed: finished, or a wake-up was lost.
    Quiet,
    /// It took too many turns.
    Exhausted,
    /// The time given was over.
    TimeOver,
}

/// A part of the machine that lies outside of the cores and acts at times of its own: a device, a wire, the computer at its other end. It
/// reaches cores by their interrupts only.
pub trait Outside {
    /// When it acts next, ns; `None` while it waits for another one.
    fn next_at(&self) -> Option<u64>;
    /// Acts. `at_ns` is the time that [`Outside::next_at`] said.
    fn act(&self, at_ns: u64);
}

/// Plays the one instance of this thread.
pub struct Simulator(Instance);

impl Simulator {
    /// Makes a simulator of this engine's cores. The thread's machine must be in virtual time (`gyre_machine::set_virtual_time`).
    pub fn new(engine: &'static Engine, seed: u64) -> Simulator {
        Simulator(Instance::of_thread(engine, seed))
    }

    /// Lets a part outside of the cores act when it wants to.
    pub fn attach(&mut self, outside: Rc<dyn Outside>) {
        self.0.attach(outside);
    }

    /// Returns a number that depends on every turn so far: when each core did what.
    pub fn trace_hash(&self) -> u64 {
        self.0.trace_hash()
    }

    /// Turns so far.
    pub fn steps(&self) -> u64 {
        self.0.steps()
    }

    /// Returns the earliest clock of all cores, ns.
    pub fn now_ns(&self) -> u64 {
        self.0.now_ns()
    }

    /// Lets a core come to a vacant slot. False if the slot has one.
    pub fn join(&mut self, slot: usize) -> bool {
        self.0.join(slot)
    }

    /// Runs until `is_done`, at most `steps_max` turns.
    pub fn run(&mut self, steps_max: u64, is_done: impl FnMut() -> bool) -> Stop {
        self.run_to(Goal::new(is_done).within_steps(steps_max))
    }

    /// Runs until every core's clock has reached `until_ns`.
    pub fn run_for(&mut self, until_ns: u64, steps_max: u64) -> Stop {
        self.run_to(Goal::time(until_ns).within_steps(steps_max))
    }

    fn run_to(&mut self, mut goal: Goal<'_>) -> Stop {
        self.0.rouse_all();
        loop {
            match self.0.next(&mut goal) {
                Ok(next) => self.0.step(next),
                Err(stop) => return stop,
            }
        }
    }
}
