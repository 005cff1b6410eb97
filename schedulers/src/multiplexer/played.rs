//! Plays a component of a table in virtual time, with all its cells always at work: the check that gangs do not block each other.
//!
//! It lasts a second, or two of the longest periods. The kernel plays it at each change of a table, so its work is bounded by a number of steps,
//! whatever periods and budgets a table names: one that needs more is refused.

use super::Machine;
use super::table::{COMPONENT_MAX, CellPlan, FaultKind, REST, Table, TableFault, Timing};

/// Steps at most of all components of a table: a step is a budget that ends, a period that begins, or several of them at once.
pub const STEPS_MAX: u32 = 20_000;
/// So much virtual time is played at least, ns.
const PLAYED_NS_MIN: u64 = 1_000_000_000;

/// The periods of the time-triggered cells, by their slots.
#[derive(Default)]
struct Periods {
    got_ns: [u64; COMPONENT_MAX],
    end_ns: [u64; COMPONENT_MAX],
}

impl Periods {
    /// Notes the time that a cell had until now; the fault if a period ends that was not whole.
    fn pass(&mut self, slot: usize, plan: &CellPlan, had_ns: u64, now_ns: u64) -> Result<(), TableFault> {
        let (Some(got_ns), Some(end_ns)) = (self.got_ns.get_mut(slot), self.end_ns.get_mut(slot)) else {
            return Ok(());
        };
        *got_ns = got_ns.saturating_add(had_ns);
        if now_ns < *end_ns {
            return Ok(());
        }
        if *got_ns < plan.active_ns {
            return Err(TableFault { cell: plan.id, kind: FaultKind::NotWhole { at_ns: *end_ns, got_ns: *got_ns } });
        }
        (*got_ns, *end_ns) = (0, end_ns.saturating_add(plan.period_ns));
        Ok(())
    }
}

fn windows(machine: &Machine) -> impl Iterator<Item = (usize, &CellPlan)> {
    plans(machine).filter(|(_, plan)| plan.timing == Timing::TimeTriggered)
}

fn plans(machine: &Machine) -> impl Iterator<Item = (usize, &CellPlan)> {
    (0..COMPONENT_MAX).filter_map(|slot| Some((slot, machine.plan(slot)?)))
}

/// The end of what is played, ns; 0 without time-triggered cells.
fn end_ns(machine: &Machine) -> u64 {
    let longest = |of: fn(&CellPlan) -> u64| windows(machine).map(|(_, plan)| of(plan)).max();
    let phase_ns = longest(|plan| plan.phase_ns).unwrap_or(0);
    longest(|plan| plan.period_ns)
        .map_or(0, |period_ns| period_ns.saturating_mul(2).saturating_add(phase_ns).max(PLAYED_NS_MIN))
}

/// Plays the component of a core, in so many steps at most; answers those that it left.
///
/// # Errors
/// [`FaultKind::NotWhole`] for the first period of a time-triggered cell that is not whole; [`FaultKind::TooFine`].
pub(super) fn play(table: &Table, core: usize, steps: u32) -> Result<u32, TableFault> {
    let mut start = *table;
    start.from_ns = 0;
    let mut machine = Machine::new(&start, core);
    machine.wake_all();
    let (end_ns, mut periods) = (end_ns(&machine), Periods::default());
    for (slot, plan) in windows(&machine) {
        periods.end_ns[slot] = plan.phase_ns.saturating_add(plan.period_ns);
    }
    for left in (0..=steps).rev() {
        if machine.now_ns() >= end_ns {
            return Ok(left);
        }
        let (before, active) = (machine.now_ns(), machine.active_set());
        machine.step();
        let passed = machine.now_ns().saturating_sub(before);
        for (slot, plan) in windows(&machine) {
            let had_ns = if active >> slot & 1 == 1 { passed } else { 0 };
            periods.pass(slot, plan, had_ns, machine.now_ns())?;
        }
    }
    Err(TableFault { cell: finest(&machine), kind: FaultKind::TooFine })
}

/// The cell that makes most steps.
fn finest(machine: &Machine) -> u32 {
    let step_ns = |plan: &CellPlan| match plan.timing {
        Timing::TimeTriggered => plan.period_ns,
        _ => plan.active_ns,
    };
    let own = plans(machine).filter(|(_, plan)| plan.id != REST);
    own.min_by_key(|(_, plan)| step_ns(plan)).map_or(0, |(_, plan)| plan.id)
}
