//! Processes and threads: making, ending, waiting, who they are.

pub mod arch;
pub mod capability;
pub mod clone;
pub mod exit;
pub mod identity;
pub mod launch;
pub mod limits;
pub mod prctl;
pub mod schedule;
pub(crate) mod shortage;
pub mod system;
pub mod tree;
pub mod usage;
pub mod wait;
