//! Processes and threads: making, ending, waiting, who they are.

pub mod identity;
