//! Clocks, sleeping and timers. Deadlines are cycles of the time stamp counter inside, nanoseconds outside.

pub mod alarm;
pub mod clock;
mod cpu_alarm;
pub(crate) mod cpu_clock;
pub mod cpu_limit;
pub(crate) mod cpu_sleep;
pub mod interval;
pub mod posix;
pub mod sleep;
pub(crate) mod thread_time;
mod ticker;

use crate::Errno;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub(crate) const NS_PER_S: u64 = 1_000_000_000;

/// The latest time and the longest duration, ns: Linux's KTIME_MAX, 292 years. Later times that a program asks for
/// become this one.
pub(crate) const NS_MAX: u64 = i64::MAX as u64;

/// `struct timespec`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct TimeSpec {
    /// Seconds.
    pub seconds: i64,
    /// Nanoseconds, below 1,000,000,000.
    pub nanoseconds: i64,
}

/// `struct timeval`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct TimeVal {
    /// Seconds.
    pub seconds: i64,
    /// Microseconds, below 1,000,000.
    pub microseconds: i64,
}

impl TimeSpec {
    /// Converts from nanoseconds.
    pub fn from_ns(ns: u64) -> TimeSpec {
        TimeSpec { seconds: (ns / NS_PER_S) as i64, nanoseconds: (ns % NS_PER_S) as i64 }
    }

    /// Converts it to nanoseconds, at most [`NS_MAX`].
    ///
    /// # Errors
    /// EINVAL for negative seconds or nanoseconds out of range.
    pub fn ns(&self) -> Result<u64, Errno> {
        if self.seconds < 0 || !(0..NS_PER_S as i64).contains(&self.nanoseconds) {
            return Err(Errno::EINVAL);
        }
        let seconds = (self.seconds as u64).saturating_mul(NS_PER_S);
        Ok(seconds.saturating_add(self.nanoseconds as u64).min(NS_MAX))
    }

    /// Returns the deadline that lies this far from now, cycles.
    ///
    /// # Errors
    /// EINVAL as [`TimeSpec::ns`].
    pub fn deadline_cycles(&self) -> Result<u64, Errno> {
        Ok(cycles_from_now(self.ns()?))
    }
}

impl TimeVal {
    /// Converts from nanoseconds.
    pub fn from_ns(ns: u64) -> TimeVal {
        TimeVal { seconds: (ns / NS_PER_S) as i64, microseconds: (ns % NS_PER_S / 1000) as i64 }
    }

    /// Converts it to nanoseconds, at most [`NS_MAX`].
    ///
    /// # Errors
    /// EINVAL for negative seconds or microseconds out of range.
    pub fn ns(&self) -> Result<u64, Errno> {
        if self.seconds < 0 || !(0..1_000_000).contains(&self.microseconds) {
            return Err(Errno::EINVAL);
        }
        let seconds = (self.seconds as u64).saturating_mul(NS_PER_S);
        Ok(seconds.saturating_add((self.microseconds as u64).saturating_mul(1000)).min(NS_MAX))
    }
}

/// Returns nanoseconds since the machine started.
pub fn monotonic_ns() -> u64 {
    cycles_to_ns(gyre_machine::now())
}

/// Returns nanoseconds since 1970.
pub fn realtime_ns() -> u64 {
    gyre_machine::wall_clock_ns()
}

/// Converts cycles to nanoseconds.
pub fn cycles_to_ns(cycles: u64) -> u64 {
    let per_ms = u128::from(gyre_machine::cycles_per_ms().max(1));
    let ns = u128::from(cycles).saturating_mul(1_000_000).checked_div(per_ms).unwrap_or(u128::MAX);
    u64::try_from(ns).unwrap_or(u64::MAX)
}

/// Returns nanoseconds as cycles, rounded up so that nothing ends early.
pub fn ns_to_cycles(ns: u64) -> u64 {
    let cycles = u128::from(ns).saturating_mul(u128::from(gyre_machine::cycles_per_ms())).div_ceil(1_000_000);
    u64::try_from(cycles).unwrap_or(u64::MAX)
}

/// Returns the deadline that lies `ns` from now, cycles.
pub fn cycles_from_now(ns: u64) -> u64 {
    gyre_machine::now().saturating_add(ns_to_cycles(ns))
}
