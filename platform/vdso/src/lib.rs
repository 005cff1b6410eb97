//! The small library that every program finds mapped (vdso(7)): it reads clocks without a system call.
//!
//! Two pages lie behind one another in each program: an ELF image, and [`ClockData`], which the kernel writes and the image reads. C libraries
//! find the image by AT_SYSINFO_EHDR and its functions by name and version (`__vdso_clock_gettime` of LINUX_2.6). The clocks
//! are those of the system calls, by the same formulas, so that both agree to the nanosecond.
//!
//! Clocks of processes are asked for by the system call.
#![no_std]

mod image;
#[cfg(test)]
mod tests;

pub use image::image;

use gyre_platform::ClockScale;
use zerocopy::{Immutable, IntoBytes};

/// The start of the page behind the image, which the functions read. Offsets are known to the assembler.
#[derive(Clone, Copy, PartialEq, Eq, Debug, IntoBytes, Immutable)]
#[repr(C)]
pub struct ClockData {
    /// Cycles of the time stamp counter in a millisecond; never 0.
    pub cycles_per_ms: u64,
    /// Nanoseconds per cycle, times 2^32.
    pub ns_per_cycle: u64,
    /// Wall clock at cycle 0, ns since 1970.
    pub base_ns: u64,
    /// Not 0 if RDTSCP tells the number of the core.
    pub tells_core: u64,
}

impl ClockData {
    /// Makes the page of a machine with this clock.
    pub fn new(scale: ClockScale) -> ClockData {
        ClockData {
            cycles_per_ms: scale.cycles_per_ms.max(1),
            ns_per_cycle: scale.ns_per_cycle,
            base_ns: scale.base_ns,
            tells_core: u64::from(scale.tells_core),
        }
    }
}
