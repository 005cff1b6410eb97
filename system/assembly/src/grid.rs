//! The grid: the engine's resources, and how each is scheduled.
//!
//! The catalogue of the contract says which resources there are, the list of `gyre_schedulers` which policies; none is named here. The
//! description of a machine says how resources are scheduled. A resource that it does not name is shared by weight, in cycles, and needs no
//! scheduler beside that of the CPU.
//!
//! Protocol of use: [`build`] makes an engine, once for each instance. From then on [`id`] gives the number of a resource in that engine,
//! [`gates`] and [`has_gate`] say which resources have a scheduler of their own, and [`built`] makes a policy for a change of the running
//! machine. The kernel and the simulator call all of them; nothing here has state.
//!
//! Left out: entitlements of tenants, which system/kernel gives to the engine.

use alloc::boxed::Box;
use alloc::vec::Vec;
use gyre_account::limits::RESOURCES_MAX;
use gyre_account::{Accounts, ResourceId};
use gyre_contract::boot::{
    Choice, Dispatch, Machine, Metric as ConfiguredMetric, Policy as ConfiguredPolicy, ResourcePolicy,
};
use gyre_contract::catalogue::{self, Resource, usual_cores};
use gyre_contract::policy::{Rate, Value};
use gyre_engine::{COMPUTE, Engine, FIRST_RESOURCE, GridConfig, GridError, Reach, ResourceConfig};
use gyre_schedulers::policy::WEIGHT_MAX;
use gyre_schedulers::tree::Tree;
use gyre_schedulers::{Metric, Policy, PolicyError, Setup, weighted_fair};

/// Weight of the infrastructure, in sums of all tenants' shares. Work that waits there belongs to a tenant that is not known yet: behind
/// a small weight all would wait in one line at the device, whatever their shares.
const INFRASTRUCTURE_TIMES: u64 = 4;

/// Returns the number of a resource in an engine that [`build`] made. The processor is the engine's own resource `compute`; the others
/// follow the engine's own in the order of the catalogue.
pub const fn id(resource: Resource) -> ResourceId {
    match resource {
        Resource::Cpu => COMPUTE,
        below => ResourceId(FIRST_RESOURCE.saturating_add(below as u8).saturating_sub(1)),
    }
}

const _: () = assert!(Resource::Cpu as u8 == 0, "the processor is the first in the catalogue");
const _: () = assert!(
    Resource::COUNT + FIRST_RESOURCE as usize <= RESOURCES_MAX + 1,
    "the engine has room for the catalogue and for its own resources"
);

/// Why the grid of a description cannot be built.
#[derive(Debug)]
pub enum BuildError {
    /// A policy has parameters that make no sense.
    Policy(PolicyError),
    /// The engine refuses the grid.
    Grid(GridError),
    /// The engine knows this resource by another number than [`id`].
    Missing(Resource),
}

impl core::fmt::Display for BuildError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            BuildError::Policy(error) => write!(f, "a policy of the description cannot be built: {error:?}"),
            BuildError::Grid(error) => write!(f, "the grid of the description cannot be built: {error:?}"),
            BuildError::Missing(resource) => write!(f, "the grid has no resource {}", resource.engine_name()),
        }
    }
}

