//! The table of cells, and the check that it can be kept.
//!
//! [`Table::check`] is the only way to a table, so a [`Machine`] never meets a plan that is out of bounds: each has cores, and a period, a budget
//! and a phase that fit each other. Of each core a tenth stays for the kernel and for those who are no cell. Dedicated cells share with nobody.
//!
//! Cells that share cores, directly or through others, form a *component*; each component has a [`Machine`] of its own. A component whose
//! budgets sum to at most one core's time is always kept, because it could run one cell after the other. Any other one is played in virtual
//! time ([`super::played`]), and each period of a time-triggered cell must be whole.

use super::played::{STEPS_MAX, play};

/// Cells of a table.
pub const CELLS_MAX: usize = 16;
/// Cells of one component: a decision costs the square of their number.
pub const COMPONENT_MAX: usize = 8;
/// Cores that a plan can name.
pub const CORES_MAX: usize = 8;
/// The shortest period, ns.
pub const PERIOD_NS_MIN: u64 = 1_000_000;
/// The longest period, ns.
pub const PERIOD_NS_MAX: u64 = 10_000_000_000;
/// The smallest budget, ns.
pub const ACTIVE_NS_MIN: u64 = 100_000;
/// Of each core's time cells get at most so much, in thousandths; the rest is for the kernel and for those who are no cell.
pub const CORE_PROMILLE_MAX: u64 = 900;
/// The `id` of a cell of those who are no cell.
pub const REST: u32 = u32::MAX;
/// The period of those who are no cell, ns.
pub const REST_PERIOD_NS: u64 = 100_000_000;
/// Their budget in it, ns.
pub const REST_ACTIVE_NS: u64 = 5_000_000;

/// The moments at which a cell has its cores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timing {
    /// Always: its cores are nobody else's.
    Dedicated,
    /// In a window of each period, whether it has work or not.
    TimeTriggered,
    /// When it has work, up to its budget in each period.
    EventTriggered,
    /// When others leave its cores, and its budget in each period.
    BestEffort,
}

/// One cell of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CellPlan {
    /// The caller's name for it.
    pub id: u32,
    /// Its timing.
    pub timing: Timing,
    /// Its cores, a bit each.
    pub cores: u8,
    /// Its period, ns.
    pub period_ns: u64,
    /// Its budget: the time in each period for which its gang is active, ns.
    pub active_ns: u64,
    /// The beginning of its first period after the table's, ns.
    pub phase_ns: u64,
    /// Whether others may use its cores while it has them and no work for them.
    pub lends: bool,
}

impl CellPlan {
    pub(super) const NONE: CellPlan =
        CellPlan { id: 0, timing: Timing::BestEffort, cores: 0, period_ns: 1, active_ns: 1, phase_ns: 0, lends: false };

    /// Thousandths of a core's time that it is promised, over all its cores.
    #[must_use]
    pub fn core_thousandths(&self) -> u32 {
        let cores = u64::from(self.cores.count_ones());
        let each = if self.timing == Timing::Dedicated { 1000 } else { self.promille().min(1000) };
        u32::try_from(cores.saturating_mul(each)).unwrap_or(u32::MAX)
    }

    /// Thousandths of its cores' time that its budget is, rounded up.
    fn promille(&self) -> u64 {
        self.active_ns.saturating_mul(1000).div_ceil(self.period_ns.max(1))
    }

    fn check(&self) -> Result<(), FaultKind> {
        if self.cores == 0 {
            return Err(FaultKind::NoCore);
        }
        if self.timing == Timing::Dedicated {
            return Ok(());
        }
        if !(PERIOD_NS_MIN..=PERIOD_NS_MAX).contains(&self.period_ns) || self.phase_ns >= self.period_ns {
            return Err(FaultKind::Period);
        }
        if !(ACTIVE_NS_MIN..=self.period_ns).contains(&self.active_ns) {
            return Err(FaultKind::Budget);
        }
        Ok(())
    }
}

