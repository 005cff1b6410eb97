//! Cores that leave the instance and come back, and the interrupt lines that follow.
//!
//! A device keeps the core and the line that it was given. A line that has moved is translated when the device raises it. New lines are taken
//! from the upper half of a core's event word; devices of tests use the lower half.
//!
//! A core that has left hears no event, as one that runs another instance. Which cores are online is the machine's; where a core goes is
//! nobody's here: it stands still until it comes back.

use crate::machine::{CoreState, DISARMED, Machine, core_index, with_machine};
use gyre_platform::{CORES_MAX, DeviceError, Events};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

/// An interrupt line that a device still calls by its first place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MovedLine {
    /// The core and line that the device was given.
    home: (usize, u32),
    /// The core and line at which its interrupts arrive now.
    now: (usize, u32),
}

/// Returns the cores that run this instance, a bit each.
pub fn online_cores() -> u64 {
    with_machine(|machine| machine.online.load(Ordering::Acquire))
}

/// Takes the calling core out of the instance: no timer fires and no event is posted there any more.
pub fn go_offline() {
    with_machine(|machine| {
        let core = core_index();
        machine.online.fetch_and(!(1 << core), Ordering::AcqRel);
        forget_events(&machine.cores[core]);
    });
}

/// The calling core runs the instance from now on.
pub fn come_online() {
    with_machine(|machine| {
        let core = core_index();
        forget_events(&machine.cores[core]);
        machine.core_count.fetch_max(core + 1, Ordering::Relaxed);
        machine.online.fetch_or(1 << core, Ordering::AcqRel);
    });
}

fn forget_events(core: &CoreState) {
    core.timer.store(DISARMED, Ordering::Relaxed);
    core.events.store(0, Ordering::SeqCst);
}

/// Saves the registers of the program that stopped on this core last. A simulated program keeps them in memory.
pub fn park_registers() {}

/// Sends the interrupts of `lines_of` core `from`, a bit each, to core `to` from now on. `moved` is told the old and the new line of each,
/// before its device uses the new one.
///
/// # Errors
/// [`DeviceError::NoLine`]: `to` has no line left; those told of so far have moved.
pub fn move_interrupts(
    from: usize,
    to: usize,
    lines_of: Events,
    mut moved: impl FnMut(u32, u32),
) -> Result<(), DeviceError> {
    with_machine(|machine| {
        let mut lines = machine.moved_lines.lock().unwrap_or_else(PoisonError::into_inner);
        for old in lines_of.lines() {
            let is_taken = |line: &u32| lines.iter().any(|moved| moved.now == (to, *line));
            let new = (u64::BITS / 2..u64::BITS).rev().find(|line| !is_taken(line)).ok_or(DeviceError::NoLine)?;
            moved(old, new);
            lines.push(MovedLine { home: (from, old), now: (to, new) });
        }
        Ok(())
    })
}

/// Sends the interrupts of all lines that belong to `core` there again. `returned` is told the core and line at which each has arrived.
pub fn return_interrupts(core: usize, mut returned: impl FnMut(usize, u32)) {
    with_machine(|machine| {
        let mut lines = machine.moved_lines.lock().unwrap_or_else(PoisonError::into_inner);
        let is_its = |line: &MovedLine| line.home.0 == core;
        lines.iter().filter(|line| is_its(line)).for_each(|line| returned(line.now.0, line.now.1));
        lines.retain(|line| !is_its(line));
    });
}

/// Returns the core at which an event arrives, and its bits there.
pub(crate) fn translate(machine: &Machine, core: usize, bits: u64) -> (usize, u64) {
    let core = core.min(CORES_MAX - 1);
    let lines = machine.moved_lines.lock().unwrap_or_else(PoisonError::into_inner);
    match lines.iter().find(|line| line.home.0 == core && bits == 1 << line.home.1) {
        Some(line) => (line.now.0, 1 << line.now.1),
        None => (core, bits),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{events_pending, post_event, select_core, set_core_count, take_events};

    #[test]
    fn a_core_that_has_left_hears_nothing_and_its_lines_arrive_elsewhere() {
        set_core_count(2);
        let mut news = Vec::new();
        move_interrupts(1, 0, Events(1 << 9 | 1 << 11), |old, new| news.push((old, new))).unwrap();
        select_core(1);
        go_offline();
        assert_eq!(online_cores(), 1);
        let (old, new) = news[1];
        post_event(1, 1 << old);
        post_event(1, Events::WAKE);
        assert!(!events_pending(1));
        select_core(0);
        assert!(take_events().has(1 << new));
        select_core(1);
        come_online();
        return_interrupts(1, |core, _| assert_eq!(core, 0));
        post_event(1, 1 << old);
        assert!(take_events().has(1 << old) && online_cores() == 3);
    }
}
