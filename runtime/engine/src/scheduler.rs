//! A policy on one core, with the nodes of activities that it knows.

use alloc::boxed::Box;
use alloc::vec::Vec;
use gyre_account::{Activities, ActivityId, ResourceId};
use gyre_schedulers::{ClientParams, CorePolicy, Metric, NodeIndex, Policy, PolicyError, Record};

/// No activity has a node here.
const NONE: u32 = u32::MAX;

/// The resource that a scheduler stands before; none for the CPU's.
pub(crate) type Gate = Option<ResourceId>;

/// A core's scheduler: of the CPU, or of a gate.
pub(crate) struct Scheduler {
    pub(crate) policy: Box<dyn CorePolicy>,
    gate: Gate,
    /// The metric that its policy counts.
    metric: Metric,
    /// The activity of each node, by slot.
    nodes: Vec<u32>,
    /// Those without a parent.
    roots: Vec<Root>,
    /// Nodes of aggregates.
    pub(crate) aggregates: crate::aggregate::Nodes,
}

/// A top-level activity.
pub(crate) struct Root {
    pub(crate) activity: ActivityId,
    /// Its use on other cores as far as this core has heard; nothing yet.
    elsewhere: Option<u64>,
}

/// Tells a scheduler the entitlements of activities.
pub(crate) trait Entitlements {
    /// Parameters of an activity among its siblings at a scheduler.
    fn of(&self, activity: ActivityId, gate: Gate) -> ClientParams;
    /// Returns the tree.
    fn activities(&self) -> &Activities;
}

/// Node 0 is the root.
fn node(activity: ActivityId) -> NodeIndex {
    activity.index() as NodeIndex + 1
}

impl Scheduler {
    pub(crate) fn new(policy: &dyn Policy, core: usize, gate: Gate, metric: Metric) -> Scheduler {
        Scheduler {
            policy: policy.init_core(core),
            gate,
            metric,
            nodes: Vec::new(),
            roots: Vec::new(),
            aggregates: crate::aggregate::Nodes::default(),
        }
    }

    /// Returns the resource that it stands before.
    pub(crate) fn gate(&self) -> Gate {
        self.gate
    }

    /// Returns the node of an activity that it knows.
    pub(crate) fn node_of(&self, activity: ActivityId) -> Option<NodeIndex> {
        self.has_node(activity).then(|| node(activity))
    }

    fn has_node(&self, activity: ActivityId) -> bool {
        self.nodes.get(activity.index()) == Some(&activity.0)
    }

    /// Makes the node of an activity, and those of all above it.
    // recursion: at most 9, because activities are no deeper (DEPTH_MAX)
    pub(crate) fn ensure_node(
        &mut self,
        activity: ActivityId,
        entitlements: &dyn Entitlements,
        now_ns: u64,
    ) -> Result<NodeIndex, PolicyError> {
        if self.has_node(activity) {
            return Ok(node(activity));
        }
        if !entitlements.activities().exists(activity) {
            return Err(PolicyError::UnknownNode);
        }
        if let Some(&old) = self.nodes.get(activity.index()).filter(|&&old| old != NONE) {
            self.remove_activity(ActivityId(old), now_ns);
        }
        let parent = match entitlements.activities().parent(activity) {
            Some(parent) => Some(self.ensure_node(parent, entitlements, now_ns)?),
            None => None,
        };
        if self.nodes.len() <= activity.index() {
            let missing = activity.index() + 1 - self.nodes.len();
            self.nodes.try_reserve(missing).map_err(|_| PolicyError::NoMemory)?;
            self.nodes.resize(activity.index() + 1, NONE);
        }
        if parent.is_none() {
            self.roots.try_reserve(1).map_err(|_| PolicyError::NoMemory)?;
        }
        let params = ClientParams { parent, ..entitlements.of(activity, self.gate) };
        self.policy.add_node(node(activity), &params, None, now_ns)?;
        if let Some(known) = self.nodes.get_mut(activity.index()) {
            *known = activity.0;
        }
        if parent.is_none() {
            self.roots.push(Root { activity, elsewhere: None });
        }
        Ok(node(activity))
    }

    /// Returns the top-level activities that have a node here.
    pub(crate) fn roots(&self) -> &[Root] {
        &self.roots
    }

    /// Returns the charges of a top-level activity and all below it here.
    pub(crate) fn used(&self, root: ActivityId) -> u64 {
        self.policy.node_statistics(node(root)).map_or(0, |statistics| statistics.used(self.metric))
    }

    /// Hears how much the top-level activity at `position` has used on other cores, and tells the policy what is new of it. Use
    /// from before it came here counts for nothing.
    pub(crate) fn learn_elsewhere(&mut self, position: usize, used: u64, now_ns: u64) {
        let Some(root) = self.roots.get_mut(position) else {
            return;
        };
        let known = root.elsewhere.replace(used).unwrap_or(used);
        // Less than before if a core began to count anew, under another policy.
        let amount = used.saturating_sub(known);
        if amount > 0 {
            self.policy.node_elsewhere(node(root.activity), Record { kind: self.metric, amount }, now_ns);
        }
    }

    /// Registers a queue below its activity.
    pub(crate) fn add_queue(
        &mut self,
        queue: u32,
        activity: ActivityId,
        params: ClientParams,
        entitlements: &dyn Entitlements,
        now_ns: u64,
    ) -> Result<(), PolicyError> {
        let node = self.ensure_node(activity, entitlements, now_ns)?;
        self.policy.add_client(queue, &params.under(node), now_ns)
    }

    /// Changes a queue's parameters; a policy that cannot keep them keeps the old ones.
    pub(crate) fn update_queue(&mut self, queue: u32, activity: ActivityId, params: &ClientParams, now_ns: u64) {
        let _ = self.policy.update_client(queue, &params.under(node(activity)), now_ns);
    }

    /// Changes what an activity is entitled to. One that it does not know yet is asked about when its first queue comes.
    ///
    /// # Errors
    /// That of the policy, which keeps the old promise then.
    pub(crate) fn update_activity(
        &mut self,
        activity: ActivityId,
        params: &ClientParams,
        parent: Option<ActivityId>,
        now_ns: u64,
    ) -> Result<(), PolicyError> {
        if !self.has_node(activity) {
            return Ok(());
        }
        let params = ClientParams { parent: parent.map(node), ..*params };
        self.policy.update_node(node(activity), &params, now_ns)
    }

    /// Forgets an activity without queues and children.
    pub(crate) fn remove_activity(&mut self, activity: ActivityId, now_ns: u64) {
        self.remove_aggregates(activity, now_ns);
        if self.has_node(activity)
            && self.policy.remove_node(node(activity), now_ns).is_ok()
            && let Some(known) = self.nodes.get_mut(activity.index())
        {
            *known = NONE;
            self.roots.retain(|root| root.activity != activity);
        }
    }

    /// Charges an activity for what no queue of this scheduler caused.
    pub(crate) fn charge_activity(
        &mut self,
        activity: ActivityId,
        record: Record,
        entitlements: &dyn Entitlements,
        now_ns: u64,
    ) {
        if let Ok(node) = self.ensure_node(activity, entitlements, now_ns) {
            self.policy.node_record(node, record, now_ns);
        }
    }
}
