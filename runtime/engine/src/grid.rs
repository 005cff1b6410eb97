//! The grid as configured: which resources there are, and how each is scheduled.

use crate::limits::{CREDIT_NS, DEBT_NS, QUANTUM_NS, QUEUE_BOUND, SLICE_NS};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_schedulers::{Metric, Policy, PolicyError, tree::Tree, weighted_fair};

/// How a resource is configured.
pub struct ResourceConfig {
    /// Its name for people and machine files; unique.
    pub name: String,
    /// `None`: its queues are clients of the CPU's policy, below their activities. `Some`: a gate, with a policy of its own over
    /// activities and their queues; it runs before the CPU's clients as long as that policy lets it.
    pub policy: Option<Box<dyn Policy>>,
    /// The metric that a gate's policy counts; its handlers report it with [`crate::Engine::report`].
    pub metric: Metric,
    /// Messages handled per scheduling decision (V7).
    pub batch: u32,
    /// Cores that may handle its requests, a bit each.
    pub cores: u64,
    /// Requests a queue takes before it drops more.
    pub queue_bound: u32,
    /// Weight of its queues among those of the same activity.
    pub weight: u32,
    /// Urgency of its queues among those of the same activity, if the policy there looks at it.
    pub priority: u8,
}

impl ResourceConfig {
    /// Makes a resource below the CPU's policy, on all cores, one message per decision.
    pub fn new(name: &str) -> ResourceConfig {
        ResourceConfig {
            name: String::from(name),
            policy: None,
            metric: Metric::Cycles,
            batch: 1,
            cores: u64::MAX,
            queue_bound: QUEUE_BOUND,
            weight: 1,
            priority: 0,
        }
    }

    /// Makes it a gate with this policy, which counts `metric`.
    pub fn gate(self, metric: Metric, policy: Box<dyn Policy>) -> ResourceConfig {
        ResourceConfig { policy: Some(policy), metric, ..self }
    }
}

/// How an instance is configured.
pub struct GridConfig {
    /// Policy of the CPU over the top-level activities; below them cycles are divided by weight. A tree is taken as it is.
    pub cpu: Box<dyn Policy>,
    /// Resources, numbered from [`crate::FIRST_RESOURCE`] in this order.
    pub resources: Vec<ResourceConfig>,
    /// Weight of the infrastructure beside the tenants.
    pub infrastructure_weight: u32,
    /// Length of a turn of kernel work, ns: inline calls end with it.
    pub quantum_ns: u64,
    /// True if a chosen activity's queues are served in one turn of at most a quantum; false if the policy is asked before each
    /// message (or batch), as the paper's kernel does.
    pub has_turns: bool,
    /// True if a request may be handled inside its sender's turn (see `port`); false queues every start.
    pub inlines: bool,
    /// Time slice of a user thread, ns.
    pub slice_ns: u64,
    /// Cores that run user threads, a bit each.
    pub thread_cores: u64,
    /// True if the cores watch each other (see `watch`). False if threads of a host play them: one that the host gives no processor looks
    /// like one that hangs.
    pub is_watched: bool,
}

impl GridConfig {
    /// Makes a grid of these resources with weighted fair shares of the CPU.
    pub fn new(resources: Vec<ResourceConfig>) -> GridConfig {
        GridConfig {
            cpu: Box::new(weighted_fair::policy(weighted_cpu())),
            resources,
            infrastructure_weight: 100,
            quantum_ns: QUANTUM_NS,
            has_turns: true,
            inlines: true,
            slice_ns: SLICE_NS,
            thread_cores: u64::MAX,
            is_watched: true,
        }
    }
}

/// Weighted fair shares of the CPU: of all cores together, as far as placement allows.
pub fn weighted_cpu() -> weighted_fair::Params {
    let cycles_per_ms = gyre_machine::cycles_per_ms().max(1);
    let cycles = |ns: u64| ns / 1_000_000 * cycles_per_ms;
    weighted_fair::Params { debt_max: cycles(DEBT_NS), credit_max: cycles(CREDIT_NS), ..Default::default() }
}

/// Returns a policy whose clients hang below nodes for their activities: `root` orders the top-level activities, weights do below.
///
/// # Errors
/// None for flat policies; those of [`Tree::new`] else.
pub(crate) fn as_tree(root: Box<dyn Policy>, metric: Metric) -> Result<Arc<dyn Policy>, PolicyError> {
    if root.name() == "tree" {
        return Ok(root.into());
    }
    let below = weighted_fair::policy(weighted_fair::Params { metric, ..Default::default() });
    Ok(Arc::new(Tree::new(root, Arc::new(below), Vec::new())?))
}