/// Builds the engine that a description asks for, with every resource of the catalogue, and says what ends if work of one fails.
///
/// # Errors
/// [`BuildError`].
pub fn build(machine: &Machine, accounts: &'static Accounts) -> Result<&'static Engine, BuildError> {
    let grid = configure(machine).map_err(BuildError::Policy)?;
    let engine = Engine::build(grid, accounts).map_err(BuildError::Grid)?;
    let is_missing = |resource: &Resource| engine.resource_name(id(*resource)) != resource.engine_name();
    if let Some(resource) = below_cpu().find(is_missing) {
        return Err(BuildError::Missing(resource));
    }
    for resource in Resource::all() {
        engine.set_reach(id(resource), reach(resource));
        engine.set_shared(id(resource), resource.loss());
    }
    Ok(engine)
}

/// Returns the engine's word for what is lost with work of a resource.
pub fn reach(resource: Resource) -> Reach {
    match resource.reach() {
        catalogue::Reach::Process => Reach::Process,
        catalogue::Reach::Tenant => Reach::Tenant,
        catalogue::Reach::Machine => Reach::Machine,
    }
}

fn configure(machine: &Machine) -> Result<GridConfig, PolicyError> {
    let resources =
        below_cpu().map(|one| resource(machine, one, asked(machine, one))).collect::<Result<Vec<_>, _>>()?;
    let mut grid = GridConfig::new(resources);
    let shares: u64 = machine.tenants.iter().map(|tenant| u64::from(tenant.share)).sum();
    grid.infrastructure_weight = shares.saturating_mul(INFRASTRUCTURE_TIMES).clamp(100, u64::from(WEIGHT_MAX)) as u32;
    grid.inlines = machine.messages == Dispatch::Inline;
    grid.has_turns = machine.messages != Dispatch::Queued;
    grid.slice_ns = u64::from(machine.time_slice_us.max(100)) * 1000;
    if let Some(cpu) = asked(machine, Resource::Cpu) {
        grid.cpu = built(machine, Resource::Cpu.engine_name(), &cpu.policy, Metric::Cycles)?;
        grid.thread_cores = cpu.cores;
    }
    Ok(grid)
}

/// Returns the resources that the engine has beside its own (`runtime` and `compute`).
fn below_cpu() -> impl Iterator<Item = Resource> + Clone {
    Resource::all().filter(|resource| *resource != Resource::Cpu)
}

/// Returns the description of a resource's scheduler, if there is one.
fn asked(machine: &Machine, resource: Resource) -> Option<&ResourcePolicy> {
    machine.resources.iter().find(|policy| policy.resource == resource)
}

/// Returns the resources that have a scheduler of their own: something else than cycles is scarce there, or the owner wants another policy.
pub fn gates(machine: &Machine) -> impl Iterator<Item = Resource> {
    below_cpu().filter(|resource| has_gate(machine, *resource))
}

/// Returns true if a resource has a scheduler of its own.
pub fn has_gate(machine: &Machine, resource: Resource) -> bool {
    asked(machine, resource).map_or(resource.is_usually_gate(), is_gate)
}

fn is_gate(policy: &ResourcePolicy) -> bool {
    policy.metric != ConfiguredMetric::Cycles || !policy.policy.is_usual()
}

fn resource(
    machine: &Machine,
    resource: Resource,
    asked: Option<&ResourcePolicy>,
) -> Result<ResourceConfig, PolicyError> {
    let name = resource.engine_name();
    let plain = ResourceConfig::new(name);
    let gate = |resource: ResourceConfig, policy: &ConfiguredPolicy, metric: Metric| {
        Ok(resource.gate(metric, built(machine, name, policy, metric)?))
    };
    let Some(asked) = asked else {
        return match resource.usual_metric() {
            ConfiguredMetric::Cycles => Ok(plain),
            scarce => {
                let plain = ResourceConfig { cores: usual_cores(scarce, machine.cores), ..plain };
                gate(plain, &ConfiguredPolicy::default(), metric(scarce))
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

fn metric(configured: ConfiguredMetric) -> Metric {
    match configured {
        ConfiguredMetric::Cycles => Metric::Cycles,
        ConfiguredMetric::Bytes => Metric::Bytes,
        ConfiguredMetric::Messages => Metric::Messages,
        ConfiguredMetric::DeviceTime => Metric::DeviceTimeNs,
    }
}

/// Makes the policy of a place: `resource` of a machine, where `metric` is counted.
///
/// # Errors
/// `NoSuchPolicy` of a name that is not on the list; those of [`Tree::new`].
pub fn built(
    machine: &Machine,
    resource: &str,
    configured: &ConfiguredPolicy,
    metric: Metric,
) -> Result<Box<dyn Policy>, PolicyError> {
    let seed = seed(machine, resource);
    let outer = chosen(&configured.outer, metric, seed)?;
    let Some(inner) = &configured.inner else {
        return Ok(outer);
    };
    let inner = chosen(inner, metric, seed)?;
    Ok(Box::new(Tree::new(outer, inner.into(), Vec::new())?))
}

/// Makes one policy of the list.
fn chosen(choice: &Choice, metric: Metric, seed: u64) -> Result<Box<dyn Policy>, PolicyError> {
    let listed = choice.listed().ok_or(PolicyError::NoSuchPolicy)?;
    let (values, weighted_fair::Params { debt_max, credit_max, .. }) = (values(choice), weighted_fair(metric));
    Ok((listed.build)(&Setup { metric, debt_max, credit_max, seed, values: &values }))
}

/// The values of a policy's parameters, as the list counts them.
pub fn values(choice: &Choice) -> Vec<(&str, u64)> {
    let value = |value: Value| match value {
        Value::Plain(value) => value,
        Value::Rate(rate) => per_second(rate),
    };
    choice.settings.iter().map(|setting| (setting.parameter.as_str(), value(setting.value))).collect()
}

/// Returns a rate in units of the metric per second.
pub fn per_second(rate: Rate) -> u64 {
    match rate {
        Rate::PerSecond(units) => units,
        // Thousandths of a core's cycles per second are cycles per millisecond.
        Rate::CoreThousandths(parts) => parts.saturating_mul(gyre_machine::cycles_per_ms()),
    }
}

/// Randomness of a place: from the machine's entropy, another one for each resource (FNV-1a).
fn seed(machine: &Machine, resource: &str) -> u64 {
    let bytes = machine.seed.iter().copied().chain(resource.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Weighted fair queueing of so much of a metric. The debt of a tenant to one core for service on another is bounded, so that it does not
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

#[cfg(test)]
#[path = "grid_tests.rs"]
pub(crate) mod tests;
