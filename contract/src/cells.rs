//! Cells in time: tenants that have cores together, by a timing of their own (T1 to T3).
//!
//! * The machine file and `gyre set cell` give each a [`Cell`]; the kernel admits all of them together or refuses with a [`Refusal`].
//! * [`View`] is what `gyre top --cells` shows: the cells, their figures on each core, and the times of the last change.
//! * A machine file and a change are checked by one function, [`gyre_schedulers::multiplexer::Table::check_with_rest`], on the host and in
//!   the kernel; [`Why`] says in words what it found.
//!
//! Times are nanoseconds; moments count from the kernel's start.

use alloc::{string::String, vec::Vec};
use core::fmt;
use gyre_schedulers::multiplexer::{self, CellPlan, FaultKind, played, table};
use serde::{Deserialize, Serialize};

/// The moments at which a cell has its cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Timing {
    /// Always: nobody else's threads run there.
    Dedicated,
    /// In a window of each period, whether it has work or not.
    TimeTriggered,
    /// When it has work, up to its budget in each period.
    EventTriggered,
    /// When others leave its cores, and its budget in each period.
    BestEffort,
}

/// Every timing with its name in machine files.
pub const TIMINGS: &[(&str, Timing)] = &[
    ("dedicated", Timing::Dedicated),
    ("time-triggered", Timing::TimeTriggered),
    ("event-triggered", Timing::EventTriggered),
    ("best-effort", Timing::BestEffort),
];

impl Timing {
    /// Returns its name in machine files.
    #[must_use]
    pub fn name(self) -> &'static str {
        TIMINGS.iter().find(|(_, timing)| *timing == self).map_or("?", |(name, _)| name)
    }

    fn plan(self) -> multiplexer::Timing {
        match self {
            Self::Dedicated => multiplexer::Timing::Dedicated,
            Self::TimeTriggered => multiplexer::Timing::TimeTriggered,
            Self::EventTriggered => multiplexer::Timing::EventTriggered,
            Self::BestEffort => multiplexer::Timing::BestEffort,
        }
    }
}

/// A tenant's cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// Its timing.
    pub timing: Timing,
    /// Its cores, a bit each.
    pub cores: u8,
    /// Its period.
    pub period_ns: u64,
    /// The time in each period for which its gang has its cores.
    pub active_ns: u64,
    /// The beginning of its first period after the table's.
    pub phase_ns: u64,
    /// Whether others may use its cores while it has them and no work for them.
    pub lends: bool,
}

impl Cell {
    /// Period of a cell whose file names none.
    pub const PERIOD_NS: u64 = 100_000_000;
    /// Budget of a best-effort cell whose file names none.
    pub const ACTIVE_NS: u64 = 5_000_000;

    /// Makes the plan of an owner, which an instance's table is made of.
    #[must_use]
    pub fn plan(&self, id: u32) -> CellPlan {
        CellPlan {
            id,
            timing: self.timing.plan(),
            cores: self.cores,
            period_ns: self.period_ns,
            active_ns: self.active_ns,
            phase_ns: self.phase_ns,
            lends: self.lends,
        }
    }
}

/// The argument of the native call: tenants and the cell that each is to be from now on, or none.
pub type Request = Vec<(String, Option<Cell>)>;

/// The answer of the native call.
pub type Answer = Result<View, Refusal>;

/// The cells as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    /// Now.
    pub now_ns: u64,
    /// The number of the table; 0 if there never was one.
    pub number: u64,
    /// The last change.
    pub change: Swap,
    /// Times from an interrupt that cells caused to the other core's look.
    pub interrupts: Spread,
    /// The cells.
    pub cells: Vec<CellView>,
}

/// The times of a change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Swap {
    /// When it was asked for.
    pub asked_ns: u64,
    /// When the call had admitted and spread it.
    pub returned_ns: u64,
    /// The time from which it holds.
    pub from_ns: u64,
    /// When each core had heard of it, by core; 0 before that.
    pub ready_ns: Vec<u64>,
    /// When each core had changed over, by core; 0 before that.
    pub swapped_ns: Vec<u64>,
}

/// A distribution of delays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spread {
    /// How many.
    pub count: u64,
    /// Half of them were at most this.
    pub median_ns: u64,
    /// Nine of ten were at most this.
    pub ninth_ns: u64,
}

/// A cell with its figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellView {
    /// The tenant; none for those who are no cell.
    pub tenant: Option<String>,
    /// Its cell.
    pub cell: Cell,
    /// Differences between the moments at which its cores saw its slots begin.
    pub skew: Spread,
    /// Its figures on each of its cores.
    pub cores: Vec<CoreFigures>,
}

/// The figures of a cell on a core since its table began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoreFigures {
    /// The core.
    pub core: u8,
    /// Time for which its gang has had its cores.
    pub active_ns: u64,
    /// Time for which it was served.
    pub served_ns: u64,
    /// Time that the kernel's own work took while its gang had its cores.
    pub stolen_ns: u64,
    /// Slots that have begun.
    pub slots: u64,
    /// Sum of delays from a slot's beginning to the core's look.
    pub late_ns: u64,
    /// The longest of them.
    pub late_ns_max: u64,
}

