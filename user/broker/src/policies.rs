//! The policies of `gyre-broker`, as the broker hosts them.

use std::collections::BTreeMap;

use gyre_broker::{
    Goal, Plan, Policy, Resource, TenantId, Window,
    pacora::Pacora,
    pota::Pota,
    pressure::Pressure,
    static_shares::StaticShares,
    threshold::{Bounds, Threshold},
};
use gyre_contract::goals::{Broker as Settings, BrokerPolicy};

/// The part of a response's target below which a service gives a step back.
const LOWER: f64 = 0.8;
/// The least part of a service and of the batch tenant beside it.
const LEAST: f64 = 0.05;

/// A policy, with all that it has learnt.
pub enum Hosted {
    /// It decides nothing.
    Off,
    /// Shares as the owner gave them.
    Static(StaticShares),
    /// A pair for each tenant with a response time.
    Threshold(BTreeMap<TenantId, Pair>),
    /// Time that work waited.
    Pressure(Pressure),
    /// Rates.
    Pota(Box<Pota>),
    /// Everything at once.
    Pacora(Box<Pacora>),
}

/// A service and the batch tenant beside it.
pub struct Pair {
    /// The goal that the law was made for, ms.
    target_ms: f64,
    /// The batch tenant.
    batch: TenantId,
    law: Threshold,
}

impl Hosted {
    /// Makes a policy that has learnt nothing.
    pub fn new(policy: BrokerPolicy) -> Hosted {
        match policy {
            BrokerPolicy::Off => Hosted::Off,
            BrokerPolicy::Static => Hosted::Static(StaticShares),
            BrokerPolicy::Threshold => Hosted::Threshold(BTreeMap::new()),
            BrokerPolicy::Pressure => Hosted::Pressure(Pressure),
            BrokerPolicy::Pota => Hosted::Pota(Box::new(Pota::new(Resource::Cpu))),
            BrokerPolicy::Pacora => Hosted::Pacora(Box::default()),
        }
    }

    /// Lets it decide.
    pub fn decide(&mut self, settings: &Settings, window: &Window<'_>, plan: &mut Plan) {
        match self {
            Hosted::Off => {}
            Hosted::Static(policy) => policy.decide(window, plan),
            Hosted::Threshold(pairs) => {
                pair(pairs, settings, window);
                pairs.values_mut().for_each(|pair| pair.law.decide(window, plan));
            }
            Hosted::Pressure(policy) => policy.decide(window, plan),
            Hosted::Pota(policy) => policy.decide(window, plan),
            Hosted::Pacora(policy) => policy.decide(window, plan),
        }
    }

    /// Says whether it learns from variation, so that what is granted must vary a little.
    pub fn wants_variation(&self) -> bool {
        matches!(self, Hosted::Pacora(_))
    }
}

/// Puts each tenant with a new response time, or without a batch tenant any more, beside the tenant without a goal that holds most.
fn pair(pairs: &mut BTreeMap<TenantId, Pair>, settings: &Settings, window: &Window<'_>) {
    let has_goal =
        |id: &TenantId| window.tenants.iter().any(|one| one.id == *id && matches!(one.goal, Goal::Response { .. }));
    pairs.retain(|id, _| has_goal(id));
    let cpu = Resource::Cpu.index();
    let without = || window.tenants.iter().filter(|tenant| tenant.goal == Goal::None);
    let Some(batch) = without().max_by(|a, b| a.granted[cpu].total_cmp(&b.granted[cpu])) else {
        return;
    };
    for tenant in window.tenants {
        let Goal::Response { target_ms, .. } = tenant.goal else { continue };
        // Another goal begins anew; the same one beside the same tenant keeps its last step.
        let stays = |pair: &Pair| pair.target_ms == target_ms && without().any(|one| one.id == pair.batch);
        if !pairs.get(&tenant.id).is_some_and(stays) {
            let law = Threshold::new(tenant.id, batch.id, Resource::Cpu, bounds(settings, target_ms));
            pairs.insert(tenant.id, Pair { target_ms, batch: batch.id, law });
        }
    }
}

fn bounds(settings: &Settings, target_ms: f64) -> Bounds {
    let ns = |ms: u32| u64::from(ms) * 1_000_000;
    Bounds {
        upper_ms: target_ms,
        lower_ms: target_ms * LOWER,
        step: f64::from(settings.step_thousandths) / 1000.0,
        service_least: LEAST,
        batch_least: LEAST,
        beats_min: settings.answers_min.into(),
        pause_ns: ns(settings.pause_ms),
        turn_ns: ns(settings.turn_ms),
    }
}

/// Returns the time of a window, ms: the owner's, else the one that the policy was made for.
#[must_use]
pub fn window_ms(settings: &Settings, policy: BrokerPolicy) -> u64 {
    match settings.window_ms {
        0 => usual_window_ms(policy).into(),
        ms => ms.into(),
    }
}

fn usual_window_ms(policy: BrokerPolicy) -> u32 {
    match policy {
        BrokerPolicy::Pota => 500,
        BrokerPolicy::Pacora | BrokerPolicy::Pressure | BrokerPolicy::Off | BrokerPolicy::Static => 1_000,
        BrokerPolicy::Threshold => 10_000,
    }
}
