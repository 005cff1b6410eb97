//! The grid: which resources there are, and how each is scheduled. What the description does not name is shared by weight, in cycles.

use alloc::boxed::Box;
use alloc::vec::Vec;
use gyre_config::boot::{Dispatch, Machine, Metric as ConfiguredMetric, Policy as ConfiguredPolicy, ResourcePolicy};
use gyre_config::policy::{CPU, RESOURCES, usual_cores, usual_metric};
use gyre_engine::{GridConfig, ResourceConfig};
use gyre_schedulers::policy::WEIGHT_MAX;
use gyre_schedulers::{
    Metric, Policy, PolicyConfig, PolicyError, build, earliest_deadline, reservation, round_robin, strict_priority,
    token_bucket, weighted_fair, worst_case_fair,
};

/// Weight of the infrastructure, in sums of all tenants' shares. What waits there belongs to somebody who is not known yet: behind
/// a small weight all would wait in one line at the device, whatever their shares.
const INFRASTRUCTURE_TIMES: u64 = 4;

/// The grid that a description asks for. Names that do not exist here are reported and ignored.
///
/// # Errors
/// The policy's own: a sentence names the resource.
pub fn configure(machine: &Machine) -> Result<GridConfig, PolicyError> {
    let asked = |name: &str| machine.resources.iter().find(|policy| policy.resource == name);
    let resources = names().map(|name| resource(name, asked(name), machine.cores)).collect::<Result<Vec<_>, _>>()?;
    report_unknown(machine);
    let mut grid = GridConfig::new(resources);
    let shares: u64 = machine.tenants.iter().map(|tenant| u64::from(tenant.share)).sum();
    grid.infrastructure_weight = shares.saturating_mul(INFRASTRUCTURE_TIMES).clamp(100, u64::from(WEIGHT_MAX)) as u32;
    grid.inlines = machine.messages == Dispatch::Inline;
    grid.has_turns = machine.messages != Dispatch::Queued;
    grid.slice_ns = u64::from(machine.time_slice_us.max(100)) * 1000;
    if let Some(cpu) = asked(CPU) {
        grid.cpu = build(&policy(&cpu.policy, Metric::Cycles))?;
        grid.thread_cores = cpu.cores;
    }
    Ok(grid)
}

/// The resources of this system besides the engine's own (`runtime`, `compute`).
fn names() -> impl Iterator<Item = &'static str> {
    RESOURCES.iter().copied().filter(|name| *name != CPU)
}

/// The resources that have a scheduler of their own: those where something else than cycles is scarce, or where the owner wants another policy.
pub fn gates(machine: &Machine) -> impl Iterator<Item = &'static str> {
    let asked = |name: &str| machine.resources.iter().find(|policy| policy.resource == name);
    names().filter(move |name| match asked(name) {
        Some(policy) => is_gate(policy),
        None => usual_metric(name) != ConfiguredMetric::Cycles,
    })
}

/// True of a resource that has a scheduler of its own.
pub fn has_gate(machine: &Machine, resource: &str) -> bool {
    gates(machine).any(|name| name == resource)
}

fn is_gate(policy: &ResourcePolicy) -> bool {
    policy.metric != ConfiguredMetric::Cycles || policy.policy != ConfiguredPolicy::WeightedFair
}

fn report_unknown(machine: &Machine) {
    for policy in machine.resources.iter().filter(|policy| !RESOURCES.contains(&policy.resource.as_str())) {
        log::warn!("resource '{}': this kernel has none of that name; its policy is ignored", policy.resource);
    }
}

fn resource(name: &str, asked: Option<&ResourcePolicy>, cores: u16) -> Result<ResourceConfig, PolicyError> {
    let plain = ResourceConfig::new(name);
    let Some(asked) = asked else {
        return match usual_metric(name) {
            ConfiguredMetric::Cycles => Ok(plain),
            scarce => {
                let plain = ResourceConfig { cores: usual_cores(scarce, cores), ..plain };
                gate(plain, &ConfiguredPolicy::WeightedFair, metric(scarce))
            }
        };
    };
    let tuned = ResourceConfig {
        batch: u32::from(asked.batch.max(1)),
        cores: asked.cores,
        queue_bound: asked.queue_depth.max(1),
        // In the machine file 0 goes first.
        priority: u8::MAX.saturating_sub(asked.priority),
        ..plain
    };
    match is_gate(asked) {
        true => gate(tuned, &asked.policy, metric(asked.metric)),
        false => Ok(tuned),
    }
}

fn gate(resource: ResourceConfig, wanted: &ConfiguredPolicy, metric: Metric) -> Result<ResourceConfig, PolicyError> {
    Ok(resource.gate(metric, build(&policy(wanted, metric))?))
}

fn metric(configured: ConfiguredMetric) -> Metric {
    match configured {
        ConfiguredMetric::Cycles => Metric::Cycles,
        ConfiguredMetric::Bytes => Metric::Bytes,
        ConfiguredMetric::Messages => Metric::Messages,
        ConfiguredMetric::DeviceTime => Metric::DeviceTimeNs,
    }
}

/// A policy for a machine that runs: it counts what the one before it counted.
///
/// # Errors
/// The policy's own.
pub fn built(configured: &ConfiguredPolicy, metric: Metric) -> Result<Box<dyn Policy>, PolicyError> {
    build(&policy(configured, metric))
}

/// Weighted fair queueing of so much of a metric. What a tenant may owe one core for service on another is bounded, so that it does not
/// wait here for long because it was alone there.
fn weighted_fair(metric: Metric) -> weighted_fair::Params {
    let debt_max = match metric {
        Metric::Cycles => return gyre_engine::weighted_cpu(),
        Metric::Bytes => 1 << 20,
        Metric::DeviceTimeNs => 50_000_000,
        _ => 1000,
    };
    weighted_fair::Params { metric, debt_max, ..Default::default() }
}

// recursion: at most as deep as the machine file nests, because only the owner of the machine writes that
fn policy(configured: &ConfiguredPolicy, metric: Metric) -> PolicyConfig {
    match configured {
        ConfiguredPolicy::WeightedFair => PolicyConfig::WeightedFair(weighted_fair(metric)),
        ConfiguredPolicy::WorstCaseFair => {
            let weighted_fair::Params { debt_max, credit_max, .. } = weighted_fair(metric);
            PolicyConfig::WorstCaseFair(worst_case_fair::Params { metric, debt_max, credit_max, ..Default::default() })
        }
        ConfiguredPolicy::RoundRobin => PolicyConfig::RoundRobin(round_robin::Params { metric, ..Default::default() }),
        ConfiguredPolicy::StrictPriority => {
            PolicyConfig::StrictPriority(strict_priority::Params { metric, ..Default::default() })
        }
        ConfiguredPolicy::EarliestDeadline => {
            PolicyConfig::EarliestDeadline(earliest_deadline::Params { metric, ..Default::default() })
        }
        ConfiguredPolicy::TokenBucket { .. } => {
            PolicyConfig::TokenBucket(token_bucket::Params { metric, ..Default::default() })
        }
        ConfiguredPolicy::ReservationLimitShare => {
            PolicyConfig::Reservation(reservation::Params { metric, ..Default::default() })
        }
        ConfiguredPolicy::Nested { outer, inner } => PolicyConfig::Tree {
            root: Box::new(policy(outer, metric)),
            default: Box::new(policy(inner, metric)),
            nodes: Vec::new(),
        },
    }
}
