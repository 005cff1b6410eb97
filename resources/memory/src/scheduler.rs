//! The memory scheduler: it chooses the tenants that give memory when the machine has too little. Pure.

use alloc::vec::Vec;
use gyre_account::ActivityId;

/// The holdings and the entitlement of a tenant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claim {
    /// The tenant.
    pub activity: ActivityId,
    /// Bytes that it holds.
    pub held_bytes: u64,
    /// Bytes that it is entitled to.
    pub entitled_bytes: u64,
    /// Its share.
    pub share: u32,
}

impl Claim {
    /// Returns the bytes that it holds beyond its entitlement.
    pub fn excess_bytes(&self) -> u64 {
        self.held_bytes.saturating_sub(self.entitled_bytes)
    }

    /// Returns its excess for each part of its share: the largest goes first.
    fn urgency(&self) -> u128 {
        (u128::from(self.excess_bytes()) << 32).checked_div(u128::from(self.share.max(1))).unwrap_or(u128::MAX)
    }
}

/// Returns the activities that give, and how much, in order, so that `asker` can have `wanted_bytes`: first itself,
/// as far as it is over its entitlement; then others that are over theirs, furthest first relative to their shares;
/// then itself again. No other is ever asked.
pub fn victims(claims: &[Claim], asker: ActivityId, wanted_bytes: u64) -> Vec<(ActivityId, u64)> {
    let own = claims.iter().find(|claim| claim.activity == asker);
    let mut others: Vec<&Claim> =
        claims.iter().filter(|claim| claim.activity != asker && claim.excess_bytes() > 0).collect();
    others.sort_by_key(|claim| core::cmp::Reverse(claim.urgency()));
    // With the room asked for it would be over by that much more.
    let first = own.map(|own| {
        own.excess_bytes().max(own.held_bytes.saturating_add(wanted_bytes).saturating_sub(own.entitled_bytes))
    });
    let first = own.zip(first).filter(|(_, bytes)| *bytes > 0).map(|(own, bytes)| (own.activity, bytes));
    let last = own.map(|own| (own.activity, own.held_bytes));
    let excess = others.into_iter().map(|claim| (claim.activity, claim.excess_bytes()));
    first.into_iter().chain(excess).chain(last).map(|(activity, bytes)| (activity, bytes.min(wanted_bytes))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    const A: ActivityId = ActivityId(1);
    const B: ActivityId = ActivityId(2);
    const C: ActivityId = ActivityId(3);

    fn claim(activity: ActivityId, held_bytes: u64, entitled_bytes: u64, share: u32) -> Claim {
        Claim { activity, held_bytes, entitled_bytes, share }
    }

    #[test]
    fn who_is_over_its_entitlement_loses_its_own_first() {
        let claims = [claim(A, 200, 100, 1), claim(B, 900, 100, 1)];
        assert_eq!(victims(&claims, A, 50), [(A, 50), (B, 50), (A, 50)]);
    }

    #[test]
    fn who_is_below_its_entitlement_takes_from_who_is_over_theirs() {
        let claims = [claim(A, 10, 100, 1), claim(B, 150, 100, 1), claim(C, 300, 100, 10)];
        assert_eq!(victims(&claims, A, 50), [(B, 50), (C, 50), (A, 10)]);
    }

    #[test]
    fn nobody_within_its_entitlement_is_asked() {
        let claims = [claim(A, 100, 100, 1), claim(B, 100, 100, 1), claim(C, 20, 100, 1)];
        assert_eq!(victims(&claims, A, 50), vec![(A, 50), (A, 50)]);
    }

    #[test]
    fn somebody_unknown_takes_from_who_is_over_only() {
        assert_eq!(victims(&[claim(B, 150, 100, 1)], A, 80), [(B, 50)]);
    }
}
