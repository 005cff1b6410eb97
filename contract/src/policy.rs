//! The schedulers before resources, with their parameters.

use crate::catalogue::Resource;
use alloc::{string::String, vec::Vec};
use gyre_schedulers::list::{self, Listed};
use serde::{Deserialize, Serialize};

/// So much per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Rate {
    /// Units of the metric per second.
    PerSecond(u64),
    /// Thousandths of the cycles of one core.
    CoreThousandths(u64),
}

/// A scheduling policy: `outer` chooses among the children of the root activity, `inner` among the activities below the chosen one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// The policy of the upper level.
    pub outer: Choice,
    /// The policy of the lower level, if it differs from the usual one.
    pub inner: Option<Choice>,
}

/// A policy of the list (`gyre_schedulers::list`) with the parameters that were given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    /// Its name on the list.
    pub name: String,
    /// Parameters and their values.
    pub settings: Vec<Setting>,
}

/// A parameter with its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// The parameter's name on the list.
    pub parameter: String,
    /// Its value.
    pub value: Value,
}

/// A value of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Value {
    /// In the parameter's own unit.
    Plain(u64),
    /// A rate whose unit the machine knows.
    Rate(Rate),
}

impl Default for Choice {
    fn default() -> Self {
        Self::of(list::usual())
    }
}

impl Choice {
    /// Makes a policy with all parameters at their defaults.
    #[must_use]
    pub fn of(listed: &Listed) -> Self {
        Self { name: listed.name.into(), settings: Vec::new() }
    }

    /// Returns what the list says of it; nothing of a name that another version wrote.
    #[must_use]
    pub fn listed(&self) -> Option<&'static Listed> {
        list::find(&self.name)
    }
}

impl Policy {
    /// Makes a policy of one level.
    #[must_use]
    pub fn flat(outer: Choice) -> Self {
        Self { outer, inner: None }
    }

    /// Returns true if it is the policy that holds if none is named.
    #[must_use]
    pub fn is_usual(&self) -> bool {
        *self == Self::default()
    }
}

/// The quantity that a scheduler counts when it compares its clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Metric {
    /// Processor cycles that the resource spent.
    #[default]
    Cycles,
    /// Bytes that the resource moved (it reports them itself).
    Bytes,
    /// Messages handled.
    Messages,
    /// Device time in nanoseconds (the resource reports it itself).
    DeviceTime,
}

/// The scheduler of one resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourcePolicy {
    /// Which.
    pub resource: Resource,
    /// The policy.
    pub policy: Policy,
    /// Its metric.
    pub metric: Metric,
    /// Batching factor: messages of the chosen client handled per scheduling decision, at least 1.
    pub batch: u16,
    /// Cores that may handle the resource: bit n is core n.
    pub cores: u64,
    /// The resource's priority in the CPU scheduler's choice among resources: 0 is served first.
    pub priority: u8,
    /// Messages that one request queue may hold.
    pub queue_depth: u32,
}

/// The promise to one tenant at one resource, if it differs from the tenant's share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entitlement {
    /// Which.
    pub resource: Resource,
    /// Weight in place of the tenant's share.
    pub share: Option<u32>,
    /// Under a policy that keeps priorities: 0 is served first.
    pub priority: Option<u8>,
    /// Under a policy that keeps deadlines: relative deadline of each message in nanoseconds.
    pub deadline_ns: Option<u64>,
    /// Under a policy that keeps reservations: what is always granted.
    pub reservation: Option<Rate>,
    /// Under a policy that keeps limits: what is never exceeded.
    pub limit: Option<Rate>,
    /// Under a policy that keeps budgets: the time between two of them in nanoseconds.
    pub period_ns: Option<u64>,
    /// Under a policy that keeps budgets: what may be used on each core in a period.
    pub budget: Option<Budget>,
}

impl Entitlement {
    /// Returns one that promises nothing beside the tenant's share.
    #[must_use]
    pub fn none(resource: Resource) -> Self {
        Self {
            resource,
            share: None,
            priority: None,
            deadline_ns: None,
            reservation: None,
            limit: None,
            period_ns: None,
            budget: None,
        }
    }
}

/// An amount for a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Budget {
    /// Time of a core in nanoseconds.
    Time(u64),
    /// Units of the metric.
    Amount(u64),
}
