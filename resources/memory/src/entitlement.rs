//! The entitlement of each tenant: its reservation, and its share of the memory that all reservations leave, up to
//! its limit.

use alloc::vec::Vec;
use gyre_interface::memory::Budget;

/// Returns the entitlements in bytes, in the order of the budgets, of a machine with `capacity_bytes`.
///
/// The part that a limit keeps from a tenant goes to the others by their shares. The sum never exceeds the capacity,
/// unless the reservations do.
pub fn entitlements(capacity_bytes: u64, budgets: &[Budget]) -> Vec<u64> {
    let floor = |budget: &Budget| budget.reservation_bytes.min(budget.limit_bytes);
    let mut entitled: Vec<u64> = budgets.iter().map(floor).collect();
    let mut left = capacity_bytes.saturating_sub(entitled.iter().sum());
    // Each round serves all tenants below their limit; one that reaches it leaves, so there are at most as many
    // rounds as tenants.
    for _ in 0..budgets.len() {
        let open = |(budget, entitled): &(&Budget, &mut u64)| **entitled < budget.limit_bytes;
        let shares: u128 = budgets.iter().zip(entitled.iter_mut()).filter(open).map(|(budget, _)| share(budget)).sum();
        if shares == 0 || left == 0 {
            break;
        }
        let round = left;
        for (budget, entitled) in budgets.iter().zip(entitled.iter_mut()).filter(open) {
            let part = u128::from(round).saturating_mul(share(budget)).checked_div(shares).unwrap_or(0);
            let part = u64::try_from(part).unwrap_or(u64::MAX);
            let taken = part.min(budget.limit_bytes.saturating_sub(*entitled));
            *entitled = entitled.saturating_add(taken);
            left = left.saturating_sub(taken);
        }
    }
    entitled
}

/// Tenants with a common limit.
pub struct Group {
    /// The limit, bytes.
    pub limit_bytes: u64,
    /// Their places among the budgets.
    pub members: Vec<usize>,
}

/// Returns the entitlements if groups have limits of their own: the part beyond a group's limit goes to the others,
/// and its tenants divide the limit by their reservations and shares.
pub fn entitlements_in_groups(capacity_bytes: u64, budgets: &[Budget], groups: &[Group]) -> Vec<u64> {
    let mut budgets = budgets.to_vec();
    let mut entitled = entitlements(capacity_bytes, &budgets);
    // Inner groups first: the part that one cannot have is for others of the outer one, whose parts would else be
    // fixed without it.
    let mut groups: Vec<&Group> = groups.iter().collect();
    groups.sort_by_key(|group| group.members.len());
    // A group that was over its limit is no longer: each comes once.
    for _ in &groups {
        let sum = |group: &&&Group| group.members.iter().filter_map(|member| entitled.get(*member)).sum::<u64>();
        let Some(group) = groups.iter().find(|group| sum(group) > group.limit_bytes) else { break };
        confine(&mut budgets, group);
        entitled = entitlements(capacity_bytes, &budgets);
    }
    entitled
}

/// Lowers the limits of a group's members to their entitlements to the group's memory.
fn confine(budgets: &mut [Budget], group: &Group) {
    let own: Vec<Budget> = group.members.iter().filter_map(|member| budgets.get(*member).copied()).collect();
    for (member, bytes) in group.members.iter().zip(entitlements(group.limit_bytes, &own)) {
        if let Some(budget) = budgets.get_mut(*member) {
            budget.limit_bytes = bytes;
        }
    }
}

fn share(budget: &Budget) -> u128 {
    u128::from(budget.share.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(reservation_bytes: u64, limit_bytes: u64, share: u32) -> Budget {
        Budget { reservation_bytes, limit_bytes, share }
    }

    #[test]
    fn shares_divide_what_reservations_leave() {
        let budgets = [budget(100, 10_000, 1), budget(0, 10_000, 2), budget(300, 10_000, 1)];
        assert_eq!(entitlements(1000, &budgets), [250, 300, 450]);
    }

    #[test]
    fn what_a_limit_refuses_goes_to_the_others() {
        let budgets = [budget(0, 100, 1), budget(0, 10_000, 1), budget(0, 10_000, 2)];
        assert_eq!(entitlements(1000, &budgets), [100, 300, 600]);
    }

    #[test]
    fn nobody_is_entitled_to_more_than_its_limit() {
        assert_eq!(entitlements(1000, &[budget(500, 200, 1), budget(0, 300, 7)]), [200, 300]);
    }

    #[test]
    fn what_a_groups_limit_refuses_goes_to_those_outside() {
        let budgets = [budget(0, 1000, 1), budget(50, 1000, 1), budget(0, 1000, 1), budget(0, 1000, 1)];
        let group = |limit_bytes, members: &[usize]| Group { limit_bytes, members: members.to_vec() };
        let of = |groups: &[Group]| entitlements_in_groups(1000, &budgets, groups);
        assert_eq!(of(&[]), [237, 287, 237, 237]);
        assert_eq!(of(&[group(150, &[0, 1])]), [50, 100, 425, 425]);
        assert_eq!(of(&[group(600, &[0, 1])]), [237, 287, 237, 237], "a limit that nobody reaches changes nothing");
        // One within another, and one that is reached only because the first is.
        assert_eq!(of(&[group(150, &[0, 1]), group(100, &[0, 1, 2])]), [16, 66, 16, 902]);
        assert_eq!(of(&[group(150, &[0, 1]), group(300, &[2])]), [50, 100, 300, 550]);
    }

    #[test]
    fn what_an_inner_group_cannot_have_goes_to_others_of_the_outer_one_whatever_the_order() {
        let budgets = [budget(0, 1000, 1); 4];
        let group = |limit_bytes, members: &[usize]| Group { limit_bytes, members: members.to_vec() };
        let of = |groups: &[Group]| entitlements_in_groups(1000, &budgets, groups);
        let expected = [50, 50, 450, 450];
        assert_eq!(of(&[group(100, &[0, 1]), group(600, &[0, 1, 2])]), expected);
        assert_eq!(of(&[group(600, &[0, 1, 2]), group(100, &[0, 1])]), expected);
    }

    #[test]
    fn no_budgets_are_no_entitlements() {
        assert!(entitlements(1000, &[]).is_empty());
    }
}
