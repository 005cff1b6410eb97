//! Whether the memory of an instance suffices for what its tenants and groups are promised.

use super::{Problem, check::Checker, part::Part, raw, units};
use gyre_contract::boot::Machine;

/// Parts of an instance's memory that can be reserved, in percent: the kernel and its tables need the rest.
const RESERVED_PERCENT_MAX: u64 = 80;

/// Reports promises of memory that cannot be kept, and warns of limits that exceed the memory together.
pub(super) fn suffices(checker: &mut Checker, machine: &Machine, part: &Part) {
    let sum = held_at_most(machine);
    reservations_fit(checker, machine, part);
    groups_fit(checker, machine, part);
    if sum > machine.memory_bytes {
        let (held, has) = (units::show_bytes(sum), units::show_bytes(machine.memory_bytes));
        let message = match part.zone {
            None if part.file.zone.is_empty() => {
                format!("the tenants may hold {held} together, the machine has {has}")
            }
            None => format!("the supervisor's tenants may hold {held} together, it has {has}"),
            Some(_) => format!("the tenants of zone `{}` may hold {held} together, it has {has}", part.name),
        };
        let span = part.memory.map_or(0..0, raw::At::span);
        let help = "a tenant beyond its part then loses cached pages to others, or is refused; \
            `memory-reservation` keeps some for it";
        checker.odd(Problem::new(span, message, "less than the sum of the limits").help(help));
    }
}

/// Reservations below a group must fit into its limit; none fits into a limit of 0.
fn groups_fit(checker: &mut Checker, machine: &Machine, part: &Part) {
    for (index, raw) in part.groups.iter().enumerate() {
        let Some(text) = &raw.memory else { continue };
        let limit = machine.activities.get(index).and_then(|group| group.memory_bytes).unwrap_or(0);
        let below = machine.tenants.iter().filter(|tenant| is_below(machine, tenant.parent, index));
        let reserved = below.map(|tenant| tenant.limits.memory_reservation_bytes).fold(0, u64::saturating_add);
        if limit == 0 || reserved > limit {
            let message = format!("`{}` cannot do with {}", raw.name.get_ref(), units::show_bytes(limit));
            let label = format!("at least {}, what its tenants reserve", units::show_bytes(reserved.max(1)));
            checker.wrong(Problem::new(text.span(), message, label).help("raise it, or reserve less below it"));
        }
    }
}

/// Returns true if the way up from `from` passes a group.
fn is_below(machine: &Machine, from: Option<u16>, group: usize) -> bool {
    // Parents are declared before their children, so that the way ends.
    core::iter::successors(from, |at| machine.activities.get(usize::from(*at)).and_then(|one| one.parent))
        .any(|at| usize::from(at) == group)
}

/// Returns the bytes that all tenants may hold together by their limits and those of their groups.
fn held_at_most(machine: &Machine) -> u64 {
    let mut below = vec![0u64; machine.activities.len()];
    let mut sum = 0;
    let mut add = |below: &mut [u64], parent: Option<u16>, bytes| {
        let at = parent.and_then(|index| below.get_mut(usize::from(index))).unwrap_or(&mut sum);
        *at = at.saturating_add(bytes);
    };
    machine.tenants.iter().for_each(|tenant| add(&mut below, tenant.parent, tenant.limits.memory_bytes));
    // Parents are declared before their children: from the last on, what is below a group is known when its turn comes.
    for (index, group) in machine.activities.iter().enumerate().rev() {
        let held = below[index].min(group.memory_bytes.unwrap_or(u64::MAX));
        add(&mut below, group.parent, held);
    }
    sum
}

fn reservations_fit(checker: &mut Checker, machine: &Machine, part: &Part) {
    let room = machine.memory_bytes / 100 * RESERVED_PERCENT_MAX;
    let mut sum: u64 = 0;
    let customers = machine.tenants.iter().skip(1).zip(part.tenants());
    for (tenant, raw) in customers {
        sum = sum.saturating_add(tenant.limits.memory_reservation_bytes);
        if let Some(text) = raw.memory_reservation.as_ref().filter(|_| sum > room) {
            let message = format!("the tenants' reservations come to {} here", units::show_bytes(sum));
            let label = format!("at most {} of {}", units::show_bytes(room), units::show_bytes(machine.memory_bytes));
            let whose = if part.zone.is_some() { "zone" } else { "machine" };
            let help = format!("the kernel needs the rest; reserve less, or give the {whose} more `memory`");
            checker.wrong(Problem::new(text.span(), message, label).help(help));
            return;
        }
    }
}
