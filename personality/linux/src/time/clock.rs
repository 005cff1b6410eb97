//! Reading clocks.

use super::cpu_clock::CpuClock;
use super::{TimeSpec, TimeVal, monotonic_ns, realtime_ns};
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::sync::Arc;
use linux_raw_sys::general as raw;
use zerocopy::IntoBytes;

/// Clocks of the coarse kind tell the same time; this is the resolution they claim (a tick of 250 Hz, as Debian's kernel).
const COARSE_NS: u64 = 4_000_000;

/// Returns the time of a clock, ns.
///
/// # Errors
/// EINVAL for clocks that do not exist.
pub fn read(thread: &Arc<Thread>, clock: i32) -> Result<u64, Errno> {
    if let Some(found) = CpuClock::find(thread, clock) {
        return found?.now_ns().ok_or(Errno::EINVAL);
    }
    Ok(match clock as u32 {
        raw::CLOCK_REALTIME | raw::CLOCK_REALTIME_COARSE | raw::CLOCK_REALTIME_ALARM | raw::CLOCK_TAI => realtime_ns(),
        raw::CLOCK_MONOTONIC
        | raw::CLOCK_MONOTONIC_RAW
        | raw::CLOCK_MONOTONIC_COARSE
        | raw::CLOCK_BOOTTIME
        | raw::CLOCK_BOOTTIME_ALARM => monotonic_ns(),
        _ => return Err(Errno::EINVAL),
    })
}

/// `clock_gettime(clock, time)`.
pub async fn clock_gettime(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let now = TimeSpec::from_ns(read(thread, a.int(0))?);
    thread.write_struct(a.word(1), &now).await?;
    Ok(0)
}

/// `clock_gettime(clock, time)`, if the page of the answer is resident.
pub fn clock_gettime_at_once(thread: &Arc<Thread>, a: Arguments) -> Option<Outcome> {
    let now = TimeSpec::from_ns(read(thread, a.int(0)).ok()?);
    thread.space().copy_out_at_once(a.word(1), now.as_bytes()).then_some(Ok(0))
}

/// `clock_getres(clock, resolution)`.
pub async fn clock_getres(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    read(thread, a.int(0))?;
    let ns = match a.unsigned(0) {
        raw::CLOCK_REALTIME_COARSE | raw::CLOCK_MONOTONIC_COARSE => COARSE_NS,
        _ => 1,
    };
    thread.write_optional(a.word(1), &TimeSpec::from_ns(ns)).await?;
    Ok(0)
}

/// `clock_settime(clock, time)`: the clock is the machine's, not a tenant's.
pub fn clock_settime(_thread: &Arc<Thread>, _a: Arguments) -> Outcome {
    Err(Errno::EPERM)
}

/// `gettimeofday(time, zone)`.
pub async fn gettimeofday(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    thread.write_optional(a.word(0), &TimeVal::from_ns(realtime_ns())).await?;
    thread.write_optional(a.word(1), &[0u32; 2]).await?;
    Ok(0)
}

/// `time(seconds)`.
pub async fn time(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let seconds = realtime_ns() / super::NS_PER_S;
    thread.write_optional(a.word(0), &seconds).await?;
    Ok(seconds)
}
