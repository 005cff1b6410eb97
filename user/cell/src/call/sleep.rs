//! Sleeping: the thread gives its core to others until its time comes.

use linux_raw_sys::general as nr;

use super::Outcome;
use crate::{
    error::Errno,
    fiber::{Call, State},
    machine::Machine,
    runtime::Runtime,
};

const NANOSECONDS: u64 = 1_000_000_000;

/// Answers nanosleep(2) and clock_nanosleep(2).
pub fn answer<M: Machine>(runtime: &mut Runtime<M>, call: Call) -> Outcome {
    let [first, flags, request, ..] = call.arguments;
    let until = match call.number {
        nr::__NR_nanosleep => after(runtime, first),
        _ if flags as u32 & nr::TIMER_ABSTIME != 0 => at(runtime, request, first as u32),
        _ => after(runtime, request),
    };
    until.map_or_else(Outcome::refused, |until| Outcome::Wait(State::Asleep(until)))
}

/// The time that lies as far from now as a time of the program says.
///
/// # Errors
/// `EFAULT`; `EINVAL` if it is none.
pub fn after<M: Machine>(runtime: &mut Runtime<M>, address: u64) -> Result<u64, Errno> {
    let duration = read_time(runtime, address)?;
    Ok(runtime.machine.now().saturating_add(duration))
}

/// The time that a time of the program says on one of its clocks.
///
/// # Errors
/// As [`after`]; `EINVAL` for a clock that nobody can sleep by.
pub fn at<M: Machine>(runtime: &mut Runtime<M>, address: u64, clock: u32) -> Result<u64, Errno> {
    let time = read_time(runtime, address)?;
    let clock_now = match clock {
        nr::CLOCK_REALTIME => runtime.machine.wall_clock(),
        nr::CLOCK_MONOTONIC | nr::CLOCK_BOOTTIME => runtime.machine.monotonic_clock(),
        _ => return Err(Errno::INVAL),
    };
    Ok(runtime.machine.now().saturating_add(time.saturating_sub(clock_now)))
}

fn read_time<M: Machine>(runtime: &mut Runtime<M>, address: u64) -> Result<u64, Errno> {
    let [seconds, nanoseconds] =
        [runtime.read(address)?, runtime.read(address.wrapping_add(8))?].map(i64::from_le_bytes);
    let [seconds, nanoseconds] =
        [u64::try_from(seconds), u64::try_from(nanoseconds)].map(|part| part.unwrap_or(u64::MAX));
    if nanoseconds >= NANOSECONDS || seconds > i64::MAX as u64 {
        return Err(Errno::INVAL);
    }
    Ok(seconds.saturating_mul(NANOSECONDS).saturating_add(nanoseconds))
}
