//! Cells as scripts, over the whole machine's grid and disk: a cell enters, calls, faults, grows, has a disk, gives back, exits.
//!
//! Real are the pool of leases, the memory of cells, their lines and the queue of their disk, the activities that pay, the grid and the
//! driver of the disk. A [`Script`] plays the cell, outside of the cores, one step after the other at times of its own. [`Home`] plays the
//! process that serves it and the keeper, by the kernel's rules (`system/kernel/src/seats`).
//!
//! Beside them are plain cells ([`plain`]), with a core that is kept for them.
//!
//! Each seed has a cell that is killed at each step of its script, at a time when that step has begun, and one that is not killed. Once all
//! are over: every lot is back and clear, nobody pays for it, the disk is free and idle, no task is left, the ledger adds up.

mod home;
mod plain;
mod script;
mod seat;

use crate::whole::checks::{Alive, alive, check_ledger};
use crate::whole::machine::{Machine, START_NS};
use crate::whole::plan::{MS, Plan};
use gyre_device::DiskDevice;
use gyre_engine::simulate::{Goal, Instance, Reached, Stop, World};
use gyre_interface::block::SECTOR_BYTES;
use home::Home;
use script::{STEPS, Script};
use std::rc::Rc;

/// Turns of a run, at most.
const STEPS_MAX: u64 = 5_000_000;
/// The latest end of everything, ns.
const END_NS: u64 = 60_000 * MS;
const SECTORS: u64 = 4096;

/// The outcome of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// Depends on every turn.
    pub trace: u64,
    /// Turns.
    pub steps: u64,
    /// Cells that came to the end of their script.
    pub whole: usize,
    /// Cells that were killed or lied.
    pub broken: usize,
}

/// Returns the contents of a byte of the disk before anybody writes it.
pub fn byte(at: u64) -> u8 {
    (at / SECTOR_BYTES as u64).wrapping_mul(37) as u8 ^ at as u8
}

/// Runs a seed.
///
/// # Panics
/// If an invariant does not hold; the message says which.
pub fn run(seed: u64) -> Outcome {
    let mut world = World::new(seed);
    let image: Vec<u8> = (0..SECTORS * SECTOR_BYTES as u64).map(byte).collect();
    let mut made = None;
    let mut instance =
        Instance::boot(seed, START_NS, || made.insert(Machine::new(Plan::new(seed).of_cells(), image)).engine);
    let machine = made.expect("booting makes a machine");
    instance.attach(machine.disk.clone());
    instance.attach(machine.card.clone());
    let id = world.add(instance);
    world.aim(id, Goal::time(3 * MS).within_steps(STEPS_MAX));
    assert!(matches!(world.run(END_NS), Reached::Goal(_, stop) if stop != Stop::Exhausted), "starting takes too long");
    let instance = world.instance(id).expect("nobody killed it");
    let (before, home, scripts) = instance.within(|| begin(&machine, seed));
    scripts.iter().for_each(|script| instance.attach(script.clone()));
    let waits = (home.clone(), scripts.len() + usize::from(plain::CELLS));
    world.aim(id, Goal::new(move || waits.0.over.get() == waits.1).within_steps(STEPS_MAX));
    let reached = world.run(END_NS);
    let tell = || scripts.iter().map(|script| script.describe()).collect::<Vec<_>>();
    assert!(matches!(reached, Reached::Goal(_, Stop::Done)), "cells do not end: {:?}", tell());
    world.aim(id, Goal::new(|| false).within_steps(STEPS_MAX));
    assert!(matches!(world.run(END_NS), Reached::Goal(_, Stop::Quiet)), "something goes on for ever");
    let instance = world.instance(id).expect("nobody killed it");
    instance.within(|| check(&machine, &home, before));
    let short = scripts.iter().find(|script| !script.came_far_enough());
    assert!(short.is_none(), "ended before its time: {:?}", short.map(|script| script.describe()));
    let whole = scripts.iter().filter(|script| script.is_whole()).count();
    Outcome { trace: instance.trace_hash(), steps: instance.steps(), whole, broken: scripts.len() - whole }
}

fn begin(machine: &Rc<Machine>, seed: u64) -> (Alive, Rc<Home>, Vec<Rc<Script>>) {
    gyre_machine::select_core(0);
    let before = alive(machine);
    gyre_machine::select_core(0);
    let home = Home::new(machine, SECTORS);
    let scripts = (0..=STEPS).map(|kill_at| Script::start(&home, seed, kill_at)).collect();
    (0..plain::CELLS).for_each(|index| plain::start(&home, seed, STEPS as u16 + 1 + index));
    (before, home, scripts)
}

fn check(machine: &Machine, home: &Home, before: Alive) {
    let after = alive(machine);
    assert_eq!((after.tasks, after.queued, after.timers), (before.tasks, 0, before.timers), "something is left");
    assert_eq!(machine.driver.statistics().depth, 0, "requests are at the disk");
    check_ledger(machine);
    home.check();
}
