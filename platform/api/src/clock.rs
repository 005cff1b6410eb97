//! The clock as programs may compute it themselves.

/// From cycles of the time stamp counter to clocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClockScale {
    /// Cycles in a millisecond.
    pub cycles_per_ms: u64,
    /// Nanoseconds per cycle, times 2^32.
    pub ns_per_cycle: u64,
    /// Wall clock at cycle 0, ns since 1970.
    pub base_ns: u64,
    /// True if RDTSCP tells a program the number of its core.
    pub tells_core: bool,
}
