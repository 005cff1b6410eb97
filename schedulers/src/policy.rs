//! The contract between the engine and a scheduling policy.
//!
//! Life of a client (a request queue), as the engine drives it:
//! ```text
//!             client_ready            schedule
//!     Idle ----------------> Ready ----------------> Serving
//!      ^                       |  <----------------     |
//!      |                       |      client_ready      |  (queue still not empty)
//!      +-----------------------+------------------------+
//!           client_suspended: out of the ready set until client_ready
//!           client_idle: out of the ready set because its requests were cancelled
//! ```
//! * A chosen client stays out of the ready set until `client_ready` is called again.
//! * `resource_record` may come at any time and in any number: before or after that `client_ready`, late, while the client
//!   is idle or suspended, or without `schedule` (inline service). Consumption is always charged.
//! * When there is nothing left to serve, the engine calls `schedule` until it returns `None`: that ends a busy period.
//! * No call but `add_client`, `update_client`, `add_node` and `init_core` allocates; none panics.
//! * Calls that name an unknown client do nothing, or return [`PolicyError::UnknownClient`] if there is a result.
use crate::multiplexer::Epoch;
use alloc::boxed::Box;
use alloc::sync::Arc;

/// Names a request queue on one core; a small number given by the caller and reused after `remove_client`.
pub type ClientIndex = u32;

/// Names an inner node of a tree policy; a small number given by the caller. Node 0 is the root and always exists.
pub type NodeIndex = u32;

/// The `owner` of a client of which the caller says nothing.
pub const NOBODY: u32 = u32::MAX;

/// Clients and nodes must have an index below this, so that a table per core stays small.
pub const CLIENTS_MAX: u32 = 1 << 20;

/// Largest weight a client can have; the smallest is 1.
pub const WEIGHT_MAX: u32 = 1_000_000;

/// The quantity that a record counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Metric {
    /// Cycles of a core.
    #[default]
    Cycles,
    /// Bytes moved over a link, a disk or a copy.
    Bytes,
    /// Messages handled.
    Messages,
    /// Nanoseconds a device was busy.
    DeviceTimeNs,
    /// Requests waiting behind the resource; a level, so the last value counts and no policy sums it.
    QueueDepth,
    /// Bytes of memory taken.
    MemoryBytes,
}

impl Metric {
    /// Number of metrics.
    pub const COUNT: usize = 6;

    /// Says whether amounts replace each other (a level) instead of adding up.
    pub fn is_level(self) -> bool {
        matches!(self, Metric::QueueDepth)
    }
}

/// Consumption measured while a client was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The measured quantity.
    pub kind: Metric,
    /// How much of it.
    pub amount: u64,
}

/// The parameters of a client. Each policy reads the fields it needs and ignores the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientParams {
    /// Share relative to the others, 1 ..= [`WEIGHT_MAX`].
    pub weight: u32,
    /// Urgency; a larger number goes first.
    pub priority: u8,
    /// Time from becoming ready to the deadline of the message, in nanoseconds (earliest deadline first).
    pub deadline_ns: u64,
    /// Least time between two releases in nanoseconds; 0 = no period (earliest deadline first).
    pub period_ns: u64,
    /// Amount per second promised under any load; 0 = none.
    pub reservation_per_s: u64,
    /// Amount per second never exceeded; 0 = no limit.
    pub limit_per_s: u64,
    /// Amount that may be taken at once on top of the limit; with earliest deadline first the budget of one period.
    pub burst: u64,
    /// Node of the tree policy the client (or node) hangs under; `None` = the root. Other policies ignore it.
    pub parent: Option<NodeIndex>,
    /// The caller's name for who stands behind it, by which `cells` finds its plan; 0 goes before all cells. Other policies ignore it.
    pub owner: u32,
}

impl Default for ClientParams {
    fn default() -> Self {
        ClientParams {
            weight: 1,
            priority: 0,
            deadline_ns: 0,
            period_ns: 0,
            reservation_per_s: 0,
            limit_per_s: 0,
            burst: 0,
            parent: None,
            owner: NOBODY,
        }
    }
}

