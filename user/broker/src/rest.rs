//! The rest: what a plan leaves over. Weights divide all of a machine among those who want it, so the rest is given to somebody.
//!
//! A tenant that sleeps between its answers uses what its work needs, whatever it holds: a reserve makes it wait less when its work grows, and
//! costs nobody anything. So those tenants have the rest first, up to [`RESERVE`] of their parts. Then come tenants without a goal. One that never
//! sleeps gets nothing of it: it would use it, and is to live with less.

use gyre_broker::{Goal, Plan, Resource, Tenant};

/// The reserve of a tenant that sleeps between its answers, as a part of what the plan gives it.
const RESERVE: f64 = 0.5;

/// Returns the parts of a plan after a window of `length_ns`, in the order of `tenants`, with what is left over, within their limits.
pub fn parts(tenants: &[Tenant<'_>], plan: &Plan, resource: Resource, length_ns: u64) -> Vec<f64> {
    let mut parts: Vec<f64> = tenants.iter().map(|tenant| plan.part(tenant.id, resource)).collect();
    let sleeps = |tenant: &Tenant<'_>| tenant.goal.deadline_ms().is_some() && tenant.sleeps(length_ns);
    let wanted = |tenant: &Tenant<'_>| if sleeps(tenant) { RESERVE * plan.part(tenant.id, resource) } else { 0.0 };
    let wants: f64 = tenants.iter().map(wanted).sum();
    divide(tenants, &mut parts, resource, |rest| rest.min(wants), wanted);
    let share = |tenant: &Tenant<'_>| if tenant.goal == Goal::None { tenant.share[resource.index()] } else { 0.0 };
    divide(tenants, &mut parts, resource, |rest| rest, share);
    parts
}

/// Adds `of` the rest to the parts, in proportion to weights.
fn divide(
    tenants: &[Tenant<'_>],
    parts: &mut [f64],
    resource: Resource,
    of: impl Fn(f64) -> f64,
    weight: impl Fn(&Tenant<'_>) -> f64,
) {
    let given = of((1.0 - parts.iter().sum::<f64>()).max(0.0));
    let weights: f64 = tenants.iter().map(&weight).sum();
    for (tenant, part) in tenants.iter().zip(parts).filter(|_| weights > 0.0) {
        *part = (*part + given * weight(tenant) / weights).min(tenant.limit[resource.index()].max(*part));
    }
}

#[cfg(test)]
mod tests {
    use gyre_broker::{Knob, Observation, Owner, Reason, ResourceSet, Sample, TenantId, Window};

    use super::*;

    const WINDOW_NS: u64 = 500_000_000;

    fn tenant(id: u64, goal: Goal, share: f64, limit: f64) -> Tenant<'static> {
        Tenant {
            id: TenantId(id),
            goal,
            share: [share; gyre_broker::RESOURCES],
            limit: [limit; gyre_broker::RESOURCES],
            granted: [share; gyre_broker::RESOURCES],
            ..Tenant::default()
        }
    }

    /// Returns the parts if the plan gives the first tenant 20 %.
    fn divided<const COUNT: usize>(tenants: [Tenant<'_>; COUNT]) -> Vec<f64> {
        let movable = ResourceSet::of(&[Resource::Cpu]);
        let window = Window { now_ns: 1, length_ns: WINDOW_NS, movable, tenants: &tenants };
        let mut plan = Plan::new(&window).unwrap();
        let knob = Knob { tenant: TenantId(0), resource: Resource::Cpu };
        plan.set(Owner::Pota, knob, 0.2, Reason::Share).unwrap();
        parts(&tenants, &plan, Resource::Cpu, WINDOW_NS)
    }

    fn are(parts: &[f64], wanted: &[f64]) {
        assert!(parts.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-6), "{parts:?}, expected {wanted:?}");
    }

    #[test]
    fn the_rest_goes_to_those_without_a_goal_within_their_limits() {
        let rate = Goal::Rate { per_s: 30.0 };
        let restless = Sample { response_ms: 33.0, beats: 15, ..Sample::default() };
        let seen = Observation { samples: &[restless], ..Observation::default() };
        let first = Tenant { seen, ..tenant(0, rate, 0.6, 1.0) };
        are(&divided([first, tenant(1, Goal::None, 0.3, 1.0), tenant(2, Goal::None, 0.1, 0.12)]), &[0.2, 0.6, 0.12]);
    }

    #[test]
    fn a_reserve_goes_first_to_those_that_sleep() {
        let goal = Goal::Response { percentile: 90.0, target_ms: 66.0 };
        let sleeps = Sample { response_ms: 20.0, beats: 7, ..Sample::default() };
        let seen = Observation { samples: &[sleeps], ..Observation::default() };
        let first = Tenant { seen, ..tenant(0, goal, 0.6, 1.0) };
        are(&divided([first, tenant(1, Goal::None, 0.4, 1.0)]), &[0.3, 0.7]);
        let walled = Tenant { limit: [0.25; gyre_broker::RESOURCES], ..first };
        are(&divided([walled, tenant(1, Goal::None, 0.4, 1.0)]), &[0.25, 0.75]);
        are(&divided([tenant(0, goal, 0.6, 1.0), tenant(1, Goal::None, 0.4, 1.0)]), &[0.2, 0.8]);
        let waits = [Sample { waits_ms: 1.0, ..sleeps }];
        let waiting = Tenant { seen: Observation { samples: &waits, ..Observation::default() }, ..first };
        are(&divided([waiting, tenant(1, Goal::None, 0.4, 1.0)]), &[0.2, 0.8]);
    }

    #[test]
    fn who_sleeps_takes_no_more_than_there_is() {
        let goal = Goal::Response { percentile: 90.0, target_ms: 66.0 };
        let seen = Observation {
            samples: &[Sample { response_ms: 20.0, beats: 7, ..Sample::default() }],
            ..Observation::default()
        };
        let first = Tenant { seen, ..tenant(0, goal, 0.22, 1.0) };
        are(&divided([first, tenant(1, Goal::None, 0.75, 1.0)]), &[0.25, 0.75]);
    }
}
