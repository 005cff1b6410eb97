//! Processes and threads: making, ending, waiting, identity.

pub mod arch;
pub mod capability;
pub mod clone;
pub(crate) mod dispatch;
pub(crate) mod doomed;
pub mod exit;
pub(crate) mod holdings;
pub mod identity;
pub mod io_figures;
pub mod io_priority;
pub mod launch;
pub mod limits;
pub mod messages;
pub mod persona;
pub mod prctl;
pub mod preferences;
pub mod schedule;
pub(crate) mod shortage;
pub mod system;
pub mod tree;
pub mod usage;
pub mod wait;