impl ClientParams {
    /// Makes parameters with the given weight and defaults elsewhere.
    pub fn weighted(weight: u32) -> Self {
        ClientParams { weight, ..ClientParams::default() }
    }

    /// Makes parameters with the given urgency and defaults elsewhere.
    pub fn urgent(priority: u8) -> Self {
        ClientParams { priority, ..ClientParams::default() }
    }

    /// Hangs the client under a node of a tree policy.
    pub fn under(self, node: NodeIndex) -> Self {
        ClientParams { parent: Some(node), ..self }
    }
}

/// When a core policy can next decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// `schedule` would choose a client at once.
    Now,
    /// Clients wait, but none may be served before this time in nanoseconds.
    At(u64),
    /// No client is ready.
    Never,
}

impl Readiness {
    /// Returns the earlier of two answers.
    pub fn earlier(self, other: Readiness) -> Readiness {
        match (self, other) {
            (Readiness::Now, _) | (_, Readiness::Now) => Readiness::Now,
            (Readiness::At(a), Readiness::At(b)) => Readiness::At(a.min(b)),
            (Readiness::Never, answer) | (answer, Readiness::Never) => answer,
        }
    }
}

/// How long a client that is served stays entitled while nothing changes but its own consumption and the time: until the first of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grace {
    /// How much more it may be charged, in the policy's metric.
    pub amount: u64,
    /// The last time at which it is entitled, ns.
    pub until_ns: u64,
}

impl Grace {
    /// It is not entitled now, or the policy cannot tell for how long it is.
    pub const NONE: Grace = Grace { amount: 0, until_ns: 0 };
    /// Without end: no other client wants anything.
    pub const FOR_EVER: Grace = Grace { amount: u64::MAX, until_ns: u64::MAX };

    /// Returns a grace of this amount, for any time.
    pub fn of_amount(amount: u64) -> Grace {
        Grace { amount, ..Grace::FOR_EVER }
    }

    /// Returns a grace until a point in time, for any amount.
    pub fn until(until_ns: u64) -> Grace {
        Grace { until_ns, ..Grace::FOR_EVER }
    }

    /// Returns what both allow.
    pub fn and(self, other: Grace) -> Grace {
        Grace { amount: self.amount.min(other.amount), until_ns: self.until_ns.min(other.until_ns) }
    }
}

/// Answer to `load_share`: the core for requests with an affinity label, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Core whose queue takes the requests.
    pub core: usize,
    /// Microseconds for which the mapping may be kept without asking again; `u64::MAX` = for ever.
    pub lifetime_us: u64,
}

/// The facts about a core with which the engine asks for a placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct CoreLoad {
    /// The core.
    pub core: usize,
    /// Clients (queues, threads) bound to it.
    pub clients: u32,
    /// Clients with pending requests.
    pub ready: u32,
    /// Share of the last window in which the core was not idle, in thousandths.
    pub busy_permille: u32,
}

/// The figures of a client in a core's policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ClientStatistics {
    /// Consumption per metric, indexed by `Metric as usize`; saturates.
    pub used: [u64; Metric::COUNT],
    /// Times the client was chosen.
    pub chosen: u64,
    /// Total time from ready to chosen, in nanoseconds.
    pub wait_ns_total: u64,
    /// Longest time from ready to chosen, in nanoseconds.
    pub wait_ns_max: u64,
    /// The client is in the ready set.
    pub ready: bool,
    /// The client is suspended.
    pub suspended: bool,
}

impl ClientStatistics {
    /// Returns the consumption in one metric.
    pub fn used(&self, metric: Metric) -> u64 {
        self.used.get(metric as usize).copied().unwrap_or(0)
    }
}

