//! The grid: which resources there are, and how each is scheduled. What the description does not name is shared by weight, in cycles.

use alloc::boxed::Box;
use alloc::vec::Vec;
use gyre_config::boot::{Dispatch, Machine, Metric as ConfiguredMetric, Policy as ConfiguredPolicy, ResourcePolicy};
use gyre_engine::{GridConfig, ResourceConfig};
use gyre_schedulers::policy::WEIGHT_MAX;
use gyre_schedulers::{
    Metric, Policy, PolicyConfig, PolicyError, build, earliest_deadline, reservation, round_robin, strict_priority,
    token_bucket, weighted_fair, worst_case_fair,
};

/// The resources of this system besides the engine's own (`runtime`, `compute`), and whether the scarce thing before them is the device (a gate by bytes).
const RESOURCES: &[(&str, bool)] = &[
    ("device_interrupt", false),
    ("block", true),
    ("memory", false),
    ("file_cache", false),
    ("address_space", false),
    ("ext2", false),
    ("tmpfs", false),
    ("network_write", true),
    ("network_prepare", false),
    ("network_read", false),
    ("tcp", false),
    ("tcp_timer", false),
    ("udp", false),
    ("icmp", false),
    ("process", false),
    ("console", false),
];

/// Weight of the infrastructure, in sums of all tenants' shares. What waits there belongs to somebody who is not known yet: behind
/// a small weight all would wait in one line at the device, whatever their shares.
const INFRASTRUCTURE_TIMES: u64 = 4;

/// The engine's resource that stands for the machine file's `cpu`.
pub const CPU: &str = "cpu";

/// The grid that a description asks for. Names that do not exist here are reported and ignored.
///
/// # Errors
/// The policy's own: a sentence names the resource.
pub fn configure(machine: &Machine) -> Result<GridConfig, PolicyError> {
    let asked = |name: &str| machine.resources.iter().find(|policy| policy.resource == name);
    let resources = RESOURCES
        .iter()
        .map(|(name, by_bytes)| resource(name, *by_bytes, asked(name)))
        .collect::<Result<Vec<_>, _>>()?;
    report_unknown(machine);
    let mut grid = GridConfig::new(resources);
    let shares: u64 = machine.tenants.iter().map(|tenant| u64::from(tenant.share)).sum();
    grid.infrastructure_weight = (shares * INFRASTRUCTURE_TIMES).clamp(100, u64::from(WEIGHT_MAX)) as u32;
    grid.inlines = machine.messages == Dispatch::Inline;
    grid.has_turns = machine.messages != Dispatch::Queued;
    grid.slice_ns = u64::from(machine.time_slice_us.max(100)) * 1000;
    if let Some(cpu) = asked(CPU) {
        if cpu.policy != ConfiguredPolicy::WeightedFair {
            grid.cpu = build(&policy(&cpu.policy, Metric::Cycles))?;
        }
        grid.thread_cores = cpu.cores;
    }
    Ok(grid)
}

fn report_unknown(machine: &Machine) {
    let known = |name: &str| name == CPU || RESOURCES.iter().any(|(other, _)| *other == name);
    for policy in machine.resources.iter().filter(|policy| !known(&policy.resource)) {
        log::warn!("resource '{}': this kernel has none of that name; its policy is ignored", policy.resource);
    }
}

fn resource(name: &str, by_bytes: bool, asked: Option<&ResourcePolicy>) -> Result<ResourceConfig, PolicyError> {
    let plain = ResourceConfig::new(name);
    let Some(asked) = asked else {
        return if by_bytes { gate(plain, &ConfiguredPolicy::WeightedFair, Metric::Bytes) } else { Ok(plain) };
    };
    let tuned = ResourceConfig {
        batch: u32::from(asked.batch.max(1)),
        cores: asked.cores,
        queue_bound: asked.queue_depth.max(1),
        priority: asked.priority,
        ..plain
    };
    match metric(asked.metric) {
        Metric::Cycles if asked.policy == ConfiguredPolicy::WeightedFair => Ok(tuned),
        metric => gate(tuned, &asked.policy, metric),
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

fn policy(configured: &ConfiguredPolicy, metric: Metric) -> PolicyConfig {
    match configured {
        ConfiguredPolicy::WeightedFair => {
            PolicyConfig::WeightedFair(weighted_fair::Params { metric, ..Default::default() })
        }
        ConfiguredPolicy::WorstCaseFair => {
            PolicyConfig::WorstCaseFair(worst_case_fair::Params { metric, ..Default::default() })
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
