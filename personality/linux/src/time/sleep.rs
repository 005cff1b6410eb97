//! Sleeping.

use super::{TimeSpec, clock, cycles_from_now, cycles_to_ns};
use crate::thread::RestartBlock;
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::sync::Arc;
use gyre_message::sleep_until;
use linux_raw_sys::general as raw;

/// Clocks that one can sleep by.
fn check_clock(clock: u32) -> Result<(), Errno> {
    match clock {
        raw::CLOCK_REALTIME | raw::CLOCK_MONOTONIC | raw::CLOCK_BOOTTIME | raw::CLOCK_TAI => Ok(()),
        raw::CLOCK_REALTIME_ALARM | raw::CLOCK_BOOTTIME_ALARM => Err(Errno::EPERM),
        raw::CLOCK_PROCESS_CPUTIME_ID => Err(Errno::EOPNOTSUPP),
        _ => Err(Errno::EINVAL),
    }
}

/// `nanosleep(wanted, remaining)`.
pub async fn nanosleep(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let wanted: TimeSpec = thread.read_struct(a.word(0)).await?;
    sleep_relative(thread, wanted.deadline_cycles()?, a.word(1)).await
}

/// `clock_nanosleep(clock, flags, wanted, remaining)`.
pub async fn clock_nanosleep(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let wanted: TimeSpec = thread.read_struct(a.word(2)).await?;
    check_clock(a.unsigned(0))?;
    let ns = wanted.ns()?;
    if a.unsigned(1) & raw::TIMER_ABSTIME == 0 {
        return sleep_relative(thread, cycles_from_now(ns), a.word(3)).await;
    }
    let left = ns.saturating_sub(clock::read(thread, a.int(0))?);
    match thread.interruptible(sleep_until(cycles_from_now(left))).await {
        Ok(()) => Ok(0),
        Err(_) => Err(Errno::ERESTARTNOHAND),
    }
}

async fn sleep_relative(thread: &Thread, deadline_cycles: u64, remaining: u64) -> Outcome {
    if thread.interruptible(sleep_until(deadline_cycles)).await.is_ok() {
        return Ok(0);
    }
    let left = deadline_cycles.saturating_sub(gyre_machine::now());
    thread.write_optional(remaining, &TimeSpec::from_ns(cycles_to_ns(left))).await?;
    *thread.restart.lock() = Some(RestartBlock::Sleep { deadline_cycles, remaining });
    Err(Errno::ERESTART_RESTARTBLOCK)
}

/// `restart_syscall()`: goes on with a sleep that a signal without handler interrupted.
pub async fn restart_syscall(thread: &Arc<Thread>, _a: Arguments) -> Outcome {
    let block = thread.restart.lock().take();
    match block {
        Some(RestartBlock::Sleep { deadline_cycles, remaining }) => {
            sleep_relative(thread, deadline_cycles, remaining).await
        }
        None => Err(Errno::EINTR),
    }
}
