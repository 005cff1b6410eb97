//! Time for descriptors: cycles of the machine and the nanoseconds of Linux' clocks.

/// Nanoseconds of a second.
pub const SECOND_NS: u64 = 1_000_000_000;

/// CLOCK_MONOTONIC: nanoseconds since the machine started.
pub fn monotonic_ns() -> u64 {
    cycles_to_ns(gyre_machine::now())
}

fn cycles_to_ns(cycles: u64) -> u64 {
    let ns = u128::from(cycles) * 1_000_000 / u128::from(gyre_machine::cycles_per_ms().max(1));
    u64::try_from(ns).unwrap_or(u64::MAX)
}

/// The time stamp at which CLOCK_MONOTONIC shows `ns`.
pub fn deadline_cycles(ns: u64) -> u64 {
    let cycles = (u128::from(ns) * u128::from(gyre_machine::cycles_per_ms())).div_ceil(1_000_000);
    u64::try_from(cycles).unwrap_or(u64::MAX)
}

/// The time stamp `ns` from now.
pub fn deadline_after(ns: u64) -> u64 {
    deadline_cycles(monotonic_ns().saturating_add(ns))
}