/// A plan that cannot be kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TableFault {
    /// The cell's `id`.
    pub cell: u32,
    /// The reason.
    pub kind: FaultKind,
}

/// The reason for which a plan cannot be kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultKind {
    /// More cells than a table or a component holds.
    TooMany,
    /// It names no core.
    NoCore,
    /// Its period or its phase is out of bounds.
    Period,
    /// Its budget is out of bounds.
    Budget,
    /// It wants a core that a dedicated cell has.
    Dedicated,
    /// A core's budgets sum to more than [`CORE_PROMILLE_MAX`].
    CoreFull {
        /// The core.
        core: u8,
        /// The sum of budgets in thousandths.
        promille: u64,
    },
    /// One of its periods is not whole, because gangs block each other.
    NotWhole {
        /// The end of that period after the table's beginning, ns.
        at_ns: u64,
        /// The time that it got in it, ns.
        got_ns: u64,
    },
    /// Its times are so short beside the longest period that [`STEPS_MAX`] steps do not show whether all periods are whole.
    TooFine,
}

/// Cells that run together on one machine from a moment on.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    cells: [CellPlan; CELLS_MAX],
    count: usize,
    /// The moment from which it holds, ns.
    pub from_ns: u64,
}

impl Table {
    /// Makes a table that can be kept.
    ///
    /// # Errors
    /// The first [`TableFault`].
    pub fn check(plans: &[CellPlan], from_ns: u64) -> Result<Table, TableFault> {
        let table = Table::of(plans, from_ns)?;
        table.check_components()?;
        Ok(table)
    }

    /// Makes a table of plans that fit their cores, as far as sums tell.
    fn of(plans: &[CellPlan], from_ns: u64) -> Result<Table, TableFault> {
        let mut table = Table { cells: [CellPlan::NONE; CELLS_MAX], count: plans.len(), from_ns };
        for (place, plan) in plans.iter().enumerate() {
            let slot = table.cells.get_mut(place).ok_or(TableFault { cell: plan.id, kind: FaultKind::TooMany })?;
            plan.check().map_err(|kind| TableFault { cell: plan.id, kind })?;
            *slot = *plan;
        }
        table.check_dedicated()?;
        table.check_cores()?;
        Ok(table)
    }

    /// Makes a table that can be kept, with a cell for those who are no cell on each component: they wait for all its cores at most a
    /// [`REST_PERIOD_NS`], however greedy cells are.
    ///
    /// # Errors
    /// The first [`TableFault`]; its cell is one of `plans`.
    pub fn check_with_rest(plans: &[CellPlan], from_ns: u64) -> Result<Table, TableFault> {
        let mut table = Table::of(plans, from_ns)?;
        let mut done = 0u8;
        for core in 0..CORES_MAX {
            let members = table.component_of(core);
            if members == 0 || has(done, core) {
                continue;
            }
            let shared = table.cells().iter().enumerate().filter(|(place, _)| members >> place & 1 == 1);
            let cores = shared.fold(0, |cores, (_, cell)| cores | cell.cores);
            done |= cores;
            table.add_rest(cores)?;
        }
        table.check_components()?;
        Ok(table)
    }

    fn add_rest(&mut self, cores: u8) -> Result<(), TableFault> {
        let last = self.cells().last().map_or(0, |cell| cell.id);
        let slot = self.cells.get_mut(self.count).ok_or(TableFault { cell: last, kind: FaultKind::TooMany })?;
        *slot = CellPlan {
            id: REST,
            timing: Timing::EventTriggered,
            cores,
            period_ns: REST_PERIOD_NS,
            active_ns: REST_ACTIVE_NS,
            phase_ns: 0,
            lends: true,
        };
        self.count = self.count.saturating_add(1);
        Ok(())
    }

    /// The place of a cell by its `id`.
    #[must_use]
    pub fn place_of(&self, id: u32) -> Option<usize> {
        self.cells().iter().position(|cell| cell.id == id)
    }

