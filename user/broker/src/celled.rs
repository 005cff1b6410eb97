//! Tenants that are cells in time. A cell's time is its own, whatever the weight of its tenant is: plans leave those tenants out, and their
//! lines only say what was measured.

use gyre_contract::goals::{Aim, Goals, Line, TenantGoal};

use crate::{
    lines::{self, Seen},
    measure::{self, Measured},
};

/// The reason that stands at a cell's line.
pub const WHY: &str = "its time is its cell's, whatever its share is: gyre set cell";

/// A cell, with what was measured of it in this window.
struct Cell {
    tenant: String,
    aim: Option<Aim>,
    part: f64,
    measured: Measured,
}

/// The cells below no group.
#[derive(Default)]
pub struct Celled(Vec<Cell>);

/// Returns the part of the machine that the cell of a tenant has; nothing if the tenant is no cell.
pub fn part(tenant: &TenantGoal, goals: &Goals) -> Option<f64> {
    tenant.cell_thousandths.map(|parts| f64::from(parts) / 1e3 / f64::from(goals.cores.max(1)))
}

impl Celled {
    /// Adds a look to the window; `measured` is that of all tenants.
    pub fn look(&mut self, goals: &Goals, measured: &[Measured]) {
        let mut before = std::mem::take(&mut self.0);
        let own = |tenant: &&TenantGoal| !tenant.is_system && !tenant.is_grouped;
        for (tenant, measured) in goals.tenants.iter().zip(measured).filter(|(tenant, _)| own(tenant)) {
            let Some(part) = part(tenant, goals) else { continue };
            let known = before.iter().position(|cell| cell.tenant == tenant.name).map(|at| before.swap_remove(at));
            let mut sum = known.map(|cell| cell.measured).unwrap_or_default();
            sum.add(measured);
            self.0.push(Cell { tenant: tenant.name.clone(), aim: measure::aim(tenant), part, measured: sum });
        }
    }

    /// Ends the window: a line for each.
    pub fn lines(&mut self, goals: &Goals, length_ns: u64) -> Vec<Line> {
        let line = |cell: Cell| {
            let seen = Seen { tenant: &cell.tenant, aim: cell.aim, measured: &cell.measured };
            Line { held: cell.part, part: cell.part, why: WHY.into(), ..lines::line(goals, length_ns, &seen) }
        };
        std::mem::take(&mut self.0).into_iter().map(line).collect()
    }
}
