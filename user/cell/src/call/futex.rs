//! Futexes: all threads of the process are here, so no word is the kernel's affair.

use linux_raw_sys::general as nr;

use super::{Outcome, sleep};
use crate::{
    error::Errno,
    fiber::{Call, FIBERS_MAX, FiberId, NEVER, State},
    machine::Machine,
    runtime::Runtime,
};

/// The mask of who may be woken for any reason.
pub const ANYBODY: u32 = nr::FUTEX_BITSET_MATCH_ANY;
/// The operation without its options.
const COMMAND: u32 = !(nr::FUTEX_PRIVATE_FLAG | nr::FUTEX_CLOCK_REALTIME);

/// Answers futex(2).
pub fn answer<M: Machine>(runtime: &mut Runtime<M>, call: Call) -> Outcome {
    let [address, operation, value, fourth, second, third] = call.arguments;
    if !address.is_multiple_of(4) {
        return Outcome::refused(Errno::INVAL);
    }
    let count = value as u32 as usize;
    match operation as u32 & COMMAND {
        nr::FUTEX_WAIT => wait(runtime, call, ANYBODY),
        nr::FUTEX_WAIT_BITSET if third as u32 != 0 => wait(runtime, call, third as u32),
        nr::FUTEX_WAKE => Outcome::Value(wake(runtime, address, ANYBODY, count) as i64),
        nr::FUTEX_WAKE_BITSET if third as u32 != 0 => {
            Outcome::Value(wake(runtime, address, third as u32, count) as i64)
        }
        nr::FUTEX_REQUEUE => Outcome::Value(requeue(runtime, address, second, [count, fourth as u32 as usize])),
        nr::FUTEX_CMP_REQUEUE => match runtime.read::<4>(address).map(u32::from_le_bytes) {
            Ok(word) if word == third as u32 => {
                Outcome::Value(requeue(runtime, address, second, [count, fourth as u32 as usize]))
            }
            Ok(_) => Outcome::refused(Errno::AGAIN),
            Err(errno) => Outcome::refused(errno),
        },
        nr::FUTEX_WAIT_BITSET | nr::FUTEX_WAKE_BITSET => Outcome::refused(Errno::INVAL),
        _ => Outcome::refused(Errno::NOSYS),
    }
}

fn wait<M: Machine>(runtime: &mut Runtime<M>, call: Call, mask: u32) -> Outcome {
    let [address, operation, value, timeout, ..] = call.arguments;
    let expected = value as u32;
    let until = match (timeout, operation as u32 & COMMAND) {
        (0, _) => Ok(NEVER),
        (_, nr::FUTEX_WAIT) => sleep::after(runtime, timeout),
        _ => sleep::at(runtime, timeout, clock_of(operation as u32)),
    };
    match (runtime.read::<4>(address).map(u32::from_le_bytes), until) {
        (Ok(word), Ok(_)) if word != expected => Outcome::refused(Errno::AGAIN),
        (Ok(_), Ok(until)) => Outcome::Wait(State::Word { address, mask, until }),
        (Err(errno), _) | (_, Err(errno)) => Outcome::refused(errno),
    }
}

fn clock_of(operation: u32) -> u32 {
    if operation & nr::FUTEX_CLOCK_REALTIME == 0 { nr::CLOCK_MONOTONIC } else { nr::CLOCK_REALTIME }
}

/// Wakes so many who wait at a word and whose mask has a bit of this one; answers how many.
pub fn wake<M: Machine>(runtime: &mut Runtime<M>, address: u64, mask: u32, count: usize) -> usize {
    let waiting = |runtime: &Runtime<M>, id: FiberId| match runtime.fibers[id].state {
        State::Word { address: at, mask: reasons, .. } => at == address && reasons & mask != 0,
        _ => false,
    };
    let mut woken = 0;
    for id in 0..FIBERS_MAX {
        if woken < count && waiting(runtime, id) {
            runtime.wake(id, 0);
            woken += 1;
        }
    }
    woken
}

/// Wakes some and lets some wait at another word; answers how many both are.
fn requeue<M: Machine>(runtime: &mut Runtime<M>, from: u64, to: u64, [wake_max, move_max]: [usize; 2]) -> i64 {
    let woken = wake(runtime, from, ANYBODY, wake_max);
    let mut moved = 0;
    for fiber in &mut runtime.fibers {
        if let State::Word { address, .. } = &mut fiber.state
            && *address == from
            && moved < move_max
        {
            *address = to;
            moved += 1;
        }
    }
    (woken + moved) as i64
}