    /// The place of the cell of those who are no cell, on a core.
    #[must_use]
    pub fn rest_on(&self, core: usize) -> Option<usize> {
        self.cells().iter().position(|cell| cell.id == REST && has(cell.cores, core))
    }

    /// The cells.
    #[must_use]
    pub fn cells(&self) -> &[CellPlan] {
        self.cells.get(..self.count).unwrap_or(&[])
    }

    /// The cores that dedicated cells have.
    #[must_use]
    pub fn dedicated(&self) -> u8 {
        self.cells().iter().filter(|cell| cell.timing == Timing::Dedicated).fold(0, |cores, cell| cores | cell.cores)
    }

    /// The cell that has this core always, if there is one: its place in the table.
    #[must_use]
    pub fn dedicated_on(&self, core: usize) -> Option<usize> {
        self.cells().iter().position(|cell| cell.timing == Timing::Dedicated && has(cell.cores, core))
    }

    /// The component of a core: a bit for each of its cells, by their places; 0 if cells take no turns on it.
    #[must_use]
    pub fn component_of(&self, core: usize) -> u16 {
        let shared = |cell: &CellPlan| cell.timing != Timing::Dedicated;
        let (mut cells, mut cores) = (0u16, 1u8.checked_shl(core as u32).unwrap_or(0));
        // Each round adds a cell or is the last.
        for _ in 0..=CELLS_MAX {
            let members = self.cells().iter().enumerate().filter(|(_, cell)| shared(cell) && cell.cores & cores != 0);
            let (more, reach) =
                members.fold((0u16, cores), |(set, reach), (place, cell)| (set | 1 << place, reach | cell.cores));
            if more == cells {
                break;
            }
            (cells, cores) = (more, reach);
        }
        cells
    }

    fn check_dedicated(&self) -> Result<(), TableFault> {
        for (place, cell) in self.cells().iter().enumerate() {
            let others = self.cells().iter().enumerate().filter(|(other, plan)| {
                *other != place && (plan.timing == Timing::Dedicated || cell.timing == Timing::Dedicated)
            });
            if others.fold(0, |cores, (_, plan)| cores | plan.cores) & cell.cores != 0 {
                return Err(TableFault { cell: cell.id, kind: FaultKind::Dedicated });
            }
        }
        Ok(())
    }

    fn check_cores(&self) -> Result<(), TableFault> {
        for core in 0..CORES_MAX {
            let mut promille = 0u64;
            let shared = |cell: &&CellPlan| cell.timing != Timing::Dedicated && has(cell.cores, core);
            for cell in self.cells().iter().filter(shared) {
                promille = promille.saturating_add(cell.promille());
                if promille > CORE_PROMILLE_MAX {
                    return Err(TableFault { cell: cell.id, kind: FaultKind::CoreFull { core: core as u8, promille } });
                }
            }
        }
        Ok(())
    }

    /// Answers the steps that it took.
    pub(super) fn check_components(&self) -> Result<u32, TableFault> {
        let (mut seen, mut left) = (0u16, STEPS_MAX);
        for core in 0..CORES_MAX {
            let cells = self.component_of(core);
            if cells == 0 || cells & seen != 0 {
                continue;
            }
            seen |= cells;
            let members = || self.cells().iter().enumerate().filter(|(place, _)| cells >> place & 1 == 1);
            if members().nth(COMPONENT_MAX).is_some() {
                let last = members().rfind(|(_, cell)| cell.id != REST).map_or(0, |(_, cell)| cell.id);
                return Err(TableFault { cell: last, kind: FaultKind::TooMany });
            }
            let promille = members().fold(0u64, |sum, (_, cell)| sum.saturating_add(cell.promille()));
            if promille > 1000 {
                left = play(self, core, left)?;
            }
        }
        Ok(STEPS_MAX.saturating_sub(left))
    }
}

pub(crate) fn has(cores: u8, core: usize) -> bool {
    core < CORES_MAX && cores >> core & 1 == 1
}
