//! Sleeping.

use super::{TimeSpec, clock, cpu_clock, cpu_sleep, cycles_from_now, cycles_to_ns};
use crate::thread::RestartBlock;
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::sync::Arc;
use gyre_message::sleep_until;
use linux_raw_sys::general as raw;

/// The kind of a clock that one can sleep by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// It goes on by itself.
    Time,
    /// It counts processor time; whose is not known yet.
    Cpu,
}

/// Returns the kind of a clock.
///
/// # Errors
/// EOPNOTSUPP for clocks that can only be read; EPERM for those that wake the machine; EINVAL for those that do not exist.
fn kind_of(clock: i32) -> Result<Kind, Errno> {
    let Ok(clock) = u32::try_from(clock) else {
        return if cpu_clock::is_of_device(clock) { Err(Errno::EOPNOTSUPP) } else { Ok(Kind::Cpu) };
    };
    match clock {
        raw::CLOCK_REALTIME | raw::CLOCK_MONOTONIC | raw::CLOCK_BOOTTIME | raw::CLOCK_TAI => Ok(Kind::Time),
        raw::CLOCK_PROCESS_CPUTIME_ID => Ok(Kind::Cpu),
        raw::CLOCK_REALTIME_ALARM | raw::CLOCK_BOOTTIME_ALARM => Err(Errno::EPERM),
        raw::CLOCK_THREAD_CPUTIME_ID
        | raw::CLOCK_MONOTONIC_RAW
        | raw::CLOCK_REALTIME_COARSE
        | raw::CLOCK_MONOTONIC_COARSE => Err(Errno::EOPNOTSUPP),
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
    let (number, is_absolute) = (a.int(0), a.unsigned(1) & raw::TIMER_ABSTIME != 0);
    let kind = kind_of(number)?;
    let ns = thread.read_struct::<TimeSpec>(a.word(2)).await?.ns()?;
    match (kind, is_absolute) {
        (Kind::Time, true) => sleep_absolute(thread, number, ns).await,
        (Kind::Time, false) => sleep_relative(thread, cycles_from_now(ns), a.word(3)).await,
        (Kind::Cpu, true) => cpu_sleep::absolute(thread, number, ns).await,
        (Kind::Cpu, false) => cpu_sleep::relative(thread, number, ns, a.word(3)).await,
    }
}

async fn sleep_absolute(thread: &Arc<Thread>, clock: i32, ns: u64) -> Outcome {
    let left = ns.saturating_sub(clock::read(thread, clock)?);
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
        Some(RestartBlock::CpuSleep(block)) => cpu_sleep::go_on(thread, block).await,
        None => Err(Errno::EINTR),
    }
}