/// Why a policy refused; nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PolicyError {
    /// No such client: add it first.
    UnknownClient,
    /// The client exists: update it, or remove it first.
    DuplicateClient,
    /// The index is [`CLIENTS_MAX`] or more: use small dense numbers.
    IndexTooLarge,
    /// A parameter is beyond the policy's promises: correct it.
    InvalidParams,
    /// The promises already made leave no room: ask for a smaller reservation.
    Overcommitted,
    /// Memory is short: later, or with fewer clients.
    NoMemory,
    /// No such node: add it first.
    UnknownNode,
    /// The node exists, or still has clients or nodes under it: remove those first.
    NodeBusy,
    /// The tree would become deeper than its limit: hang the node higher.
    TooDeep,
    /// The policy has no nodes: use a tree.
    NotATree,
    /// No policy of the list has this name: another version wrote it.
    NoSuchPolicy,
}

impl core::fmt::Display for PolicyError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            PolicyError::UnknownClient => "no such client",
            PolicyError::DuplicateClient => "the client exists already",
            PolicyError::IndexTooLarge => "the index of the client or node is too large",
            PolicyError::InvalidParams => "a parameter is outside what the policy can promise",
            PolicyError::Overcommitted => "the promises already made leave no room for this one",
            PolicyError::NoMemory => "out of memory",
            PolicyError::UnknownNode => "no such node",
            PolicyError::NodeBusy => "the node exists already or is not empty",
            PolicyError::TooDeep => "the tree would become too deep",
            PolicyError::NotATree => "the policy has no nodes",
            PolicyError::NoSuchPolicy => "no policy has this name",
        })
    }
}

impl core::error::Error for PolicyError {}

/// A policy with its parameters, shared by all cores (`init` of Table III is the constructor).
// recursion: at most DEPTH_MAX + 1, because trees within trees are refused beyond that when they are built
pub trait Policy: Send + Sync {
    /// Returns the name used in machine files.
    fn name(&self) -> &'static str;

    /// Makes the state of one core (`init_core`). Allocates.
    fn init_core(&self, core: usize) -> Box<dyn CorePolicy>;

    /// Chooses the core for requests with an affinity label (0 = no preference) of an activity, and how long to keep the choice.
    ///
    /// `cores` lists the cores the resource may use; the answer is one of them, or core 0 if the list is empty.
    fn load_share(&self, affinity: u64, client_activity: u32, cores: &[CoreLoad]) -> Placement {
        crate::placement::least_clients(affinity, client_activity, cores)
    }
}

impl Policy for Arc<dyn Policy> {
    fn name(&self) -> &'static str {
        (**self).name()
    }

    fn init_core(&self, core: usize) -> Box<dyn CorePolicy> {
        (**self).init_core(core)
    }

    fn load_share(&self, affinity: u64, client_activity: u32, cores: &[CoreLoad]) -> Placement {
        (**self).load_share(affinity, client_activity, cores)
    }
}

/// The state of a policy on one core; called in the context of that core only.
// recursion: at most DEPTH_MAX + 1, because trees within trees are refused beyond that when they are built
pub trait CorePolicy: Send {
    /// Registers a request queue; it starts idle. Allocates.
    ///
    /// # Errors
    /// `DuplicateClient`, `IndexTooLarge`, `InvalidParams`, `Overcommitted`, `NoMemory`; with a tree also `UnknownNode`.
    fn add_client(&mut self, client: ClientIndex, params: &ClientParams, now_ns: u64) -> Result<(), PolicyError>;

    /// Changes the parameters of a client; past consumption stays charged. A tree refuses a change of `parent`.
    ///
    /// # Errors
    /// `UnknownClient`, `InvalidParams`, `Overcommitted`.
    fn update_client(&mut self, client: ClientIndex, params: &ClientParams, now_ns: u64) -> Result<(), PolicyError>;

    /// Unregisters a client in any state; the index is free afterwards.
    ///
    /// # Errors
    /// `UnknownClient`.
    fn remove_client(&mut self, client: ClientIndex, now_ns: u64) -> Result<(), PolicyError>;

    /// Chooses a ready client and takes it out of the ready set until `client_ready` is called for it.
    fn schedule(&mut self, now_ns: u64) -> Option<ClientIndex>;

    /// Tells that a client has pending requests; ends a suspension. Repeating it changes nothing.
    fn client_ready(&mut self, client: ClientIndex, now_ns: u64);

