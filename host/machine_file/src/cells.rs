//! Cells in time: `[tenant.cell]`, and whether all of an instance can be kept together.
//!
//! The check is the kernel's own (`gyre_schedulers::multiplexer`), so a file that passes is admitted when the machine starts. A problem
//! stands at the key that is to blame: the time that is too much, the cores that are taken.

use super::{
    Problem,
    check::Checker,
    part::Part,
    raw::{self, At},
    units,
};
use gyre_contract::{
    boot::Machine,
    cells::{Cell, TIMINGS, Timing, Why},
};
use gyre_schedulers::multiplexer::{Table, TableFault};

/// Cores that a cell can name.
const CORES_MAX: i64 = gyre_schedulers::multiplexer::table::CORES_MAX as i64;

/// Reads one; nothing if its timing has no meaning.
pub(super) fn read(checker: &mut Checker, raw: &raw::Cell) -> Option<Cell> {
    let timing = checker.name(&raw.timing, "timing", TIMINGS)?;
    let cores = raw
        .cores
        .get_ref()
        .iter()
        .fold(0, |mask, core| mask | 1u8 << checker.number(Some(core), "a core of a cell", 0, CORES_MAX - 1, 0));
    let mut time = |text: &Option<At<String>>, default| checker.unit(text.as_ref(), default, units::nanoseconds);
    let period_ns = time(&raw.period, Cell::PERIOD_NS);
    let phase_ns = time(&raw.phase, 0);
    let active_ns = time(&raw.active, Cell::ACTIVE_NS);
    if raw.active.is_none() && matches!(timing, Timing::TimeTriggered | Timing::EventTriggered) {
        let problem = Problem::new(raw.timing.span(), format!("a {} cell has no active time", timing.name()), "");
        checker.wrong(problem.help("say how long it has its cores in each period: active = \"10 ms\""));
    }
    Some(Cell { timing, cores, period_ns, active_ns, phase_ns, lends: raw.lends })
}

/// Reports the first cell of an instance that cannot be kept beside the others, at the key that is to blame.
pub(super) fn check(checker: &mut Checker, machine: &Machine, part: &Part) {
    // The system tenant is not in the file.
    let tenants = || machine.tenants.iter().skip(1).zip(part.tenants());
    for (_, raw) in tenants().filter(|(tenant, raw)| tenant.parent.is_some() && raw.cell.is_some()) {
        if let Some(cell) = &raw.cell {
            checker.wrong(problem(cell, raw.name.get_ref(), Why::Grouped));
        }
    }
    let found: Vec<(&raw::Tenant, &raw::Cell, Cell)> =
        tenants().filter_map(|(tenant, raw)| Some((raw, raw.cell.as_ref()?, tenant.cell?))).collect();
    let absent = u8::MAX.checked_shl(u32::from(machine.cores)).unwrap_or(0);
    for (raw, cell, _) in found.iter().filter(|(_, _, cell)| cell.cores & absent != 0) {
        checker.wrong(problem(cell, raw.name.get_ref(), Why::NoSuchCore));
    }
    let plans: Vec<_> = (1..).zip(&found).map(|(id, (_, _, cell))| cell.plan(id)).collect();
    match Table::check_with_rest(&plans, 0) {
        Err(TableFault { cell, kind }) => {
            if let Some((raw, cell, _)) = found.get((cell as usize).saturating_sub(1)) {
                checker.wrong(problem(cell, raw.name.get_ref(), Why::of(kind)));
            }
        }
        Ok(table) if table.dedicated() | absent == u8::MAX => {
            if let Some((raw, cell, _)) = found.iter().rfind(|(_, _, cell)| cell.timing == Timing::Dedicated) {
                checker.wrong(problem(cell, raw.name.get_ref(), Why::NoCoreLeft));
            }
        }
        Ok(_) => {}
    }
}

/// The problem at the key that says what cannot be.
fn problem(raw: &raw::Cell, tenant: &str, why: Why) -> Problem {
    let time = |text: &Option<At<String>>| text.as_ref().map_or(raw.timing.span(), At::span);
    let (span, label) = match why {
        Why::Period => (time(&raw.period), "this period"),
        Why::Budget => (time(&raw.active), "this time"),
        Why::CoreFull { .. } => (time(&raw.active), "the one that is too much"),
        Why::TooFine => (time(&raw.period), "too short beside the longest"),
        Why::NotWhole { .. } => (time(&raw.active), "cannot be kept in each period"),
        Why::NoCore | Why::NoSuchCore | Why::Dedicated | Why::NoCoreLeft => (raw.cores.span(), "these cores"),
        _ => (raw.timing.span(), "this cell"),
    };
    Problem::new(span, format!("`{tenant}` cannot be this cell: {why}"), label)
}
