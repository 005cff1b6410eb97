//! A thread of the process, as its scheduler knows it. Each thread calls this file for itself alone.
//!
//! States: no member, member with a virtual core, member that waits for one, blocked (it wants none).

use std::{cell::Cell, ptr::NonNull, sync::atomic::Ordering};

use super::{
    tick,
    world::{Reason, World, end_world, world},
};
use crate::{Error, errno, fiber::Fiber};

#[derive(Clone, Copy)]
pub(super) struct Own {
    fiber: Option<NonNull<Fiber>>,
    pub(super) timer: libc::timer_t,
    /// Ticks wait while it is above 0.
    pub(super) masks: u32,
    pub(super) has_tick: bool,
}

const NONE: Own = Own { fiber: None, timer: std::ptr::null_mut(), masks: 0, has_tick: false };

std::thread_local! {
    static OWN: Cell<Own> = const { Cell::new(NONE) };
}

pub(super) fn own() -> Own {
    OWN.get()
}

pub(super) fn change(change: impl FnOnce(&mut Own)) {
    let mut own = OWN.get();
    change(&mut own);
    OWN.set(own);
}

/// The calling thread, if it is a member of a world that is in force.
fn here() -> Option<(&'static World, &'static Fiber)> {
    // SAFETY: a member's fiber lives until its `end`.
    Some((world()?, unsafe { OWN.get().fiber?.as_ref() }))
}

/// True if the calling thread is scheduled.
pub fn is_member() -> bool {
    here().is_some()
}

/// Does something of the world's, ticks masked; a tick that came meanwhile is taken after it. The program's `errno` stays: each wait for a turn
/// would set it.
fn masked(act: impl FnOnce(&'static World, &'static Fiber)) {
    if let Some((world, fiber)) = here() {
        errno::keep(|| masked_in(world, fiber, act));
    }
}

fn masked_in(world: &'static World, fiber: &'static Fiber, act: impl FnOnce(&'static World, &'static Fiber)) {
    change(|own| own.masks += 1);
    act(world, fiber);
    while OWN.get().has_tick && fiber.turn.load(Ordering::Relaxed) != 0 {
        change(|own| own.has_tick = false);
        pass(world, fiber, Reason::Tick);
    }
    change(|own| (own.masks, own.has_tick) = (own.masks - 1, false));
}

fn pass(world: &'static World, fiber: &'static Fiber, reason: Reason) {
    if world.pass(fiber, reason) {
        resume(world);
    }
}

/// The thread has its turn: its ticks begin anew.
fn resume(world: &World) {
    change(|own| own.has_tick = false);
    tick::arm(world.tick_ns);
}

/// Makes the calling thread a member, and waits for its first turn.
///
/// # Errors
/// [`Error::Outside`] if there is no world; [`Error::TooMany`]; [`Error::Kernel`] without a timer.
pub fn begin() -> Result<(), Error> {
    let world = world().ok_or(Error::Outside)?;
    let timer = tick::make_timer()?;
    if !world.admit() {
        tick::delete(timer);
        return Err(Error::TooMany);
    }
    OWN.set(Own { fiber: Some(NonNull::from(Box::leak(Fiber::of_thread()))), timer, ..NONE });
    tick::unblock();
    masked(enter);
    Ok(())
}

fn enter(world: &'static World, fiber: &'static Fiber) {
    world.enter(fiber);
    resume(world);
}

/// The calling thread ends: it is no member any more.
pub fn end() {
    let Some((world, _)) = here() else { return };
    tick::delete(OWN.get().timer);
    masked(World::leave);
    world.count_out();
    forget();
}

/// The process is the child of a fork: its one thread is no member, and there is no world.
pub fn abandon() {
    end_world();
    forget();
}

fn forget() {
    if let Some(fiber) = OWN.replace(NONE).fiber {
        // SAFETY: leaked in `begin`; nobody else has it: it waits for no turn.
        drop(unsafe { Box::from_raw(fiber.as_ptr()) });
    }
}

/// Calls something that may wait for long, without a virtual core meanwhile. A thread that is no member only calls it.
pub fn block<T>(call: impl FnOnce() -> T) -> T {
    if !is_member() {
        return call();
    }
    tick::arm(0);
    masked(World::leave);
    let answer = call();
    masked(enter);
    answer
}

/// Lets another thread have the virtual core, if the scheduler has one.
pub fn yield_now() {
    masked(|world, fiber| pass(world, fiber, Reason::Yield));
}

/// A tick has come.
pub(super) fn take_tick() {
    masked(|world, fiber| {
        if fiber.turn.load(Ordering::Relaxed) != 0 {
            pass(world, fiber, Reason::Tick);
        }
    });
}