    /// Tells that a client must not be served; its requests wait. Repeating it changes nothing.
    fn client_suspended(&mut self, client: ClientIndex, now_ns: u64);

    /// Tells that a ready client has no pending requests after all, because they were cancelled. Otherwise nothing changes.
    fn client_idle(&mut self, client: ClientIndex, now_ns: u64);

    /// Says when `schedule` can next choose. The answer may be too early (`schedule` then returns `None` and the next
    /// answer is exact), never too late.
    fn poll_ready(&self, now_ns: u64) -> Readiness;

    /// Charges consumption to a client. Records of other metrics than the policy's own only enter the statistics.
    fn resource_record(&mut self, client: ClientIndex, record: Record, now_ns: u64);

    /// Tells how much a client got on other cores since the last such call; it does not enter the statistics.
    /// Policies that keep their promise for each core alone do nothing.
    fn record_elsewhere(&mut self, _client: ClientIndex, _record: Record, _now_ns: u64) {}

    /// Returns the figures of a client, or `None` for an unknown one.
    fn client_statistics(&self, client: ClientIndex) -> Option<ClientStatistics>;

    /// Says whether the client may be served at once (inline, without `schedule`) without breaking a promise to others.
    /// The service must still be charged with `resource_record`.
    fn entitled(&self, client: ClientIndex, now_ns: u64) -> bool;

    /// Says for how long `entitled` stays true, so that a timer is armed once for its end. The answer may be too short (it is asked again
    /// then), never too long. A policy that says nothing is asked again and again.
    fn grace(&self, _client: ClientIndex, _now_ns: u64) -> Grace {
        Grace::NONE
    }

    /// Says until when whoever is served may go on without another look, ns; a time that is not after `now_ns` says that it must stop now, whoever
    /// waits. Only `cells` ever says so.
    fn tenure(&self, _client: ClientIndex, _now_ns: u64) -> u64 {
        u64::MAX
    }

    /// Says whether the core is kept from all but one client, so that more work is better brought elsewhere. Only `cells` ever says so.
    fn is_held(&self, _now_ns: u64) -> bool {
        false
    }

    /// Hands over a table of cells that holds from its time on. Allocates nothing; only `cells`, and a tree with it at the root, takes it.
    fn set_cells(&mut self, _epoch: &Arc<Epoch>) {}

    /// Adds an inner node under `params.parent` (tree only). Its children are ordered by `children`, or by the tree's default. Allocates.
    ///
    /// # Errors
    /// `NotATree`, `NodeBusy`, `UnknownNode`, `IndexTooLarge`, `TooDeep`, `NoMemory`, and those of the parent's policy.
    fn add_node(
        &mut self,
        _node: NodeIndex,
        _params: &ClientParams,
        _children: Option<&dyn Policy>,
        _now_ns: u64,
    ) -> Result<(), PolicyError> {
        Err(PolicyError::NotATree)
    }

    /// Changes the parameters of a node, for example the weight of an activity (tree only).
    ///
    /// # Errors
    /// `NotATree`, `UnknownNode`, and those of the parent's policy.
    fn update_node(&mut self, _node: NodeIndex, _params: &ClientParams, _now_ns: u64) -> Result<(), PolicyError> {
        Err(PolicyError::NotATree)
    }

    /// Removes an empty node (tree only).
    ///
    /// # Errors
    /// `NotATree`, `UnknownNode`, `NodeBusy`.
    fn remove_node(&mut self, _node: NodeIndex, _now_ns: u64) -> Result<(), PolicyError> {
        Err(PolicyError::NotATree)
    }

    /// Charges a node and the nodes above it for consumption that no single client caused (tree only; elsewhere nothing happens).
    fn node_record(&mut self, _node: NodeIndex, _record: Record, _now_ns: u64) {}

    /// Tells how much a node's clients got on other cores (tree only): `record_elsewhere` at the node above.
    fn node_elsewhere(&mut self, _node: NodeIndex, _record: Record, _now_ns: u64) {}

    /// Returns the figures of a node, or `None` (tree only).
    fn node_statistics(&self, _node: NodeIndex) -> Option<ClientStatistics> {
        None
    }
}
