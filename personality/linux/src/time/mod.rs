//! Clocks, sleeping and timers.
