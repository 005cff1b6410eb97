//! The demands of a machine file's tenants.

use gyre_broker_program::forecast::{Arrival, Demand};
use gyre_contract::goals::{Goals, TenantGoal};
use gyre_machine_file::{self as file, Model};

use super::Description;

/// Work that a tenant without a goal does at a time: of no consequence.
const WORK_NS: f64 = 1e6;

/// Returns the demand of each tenant of which something is known: its model, else what was measured, else all if it has no goal.
pub fn all(description: &Description, goals: &Goals, measured: Option<&[Demand]>) -> Vec<Demand> {
    let model = |name: &str| description.tenants.iter().find(|tenant| tenant.name == name).and_then(|one| one.model);
    let seen = |name: &str| measured?.iter().find(|demand| demand.tenant == name).cloned();
    let greedy = |tenant: &TenantGoal| {
        let is_greedy = tenant.goal.is_none() && !tenant.is_system;
        is_greedy.then(|| Demand::new(&tenant.name, Arrival::Always, WORK_NS))
    };
    let demand = |tenant: &TenantGoal| {
        let model = model(&tenant.name).map(|model| of_model(&tenant.name, &model));
        model.or_else(|| seen(&tenant.name)).or_else(|| greedy(tenant))
    };
    goals.tenants.iter().filter_map(demand).collect()
}

fn of_model(tenant: &str, model: &Model) -> Demand {
    let arrival = match model.arrival {
        file::Arrival::Clients(count) => Arrival::Clients(count),
        file::Arrival::Rate(beats) => Arrival::PerSecond(beats as f64 / 1e3),
    };
    let varies = f64::from(model.varies_percent) / 100.0;
    Demand { varies, ..Demand::new(tenant, arrival, model.work_ns as f64) }
}

/// Returns the first tenant that has a goal and of whose demand nothing is known.
pub fn unknown<'a>(goals: &'a Goals, demands: &[Demand]) -> Option<&'a str> {
    let is_known = |tenant: &&TenantGoal| demands.iter().any(|demand| demand.tenant == tenant.name);
    let with_goal = goals.tenants.iter().filter(|tenant| tenant.goal.is_some());
    with_goal
        .map(Some)
        .find(|tenant| tenant.as_ref().is_some_and(|one| !is_known(one)))
        .flatten()
        .map(|one| one.name.as_str())
}
