//! Delays of overload controllers that follow goals, if the owner wants that.

use gyre_broker::overload::{self, Seen};
use gyre_contract::{
    goals::{Aim, Delays, Goals},
    native::Change,
};

use crate::measure::Measured;

/// A delay that differs by less than this part stays.
const LEAST_CHANGE: f64 = 0.02;

/// Returns the delay from now on of the overload controller of a tenant, ms; nothing if it stays, or is not the broker's.
pub fn delay_ms(goals: &Goals, tenant: &str, aim: Option<Aim>, measured: &Measured) -> Option<f64> {
    let own = goals.tenants.iter().find(|one| one.name == tenant)?;
    let delay_ms = own.overload_delay_ns.filter(|_| goals.broker.overload == Delays::FollowGoals)? as f64 / 1e6;
    let Some(Aim::Response { thousandths, target_ns }) = aim else { return None };
    let percentile_ms = measured.percentile_ms(thousandths).unwrap_or(f64::NAN);
    let (answers, refused) = (measured.beats, measured.refused);
    let seen = Seen { delay_ms, target_ms: target_ns as f64 / 1e6, percentile_ms, answers, refused };
    let wanted_ms = overload::delay_ms(&seen);
    ((wanted_ms - delay_ms).abs() > LEAST_CHANGE * delay_ms).then_some(wanted_ms)
}

/// Returns the change of a delay.
pub fn change(tenant: &str, delay_ms: f64) -> Change {
    Change::Overload { tenant: tenant.into(), delay_ns: (delay_ms * 1e6) as u64 }
}

#[cfg(test)]
mod tests {
    use gyre_contract::goals::{BUCKETS, TenantGoal, bucket_of};

    use super::*;

    const AIM: Aim = Aim::Response { thousandths: 990, target_ns: 100_000_000 };

    fn delay(overload: Delays, delay_ns: Option<u64>, aim: Aim) -> Option<f64> {
        let mut goals = Goals::default();
        goals.broker.overload = overload;
        goals.tenants = vec![TenantGoal { name: "shop".into(), overload_delay_ns: delay_ns, ..TenantGoal::default() }];
        let mut buckets = vec![0; BUCKETS];
        buckets[bucket_of(195_000_000)] = 100;
        let measured = Measured { beats: 100, buckets, ..Measured::default() };
        delay_ms(&goals, "shop", Some(aim), &measured)
    }

    #[test]
    fn a_delay_moves_only_if_the_owner_wants_it_and_a_time_is_the_goal() {
        let late = delay(Delays::FollowGoals, Some(100_000_000), AIM);
        assert_eq!(late, Some(70.0));
        assert_eq!(delay(Delays::Owners, Some(100_000_000), AIM), None);
        assert_eq!(delay(Delays::FollowGoals, None, AIM), None, "it has no controller");
        assert_eq!(delay(Delays::FollowGoals, Some(100_000_000), Aim::Rate(1)), None);
        assert_eq!(delay(Delays::FollowGoals, Some(1_000_000), AIM), None, "it is the shortest already");
    }
}
