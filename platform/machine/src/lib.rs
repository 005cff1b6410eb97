//! The machine that this build runs on: `gyre-x86-64` in the kernel, `gyre-sim` on a host. Both offer the same functions.
#![no_std]
#![forbid(unsafe_code)]

pub use gyre_platform::*;
#[cfg(not(target_os = "none"))]
pub use gyre_sim::*;
#[cfg(target_os = "none")]
pub use gyre_x86_64::*;
