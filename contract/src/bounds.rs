//! Bounds of a machine's quantities: the same for the machine file, `gyre set` and the kernel.

use serde::{Deserialize, Serialize};

/// Least memory of a tenant or a group, and of each process: less does not even hold the tables of a process.
pub const MEMORY_BYTES_MIN: u64 = 1 << 20;
/// Most cores of an instance.
pub const CORES_MAX: u16 = gyre_platform::CORES_MAX as u16;
/// Most processes and threads of a tenant.
pub const PROCESSES_MAX: u32 = 32768;
/// Largest weight.
pub const SHARE_MAX: u32 = gyre_schedulers::policy::WEIGHT_MAX;
/// Most messages that are handled for one decision.
pub const BATCH_MAX: u16 = 1024;

/// Delays that an overload controller may be told to keep, ns: it looks ten times a second.
pub const OVERLOAD_DELAYS_NS: core::ops::RangeInclusive<u64> = 1_000_000..=10_000_000_000;

/// How low a limit may be set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Floor {
    /// Not below the present holdings, cached pages of files included.
    #[default]
    Held,
    /// As low as makes sense at all; a tenant that holds more loses programs.
    Least,
}
