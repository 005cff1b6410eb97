//! What quantities of a machine may be: the same for the machine file, `gyre set` and the kernel.

use serde::{Deserialize, Serialize};

/// Least memory of a tenant or a group, and of each process: less does not even hold the tables of a process.
pub const MEMORY_BYTES_MIN: u64 = 1 << 20;
/// Most processes and threads of a tenant.
pub const PROCESSES_MAX: u32 = 32768;
/// Largest weight.
pub const SHARE_MAX: u32 = 1_000_000;
/// Most messages that are handled for one decision.
pub const BATCH_MAX: u16 = 1024;

/// How low a limit may be set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Floor {
    /// Not below what is held now, cached pages of files included.
    #[default]
    Held,
    /// As low as makes sense at all: who holds more loses programs.
    Least,
}
