//! poll(2) and ppoll(2) of the cell's network card alone: the thread waits for a frame, or until one can be sent.
//!
//! A call that names other files too, or changes the mask of signals, is the kernel's, which takes the card for a file that is always ready.

use linux_raw_sys::general as nr;

use super::{Outcome, sleep};
use crate::{
    error::Errno,
    fiber::{Call, NEVER, State},
    machine::Machine,
    runtime::Runtime,
};

/// `struct pollfd`: the descriptor, the events, and at this place those that there are.
const ENTRY_BYTES: u64 = 8;
const FOUND: u64 = 6;
/// Entries that are looked at: a set of more is the kernel's.
const ENTRIES_MAX: u64 = 16;
const NANOSECONDS_PER_MS: u64 = 1_000_000;
const READ: i16 = (nr::POLLIN | nr::POLLRDNORM) as i16;
const WRITE: i16 = (nr::POLLOUT | nr::POLLWRNORM) as i16;

/// An entry.
#[derive(Clone, Copy, Debug)]
struct Entry {
    descriptor: i32,
    events: i16,
}

/// Returns whether a call polls.
pub fn is_it(call: &Call) -> bool {
    matches!(call.number, nr::__NR_poll | nr::__NR_ppoll)
}

/// Answers a call that polls the card alone; `None` if it is the kernel's.
pub fn answer<M: Machine>(runtime: &mut Runtime<M>, call: Call) -> Option<Outcome> {
    if !is_of_the_card(runtime, &call).unwrap_or(false) {
        return None;
    }
    let until = match until(runtime, &call) {
        Ok(until) => until,
        Err(errno) => return Some(Outcome::refused(errno)),
    };
    Some(match ready(runtime, &call) {
        Ok(0) if until > runtime.machine.now() => Outcome::Wait(State::Card(until)),
        Ok(count) => Outcome::Value(count),
        Err(errno) => Outcome::refused(errno),
    })
}

fn is_of_the_card<M: Machine>(runtime: &mut Runtime<M>, call: &Call) -> Result<bool, Errno> {
    let [_, count, _, mask, ..] = call.arguments;
    let has_mask = call.number == nr::__NR_ppoll && mask != 0;
    if !(1..=ENTRIES_MAX).contains(&count) || has_mask {
        return Ok(false);
    }
    let mut some = false;
    for number in 0..count {
        let descriptor = entry(runtime, call, number)?.descriptor;
        // A negative one is passed over.
        let Ok(descriptor) = u64::try_from(descriptor) else { continue };
        if !runtime.card.as_ref().is_some_and(|own| own.files.find(descriptor).is_some()) {
            return Ok(false);
        }
        some = true;
    }
    Ok(some)
}

fn entry<M: Machine>(runtime: &mut Runtime<M>, call: &Call, number: u64) -> Result<Entry, Errno> {
    let [a, b, c, d, low, high, ..] = runtime.read::<8>(place(call, number))?;
    Ok(Entry { descriptor: i32::from_le_bytes([a, b, c, d]), events: i16::from_le_bytes([low, high]) })
}

fn place(call: &Call, number: u64) -> u64 {
    call.arguments[0].wrapping_add(number * ENTRY_BYTES)
}

/// The time at which the call gives up.
fn until<M: Machine>(runtime: &mut Runtime<M>, call: &Call) -> Result<u64, Errno> {
    let [_, _, limit, ..] = call.arguments;
    match call.number {
        nr::__NR_ppoll if limit == 0 => Ok(NEVER),
        nr::__NR_ppoll => sleep::after(runtime, limit),
        _ => Ok(match u64::try_from(limit as i32) {
            Ok(ms) => runtime.machine.now().saturating_add(ms * NANOSECONDS_PER_MS),
            Err(_) => NEVER,
        }),
    }
}

/// Writes what there is into the entries; returns how many have something.
///
/// # Errors
/// `EFAULT`.
pub fn ready<M: Machine>(runtime: &mut Runtime<M>, call: &Call) -> Result<i64, Errno> {
    let card = runtime.card.as_ref().and_then(|own| own.card.as_ref()).ok_or(Errno::NODEV)?;
    let window = &runtime.machine;
    let read = if card.can_receive(window) { READ } else { 0 };
    let write = if card.can_send(window) { WRITE } else { 0 };
    let mut count = 0;
    for number in 0..call.arguments[1].min(ENTRIES_MAX) {
        let entry = entry(runtime, call, number)?;
        let found = if entry.descriptor < 0 { 0 } else { entry.events & (read | write) };
        runtime.write(place(call, number).wrapping_add(FOUND), &found.to_le_bytes())?;
        count += i64::from(found != 0);
    }
    Ok(count)
}
