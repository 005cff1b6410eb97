//! Demands from measured figures: two looks at a running machine.
//!
//! * A tenant that uses nearly all it holds is bound by what it holds: its clients ask again at once, or it computes without end.
//! * Any other asks as often as was measured, whatever its answers take.
//! * The time of an answer that the model does not explain, by playing the present shares, is time beside its work.

use gyre_broker::Resource;
use gyre_contract::goals::{BrokerPolicy, Goals, TenantGoal};

use super::{Arrival, Demand, Question, forecast};
use crate::{
    divided,
    measure::{self, Measured},
};

/// A tenant that uses this part of what it holds is bound by it.
const BOUND: f64 = 0.85;
/// Beats of a tenant of which none are counted, each second.
const UNCOUNTED_PER_S: f64 = 100.0;
/// How long the present shares are played to find times beside the work, s.
const CALIBRATION_S: u32 = 20;

/// Returns the demands of all tenants between two looks.
#[must_use]
pub fn demands(before: &Goals, after: &Goals) -> Vec<Demand> {
    let seconds = (after.now_ns.saturating_sub(before.now_ns) as f64 / 1e9).max(1e-3);
    let weights: f64 = after.tenants.iter().map(|tenant| f64::from(divided::weight(tenant, Resource::Cpu))).sum();
    let measured = measure::all(before, after);
    let demand = |(tenant, measured): (&TenantGoal, &Measured)| {
        let cores_ns = measured.cycles as f64 / after.cycles_per_second.max(1) as f64 * 1e9;
        let used = cores_ns / 1e9 / seconds / f64::from(after.cores.max(1));
        let held = (f64::from(divided::weight(tenant, Resource::Cpu)) / weights.max(1.0)).min(divided::limit(
            tenant,
            after,
            Resource::Cpu,
        ));
        let is_bound = used >= BOUND * held;
        one(tenant, measured, &Use { cores_ns, seconds, is_bound })
    };
    let demands: Vec<Demand> = after.tenants.iter().zip(&measured).map(demand).collect();
    calibrated(demands, after, &measured)
}

/// A tenant's use of the machine.
struct Use {
    cores_ns: f64,
    seconds: f64,
    is_bound: bool,
}

fn one(tenant: &TenantGoal, measured: &Measured, used: &Use) -> Demand {
    let rate = measured.beats as f64 / used.seconds;
    let work_ns = used.cores_ns / measured.beats.max(1) as f64;
    let arrival = match (measured.beats, used.is_bound) {
        (0, true) => Arrival::Always,
        (0, false) => {
            let work_ns = used.cores_ns / used.seconds / UNCOUNTED_PER_S;
            return Demand::new(&tenant.name, Arrival::PerSecond(UNCOUNTED_PER_S), work_ns).sound();
        }
        // Little's law: as many are inside as come in the time of an answer.
        (_, true) => Arrival::Clients((rate * measured.mean_ms().unwrap_or(0.0) / 1e3).round().max(1.0) as u32),
        (_, false) => Arrival::PerSecond(rate),
    };
    Demand::new(&tenant.name, arrival, work_ns).sound()
}

/// Plays what holds now; what is measured beyond that is time beside the work.
fn calibrated(demands: Vec<Demand>, goals: &Goals, measured: &[Measured]) -> Vec<Demand> {
    let now = Question { policy: BrokerPolicy::Off, seconds: CALIBRATION_S, seed: 1, seeds: 1 };
    let played = forecast(goals, &demands, &now);
    let beside = |(demand, measured): (Demand, &Measured)| {
        let outcome = played.tenants.iter().find(|outcome| outcome.tenant == demand.tenant);
        let model_ms = outcome.and_then(|outcome| outcome.percentile_ms);
        let tenant = goals.tenants.iter().find(|tenant| tenant.name == demand.tenant);
        let thousandths = measure::thousandths(tenant.and_then(measure::aim));
        let beside_ms = measured.percentile_ms(thousandths).zip(model_ms).map_or(0.0, |(seen, model)| seen - model);
        Demand { beside_ns: beside_ms * 1e6, ..demand }.sound()
    };
    demands.into_iter().zip(measured).map(beside).collect()
}