/// A table that cannot be: whose cell, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The tenant; empty if it is about all.
    pub tenant: String,
    /// The reason.
    pub why: Why,
}

/// The reason for which cells cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Why {
    /// There is no such tenant.
    Unknown,
    /// It is a part of a group: cells are tenants below the root.
    Grouped,
    /// The last change is not complete.
    Busy,
    /// It names a core that is not there.
    NoSuchCore,
    /// Dedicated cells would leave no core to others.
    NoCoreLeft,
    /// More cells than a table, or than cores which depend on each other, can hold.
    TooMany,
    /// It names no core.
    NoCore,
    /// Its period or its phase is out of bounds.
    Period,
    /// Its budget is out of bounds.
    Budget,
    /// It wants a core that a dedicated cell has.
    Dedicated,
    /// A core's budgets sum to more than cells may have.
    CoreFull {
        /// The core.
        core: u8,
        /// The sum of budgets in thousandths.
        promille: u64,
    },
    /// One of its periods is not whole, because gangs block each other.
    NotWhole {
        /// The end of that period after the table's beginning.
        at_ns: u64,
        /// The time that it got in it.
        got_ns: u64,
    },
    /// The kernel has no memory for it.
    NoRoom,
    /// Its times are too short beside the longest period.
    TooFine,
}

impl Why {
    /// Returns the reason that the table's check found.
    #[must_use]
    pub fn of(kind: FaultKind) -> Self {
        match kind {
            FaultKind::TooMany => Self::TooMany,
            FaultKind::NoCore => Self::NoCore,
            FaultKind::Period => Self::Period,
            FaultKind::Budget => Self::Budget,
            FaultKind::Dedicated => Self::Dedicated,
            FaultKind::CoreFull { core, promille } => Self::CoreFull { core, promille },
            FaultKind::NotWhole { at_ns, got_ns } => Self::NotWhole { at_ns, got_ns },
            FaultKind::TooFine => Self::TooFine,
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("there is no such tenant"),
            Self::Grouped => f.write_str("it is a part of a group: only tenants below the root can be cells"),
            Self::Busy => f.write_str("the change before it is not complete: ask again in a moment"),
            Self::NoSuchCore => f.write_str("it names a core that the machine does not have"),
            Self::NoCoreLeft => f.write_str("dedicated cells would leave no core for all others"),
            Self::TooMany => write!(
                f,
                "there are too many cells: {} at most, and {} on cores that depend on each other",
                table::CELLS_MAX,
                table::COMPONENT_MAX
            ),
            Self::NoCore => f.write_str("it names no core"),
            Self::Period => write!(
                f,
                "its period must be {} ms to {} s, and its phase less than that",
                table::PERIOD_NS_MIN / 1_000_000,
                table::PERIOD_NS_MAX / 1_000_000_000
            ),
            Self::Budget => {
                write!(f, "its active time must be {} us to its period", table::ACTIVE_NS_MIN / 1000)
            }
            Self::Dedicated => f.write_str("it wants a core that a dedicated cell has"),
            Self::CoreFull { core, promille } => write!(
                f,
                "core {core} would be promised to {}.{} %, at most {} % can be",
                promille / 10,
                promille % 10,
                table::CORE_PROMILLE_MAX / 10
            ),
            Self::NotWhole { at_ns, got_ns } => write!(
                f,
                "gangs block each other: its period that ends after {} us would have {} us",
                at_ns / 1000,
                got_ns / 1000
            ),
            Self::NoRoom => f.write_str("the kernel has no memory for it"),
            Self::TooFine => write!(
                f,
                "its times are too short beside the longest period: two of those take more than {} changes, which is as far \
                 as gangs that may block each other are looked through",
                played::STEPS_MAX
            ),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.tenant.as_str() {
            "" => write!(f, "these cells cannot be: {}", self.why),
            tenant => write!(f, "`{tenant}` cannot be this cell: {}", self.why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString as _;

    #[test]
    fn every_timing_has_one_name_and_means_itself() {
        for (name, timing) in TIMINGS {
            assert_eq!(timing.name(), *name);
        }
    }

    #[test]
    fn a_refusal_names_the_tenant_the_sum_and_the_moment() {
        let text = |why| Refusal { tenant: "gold".into(), why }.to_string();
        assert_eq!(
            text(Why::of(FaultKind::CoreFull { core: 1, promille: 1005 })),
            "`gold` cannot be this cell: core 1 would be promised to 100.5 %, at most 90 % can be"
        );
        let moment = text(Why::of(FaultKind::NotWhole { at_ns: 40_000_000, got_ns: 2_500_000 }));
        assert!(moment.contains("ends after 40000 us would have 2500 us"), "{moment}");
        let fine = text(Why::of(FaultKind::TooFine));
        assert!(fine.contains("too short") && fine.contains("20000 changes"), "{fine}");
        let all = Refusal { tenant: String::new(), why: Why::Busy }.to_string();
        assert!(all.starts_with("these cells cannot be"), "{all}");
    }
}
