//! What each tenant is entitled to: its reservation, and its share of what all reservations leave, up to its limit.

use alloc::vec::Vec;
use gyre_interface::memory::Budget;

/// Entitlements in bytes, in the order of the budgets, of a machine with `capacity_bytes`.
///
/// What a limit keeps somebody from having goes to the others by their shares. The sum never exceeds the capacity, unless the
/// reservations do.
pub fn entitlements(capacity_bytes: u64, budgets: &[Budget]) -> Vec<u64> {
    let floor = |budget: &Budget| budget.reservation_bytes.min(budget.limit_bytes);
    let mut entitled: Vec<u64> = budgets.iter().map(floor).collect();
    let mut left = capacity_bytes.saturating_sub(entitled.iter().sum());
    // Each round serves all who are below their limit; who reaches it leaves, so there are at most as many rounds as tenants.
    for _ in 0..budgets.len() {
        let open = |(budget, entitled): &(&Budget, &mut u64)| **entitled < budget.limit_bytes;
        let shares: u128 = budgets.iter().zip(entitled.iter_mut()).filter(open).map(|(budget, _)| share(budget)).sum();
        if shares == 0 || left == 0 {
            break;
        }
        let round = left;
        for (budget, entitled) in budgets.iter().zip(entitled.iter_mut()).filter(open) {
            let part = (u128::from(round) * share(budget) / shares) as u64;
            let taken = part.min(budget.limit_bytes - *entitled);
            *entitled += taken;
            left -= taken;
        }
    }
    entitled
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
    fn no_budgets_are_no_entitlements() {
        assert!(entitlements(1000, &[]).is_empty());
    }
}
