//! The clock of a timer of timer_create(2): one of the time that passes, or one of processor time.

use super::alarm::{Alarm, Told};
use super::cpu_alarm::{CpuAlarm, Times};
use super::cpu_clock::CpuClock;
use super::{clock, cycles_from_now, cycles_to_ns, ns_to_cycles};
use crate::{Errno, Thread};
use alloc::sync::Arc;

/// The clock of a timer, and what looks at it.
#[derive(Clone)]
pub(super) enum Ticker {
    /// Of time that passes, by the clock's number.
    Wall(i32, Arc<Alarm>),
    /// Of processor time.
    Cpu(CpuClock, Arc<CpuAlarm>),
}

/// A setting, ns.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    /// Until the first expiry; of the clock itself if it is absolute.
    pub(super) value_ns: u64,
    pub(super) interval_ns: u64,
    pub(super) is_absolute: bool,
}

impl Ticker {
    /// Makes one on the clock of a number.
    ///
    /// # Errors
    /// EINVAL for clocks that do not exist.
    pub(super) fn new(thread: &Arc<Thread>, number: i32) -> Result<Ticker, Errno> {
        Ok(match CpuClock::find(thread, number) {
            Some(clock) => Ticker::Cpu(clock?, Arc::default()),
            None => {
                clock::read(thread, number)?;
                Ticker::Wall(number, Arc::default())
            }
        })
    }

    /// Forgets its setting.
    pub(super) fn stop(&self) {
        match self {
            Ticker::Wall(_, alarm) => alarm.stop(),
            Ticker::Cpu(_, alarm) => alarm.stop(),
        }
    }

    /// Notes that the notice was taken; returns how often it has expired meanwhile.
    pub(super) fn taken(&self) -> u64 {
        match self {
            Ticker::Wall(_, alarm) => alarm.taken(),
            Ticker::Cpu(_, alarm) => alarm.taken(),
        }
    }

    /// Returns the time that is left, and the interval, ns.
    pub(super) fn left_ns(&self) -> (Option<u64>, u64) {
        match self {
            Ticker::Wall(_, alarm) => {
                let (left, interval) = alarm.left();
                (left.map(cycles_to_ns), cycles_to_ns(interval))
            }
            Ticker::Cpu(clock, alarm) => alarm.left(clock.now_ns().unwrap_or(0)),
        }
    }

    /// Sets it; without somebody to be told it only counts.
    ///
    /// # Errors
    /// EINVAL if the owner of the clock is gone.
    pub(super) fn set(
        &self,
        thread: &Arc<Thread>,
        wanted: Wanted,
        told: Option<impl Told + 'static>,
    ) -> Result<(), Errno> {
        let Wanted { value_ns, interval_ns, is_absolute } = wanted;
        match self {
            Ticker::Wall(number, alarm) => {
                let now_ns = if is_absolute { clock::read(thread, *number)? } else { 0 };
                let deadline = cycles_from_now(value_ns.saturating_sub(now_ns));
                match told {
                    None => alarm.set_silent(deadline, ns_to_cycles(interval_ns)),
                    Some(told) => alarm.set(deadline, ns_to_cycles(interval_ns), told),
                }
            }
            Ticker::Cpu(clock, alarm) => {
                let now_ns = if is_absolute { 0 } else { clock.now_ns().ok_or(Errno::EINVAL)? };
                let times = Times { deadline_ns: Some(now_ns.saturating_add(value_ns)), interval_ns };
                match told {
                    None => alarm.set_silent(times),
                    Some(told) => alarm.set(thread.process(), clock.clone(), times, Arc::new(told)),
                }
            }
        }
        Ok(())
    }
}
