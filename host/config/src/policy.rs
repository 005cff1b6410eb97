//! Which scheduler stands before a resource, and with what parameters.

use alloc::{boxed::Box, string::String};
use serde::{Deserialize, Serialize};

/// The processor: shared among all that run and all that is handled.
pub const CPU: &str = "cpu";

/// The resources that a machine file may name and the kernel has, in the order of the paths through the machine.
pub const RESOURCES: &[&str] = &[
    CPU,
    "device_interrupt",
    "block",
    "scsi",
    "storage",
    "memory",
    "file_cache",
    "address_space",
    "ext2",
    "tmpfs",
    "async_io",
    "io_stream",
    "network_write",
    "network_prepare",
    "network_read",
    "tcp",
    "tcp_timer",
    "udp",
    "icmp",
    "process",
    "console",
];

/// Returns what is scarce at a resource where nobody says otherwise: bytes at the devices, cycles elsewhere.
pub fn usual_metric(resource: &str) -> Metric {
    match resource {
        "block" | "network_write" => Metric::Bytes,
        _ => Metric::Cycles,
    }
}

/// Returns whether a resource says how much of a metric a message used; a policy by another one would divide and bound nothing.
pub fn counts(resource: &str, metric: Metric) -> bool {
    match metric {
        Metric::Cycles | Metric::Messages => true,
        Metric::Bytes => {
            let before_devices = matches!(resource, "block" | "scsi" | "storage" | "network_write");
            before_devices || matches!(resource, "ext2" | "file_cache" | "async_io" | "io_stream")
        }
        Metric::DeviceTime => resource == "block",
    }
}

/// Returns the cores that a resource runs on where nobody says otherwise, a bit each. One for what stands before a device: a core's
/// scheduler divides what that core hands on, and the cores' parts of one device would be equal, whoever is on them.
pub fn usual_cores(metric: Metric, cores: u16) -> u64 {
    match metric {
        Metric::Cycles => u64::MAX >> (64 - cores.clamp(1, 64)),
        Metric::Bytes | Metric::Messages | Metric::DeviceTime => 1,
    }
}

/// So much per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Rate {
    /// Units of the metric per second.
    PerSecond(u64),
    /// Thousandths of the cycles of one core.
    CoreThousandths(u64),
}

/// A scheduling policy with its parameters; policies nest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Policy {
    /// Weighted fair queueing with virtual-time reset: consumption in proportion to the tenants' shares.
    WeightedFair,
    /// Worst-case fair weighted fair queueing (WF2Q+): like `WeightedFair`, never far ahead of the ideal either.
    WorstCaseFair,
    /// Each ready client in turn.
    RoundRobin,
    /// The ready client with the smallest priority number.
    StrictPriority,
    /// The ready client with the earliest deadline.
    EarliestDeadline,
    /// Each client gets its share of `rate` (units of the metric per second) and never more: not work-conserving.
    TokenBucket {
        /// Over all clients.
        rate: Rate,
        /// Units of the metric that idle clients may save up together; 0 = what the rate brings in 10 ms.
        burst: u64,
    },
    /// Reservation first, then shares up to each client's limit (mClock).
    ReservationLimitShare,
    /// `outer` chooses among the children of the root activity, `inner` among the activities below the chosen one.
    Nested {
        /// The policy of the upper level.
        outer: Box<Policy>,
        /// The policy of the lower level.
        inner: Box<Policy>,
    },
}

/// What a scheduler counts when it compares its clients.
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
    /// One of [`RESOURCES`].
    pub resource: String,
    /// The policy.
    pub policy: Policy,
    /// What it counts.
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

/// What one tenant is promised at one resource, where it differs from the tenant's share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entitlement {
    /// One of [`RESOURCES`].
    pub resource: String,
    /// Weight in place of the tenant's share.
    pub share: Option<u32>,
    /// For `StrictPriority`: 0 is served first.
    pub priority: Option<u8>,
    /// For `EarliestDeadline`: relative deadline of each message in nanoseconds.
    pub deadline_ns: Option<u64>,
    /// For `ReservationLimitShare`: what is always granted.
    pub reservation: Option<Rate>,
    /// For `ReservationLimitShare` and `TokenBucket`: what is never exceeded.
    pub limit: Option<Rate>,
}
