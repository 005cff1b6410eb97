//! Sleeping by clocks of processor time (clock_nanosleep(2)): until a process, or another thread of the own one, has computed for so long.
//!
//! A sleep looks at its clock at the earliest time at which it could be over ([`CpuClock::pause_ns`]), in the sleeper's own call and on its
//! bill. Its deadline is a time of that clock, so a stop or a signal without a handler makes it no longer. The clock of an owner that has ended
//! stands still: only a signal ends the sleep then.
//!
//! Source: Linux, kernel/time/posix-cpu-timers.c (`posix_cpu_nsleep`).

use super::cpu_clock::CpuClock;
use super::{NS_MAX, TimeSpec, cycles_from_now};
use crate::thread::RestartBlock;
use crate::{Errno, Outcome, Thread};
use alloc::sync::Arc;
use core::future::pending;
use gyre_message::sleep_until;

/// A sleep by a clock of processor time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CpuSleep {
    /// The clock's number.
    number: i32,
    /// The time of the clock at which it ends, ns.
    deadline_ns: u64,
    /// The address for the time that is left, or 0.
    remaining: u64,
}

/// How a sleep went on.
enum Woken {
    /// Its time has come.
    Over,
    /// A signal came, so long before, ns.
    Early(u64),
}

/// Sleeps for `ns` of the clock with this number; a signal writes the time that is left to `remaining`, unless that is 0.
///
/// # Errors
/// EINVAL for a clock that is not there, or is the caller's own; EFAULT; ERESTART_RESTARTBLOCK.
pub(super) async fn relative(thread: &Arc<Thread>, number: i32, ns: u64, remaining: u64) -> Outcome {
    let now_ns = clock_of_another(thread, number)?.now_ns().ok_or(Errno::EINVAL)?;
    let deadline_ns = now_ns.saturating_add(ns).min(NS_MAX);
    go_on(thread, CpuSleep { number, deadline_ns, remaining }).await
}

/// Sleeps until the clock with this number shows `deadline_ns`.
///
/// # Errors
/// EINVAL as [`relative`]; ERESTARTNOHAND.
pub(super) async fn absolute(thread: &Arc<Thread>, number: i32, deadline_ns: u64) -> Outcome {
    let clock = clock_of_another(thread, number)?;
    match sleep(thread, &clock, deadline_ns).await {
        Woken::Over => Ok(0),
        Woken::Early(_) => Err(Errno::ERESTARTNOHAND),
    }
}

/// Goes on with a sleep of a length until its deadline.
///
/// # Errors
/// As [`relative`].
pub(super) async fn go_on(thread: &Arc<Thread>, block: CpuSleep) -> Outcome {
    let clock = clock_of_another(thread, block.number)?;
    let Woken::Early(left_ns) = sleep(thread, &clock, block.deadline_ns).await else { return Ok(0) };
    thread.write_optional(block.remaining, &TimeSpec::from_ns(left_ns)).await?;
    *thread.restart.lock() = Some(RestartBlock::CpuSleep(block));
    Err(Errno::ERESTART_RESTARTBLOCK)
}

/// Returns a clock that goes on while the caller sleeps.
fn clock_of_another(thread: &Arc<Thread>, number: i32) -> Result<CpuClock, Errno> {
    let clock = CpuClock::find(thread, number).ok_or(Errno::EINVAL)??;
    if clock.is_of_thread(thread) { Err(Errno::EINVAL) } else { Ok(clock) }
}

async fn sleep(thread: &Thread, clock: &CpuClock, deadline_ns: u64) -> Woken {
    let mut left_ns = left_of(clock, deadline_ns).unwrap_or(deadline_ns);
    while left_ns > 0 {
        let pause = sleep_until(cycles_from_now(clock.pause_ns(left_ns)));
        if thread.interruptible(pause).await.is_err() {
            return Woken::Early(left_of(clock, deadline_ns).unwrap_or(left_ns));
        }
        let Some(left_now_ns) = left_of(clock, deadline_ns) else {
            // Its owner is gone.
            let _ = thread.interruptible(pending::<()>()).await;
            return Woken::Early(left_ns);
        };
        left_ns = left_now_ns;
    }
    Woken::Over
}

/// Returns the time that is left, ns; `None` if the clock's owner is gone.
fn left_of(clock: &CpuClock, deadline_ns: u64) -> Option<u64> {
    clock.now_ns().map(|now_ns| deadline_ns.saturating_sub(now_ns))
}
