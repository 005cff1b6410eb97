//! Cells in time: gangs of cores that run together, by schedules that need no talk (rows T1 to T3).
//!
//! The schedule is a function of three things: a [`Table`] of cells, a [`Log`] of yields and wake-ups, and the time. Each core plays the same
//! small [`Machine`] over them. So a late interrupt changes the moment at which a core looks, never the schedule that it finds.
//!
//! * [`table`]: cells with a timing, cores, period and budget; [`Table::check`] finds plans that cannot be, with the moment at which a period
//!   is not whole: [`played`].
//! * [`machine`]: earliest deadline first over bandwidth servers. A gang has all its cores or none.
//! * [`epoch`]: a table with its logs and figures, which all cores share from its time on.
//! * [`log`]: entries take effect a little later, at one time for all cores, also if one of them is late.
//!
//! Nothing here knows tenants or threads, and nothing allocates. Source: "Tessellation: Refactoring the OS around Explicit Resource Containers
//! with Continuous Adaptation" (DAC 2013), section 3; Abeni and Buttazzo, "Integrating Multimedia Applications in Hard Real-Time Systems" (RTSS
//! 1998), for the servers.

pub mod delays;
pub mod epoch;
pub mod log;
pub mod machine;
pub mod played;
pub mod table;

pub use delays::Delays;
pub use epoch::{CellFigures, Epoch};
pub use log::{Log, LogFull, News};
pub use machine::Machine;
pub use table::{CellPlan, FaultKind, Table, TableFault, Timing};

#[cfg(test)]
mod tests;
