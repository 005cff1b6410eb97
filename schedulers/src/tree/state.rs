//! One core's tree: follows choices down, and charges and readiness up.
//!
//! [`TreeCore`] is the [`CorePolicy`] of a tree. `schedule` descends from the root, at each node by that node's
//! policy, to a client (at most [`DEPTH_MAX`] levels). A charge and a change of readiness go from the client up to
//! the root, as long as something changes.
//!
//! States of a node at its parent: idle, ready, chosen (offered again at the next decision, after its charges),
//! waiting for a time. A node that was removed or is unknown ends the walk; nothing here recurses.
use super::node::{Child, Children, Node, Place, State};
use super::{DEPTH_MAX, ROOT};
use crate::dense::Dense;
use crate::heap::Heap;
use crate::multiplexer::Epoch;
use crate::policy::{
    ClientIndex, ClientParams, ClientStatistics, CorePolicy, Grace, NodeIndex, Policy, PolicyError, Readiness, Record,
};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Parameters as the policy of the node sees them: `parent` named the node and means nothing inside it, be it a tree again.
fn inside(params: &ClientParams) -> ClientParams {
    ClientParams { parent: None, ..*params }
}

/// The outcome of following choices from the root down.
enum Descent {
    Found(ClientIndex),
    NothingReady,
    /// A node was chosen that had nothing to offer after all.
    DeadEnd,
}

/// One core's state of a tree policy.
pub struct TreeCore {
    core: usize,
    default: Arc<dyn Policy>,
    nodes: Dense<Node>,
    clients: Dense<Place>,
    /// Resting nodes that can be served later, by when.
    sleeping: Heap<u64>,
    /// Nodes chosen at the last decision, from the top.
    path: Vec<NodeIndex>,
}

impl TreeCore {
    pub(super) fn bare(core: usize, default: Arc<dyn Policy>) -> Self {
        TreeCore {
            core,
            default,
            nodes: Dense::default(),
            clients: Dense::default(),
            sleeping: Heap::default(),
            path: Vec::new(),
        }
    }

    pub(super) fn new(core: usize, root: &dyn Policy, default: Arc<dyn Policy>) -> Result<Self, PolicyError> {
        let mut bare = TreeCore::bare(core, default);
        bare.plant(root)?;
        Ok(bare)
    }

    // recursion: at most DEPTH_MAX + 1, because trees within trees are refused beyond that
    pub(super) fn plant(&mut self, root: &dyn Policy) -> Result<(), PolicyError> {
        self.path.try_reserve(DEPTH_MAX).map_err(|_| PolicyError::NoMemory)?;
        let policy = root.init_core(self.core);
        self.insert_node(ROOT, policy, None, 0)
    }

    fn insert_node(
        &mut self,
        node: NodeIndex,
        policy: Box<dyn CorePolicy>,
        place: Option<Place>,
        depth: usize,
    ) -> Result<(), PolicyError> {
        self.sleeping.reserve(node)?;
        let children = Children::default();
        self.nodes.insert(node, Node { policy, children, state: State::Resting, place, depth })
    }

    /// Registers a child with a node's policy and returns its place.
    fn hang(&mut self, child: Child, params: &ClientParams, now_ns: u64) -> Result<Place, PolicyError> {
        let node = params.parent.unwrap_or(ROOT);
        let parent = self.nodes.get_mut(node).ok_or(PolicyError::UnknownNode)?;
        let local = parent.children.reserve()?;
        parent.policy.add_client(local, &inside(params), now_ns)?;
        parent.children.put(child);
        Ok(Place { node, local })
    }

    fn unhang(&mut self, place: Place, now_ns: u64) {
        if let Some(parent) = self.nodes.get_mut(place.node) {
            // Known to the policy as long as it hangs here, so this cannot be refused.
            let _ = parent.policy.remove_client(place.local, now_ns);
            parent.children.remove(place.local);
        }
        self.refresh(place.node, now_ns);
    }

    /// Changes parameters in place.
    fn reparametrize(&mut self, place: Place, params: &ClientParams, now_ns: u64) -> Result<(), PolicyError> {
        if params.parent.unwrap_or(ROOT) != place.node {
            return Err(PolicyError::InvalidParams);
        }
        let parent = self.nodes.get_mut(place.node).ok_or(PolicyError::UnknownNode)?;
        parent.policy.update_client(place.local, &inside(params), now_ns)?;
        self.refresh(place.node, now_ns);
        Ok(())
    }

    fn node_place(&self, node: NodeIndex) -> Result<Place, PolicyError> {
        let known = self.nodes.get(node).ok_or(PolicyError::UnknownNode)?;
        known.place.ok_or(PolicyError::InvalidParams)
    }

    /// Passes an event of a client to the policy it hangs under, then lets the nodes above follow.
    #[inline]
    fn pass(&mut self, client: ClientIndex, now_ns: u64, event: impl FnOnce(&mut dyn CorePolicy, ClientIndex)) {
        let Some(&place) = self.clients.get(client) else {
            return;
        };
        let Some(node) = self.nodes.get_mut(place.node) else {
            return;
        };
        event(&mut *node.policy, place.local);
        if node.state != State::Chosen {
            self.refresh(place.node, now_ns);
        }
    }

    /// Makes a node's standing at its parent follow its policy's answer, and so on upwards while something changes.
    fn refresh(&mut self, mut node: NodeIndex, now_ns: u64) {
        while let Some(known) = self.nodes.get_mut(node) {
            let Some(place) = known.place else { return };
            if known.state == State::Chosen {
                return;
            }
            let readiness = known.policy.poll_ready(now_ns);
            let before = core::mem::replace(&mut known.state, State::of(readiness));
            let after = known.state;
            if let Readiness::At(wake_at_ns) = readiness {
                // A time that has passed would wake it for ever.
                let wake_at_ns = wake_at_ns.max(now_ns.saturating_add(1));
                self.sleeping.insert(node, wake_at_ns);
            } else if before == State::Asleep {
                self.sleeping.remove(node);
            }
            if (before == State::Ready) == (after == State::Ready) {
                return;
            }
            let Some(parent) = self.nodes.get_mut(place.node) else {
                return;
            };
            match after {
                State::Ready => parent.policy.client_ready(place.local, now_ns),
                _ => parent.policy.client_idle(place.local, now_ns),
            }
            node = place.node;
        }
    }

    /// Offers to their parents the nodes whose time has come and those chosen at the last decision.
    fn settle(&mut self, now_ns: u64) {
        let is_due = |wake_at_ns| wake_at_ns <= now_ns;
        while let Some((_, node)) = self.sleeping.take_least_if(is_due) {
            self.refresh(node, now_ns);
        }
        while let Some(node) = self.path.pop() {
            if let Some(known) = self.nodes.get_mut(node) {
                known.state = State::Resting;
            }
            self.refresh(node, now_ns);
        }
    }

    fn descend(&mut self, now_ns: u64) -> Descent {
        let mut at = ROOT;
        while let Some(node) = self.nodes.get_mut(at) {
            let chosen = node.policy.schedule(now_ns).and_then(|local| node.children.get(local));
            match chosen {
                Some(Child::Client(client)) => return Descent::Found(client),
                Some(Child::Node(below)) => at = below,
                None if at == ROOT => return Descent::NothingReady,
                None => return Descent::DeadEnd,
            }
            if let Some(below) = self.nodes.get_mut(at) {
                below.state = State::Chosen;
                self.path.push(at);
            }
        }
        Descent::NothingReady
    }

    /// Charges a place and every node above it.
    #[inline]
    fn charge(&mut self, mut place: Place, record: Record, now_ns: u64) {
        while let Some(node) = self.nodes.get_mut(place.node) {
            node.policy.resource_record(place.local, record, now_ns);
            let Some(above) = node.place else { return };
            // One that was chosen follows at the next decision.
            if node.state != State::Chosen {
                self.refresh(place.node, now_ns);
            }
            place = above;
        }
    }
}

impl CorePolicy for TreeCore {
    fn add_client(&mut self, client: ClientIndex, params: &ClientParams, now_ns: u64) -> Result<(), PolicyError> {
        self.clients.insert(client, Place { node: ROOT, local: 0 })?;
        match self.hang(Child::Client(client), params, now_ns) {
            Ok(found) => self.clients.get_mut(client).map(|place| *place = found).ok_or(PolicyError::NoMemory),
            Err(error) => {
                self.clients.remove(client);
                Err(error)
            }
        }
    }

    fn update_client(&mut self, client: ClientIndex, params: &ClientParams, now_ns: u64) -> Result<(), PolicyError> {
        let place = *self.clients.get(client).ok_or(PolicyError::UnknownClient)?;
        self.reparametrize(place, params, now_ns)
    }

    fn remove_client(&mut self, client: ClientIndex, now_ns: u64) -> Result<(), PolicyError> {
        let place = self.clients.remove(client).ok_or(PolicyError::UnknownClient)?;
        self.unhang(place, now_ns);
        Ok(())
    }

    fn schedule(&mut self, now_ns: u64) -> Option<ClientIndex> {
        self.settle(now_ns);
        // Every dead end puts a node to rest; the bound only matters if a policy contradicts itself.
        for _ in 0..=self.nodes.len() {
            match self.descend(now_ns) {
                Descent::Found(client) => return Some(client),
                Descent::NothingReady => return None,
                Descent::DeadEnd => self.settle(now_ns),
            }
        }
        None
    }

    // recursion: at most DEPTH_MAX + 1, because trees within trees are refused beyond that
    fn client_ready(&mut self, client: ClientIndex, now_ns: u64) {
        self.pass(client, now_ns, |policy, local| policy.client_ready(local, now_ns));
    }

    // recursion: at most DEPTH_MAX + 1, because trees within trees are refused beyond that
    fn client_suspended(&mut self, client: ClientIndex, now_ns: u64) {
        self.pass(client, now_ns, |policy, local| policy.client_suspended(local, now_ns));
    }

    // recursion: at most DEPTH_MAX + 1, because trees within trees are refused beyond that
    fn client_idle(&mut self, client: ClientIndex, now_ns: u64) {
        self.pass(client, now_ns, |policy, local| policy.client_idle(local, now_ns));
    }

    // recursion: at most DEPTH_MAX + 1, because trees within trees are refused beyond that
    fn poll_ready(&self, now_ns: u64) -> Readiness {
        let policy_of = |node| self.nodes.get(node).map(|known: &Node| known.policy.poll_ready(now_ns));
        let root = policy_of(ROOT).unwrap_or(Readiness::Never);
        // Nothing is earlier than that.
        if root == Readiness::Now {
            return root;
        }
        let sleeping = match self.sleeping.least() {
            Some(wake_at_ns) if wake_at_ns > now_ns => Readiness::At(wake_at_ns),
            Some(_) => Readiness::Now,
            None => Readiness::Never,
        };
        let chosen = self.path.iter().filter_map(|&node| policy_of(node));
        chosen.fold(root.earlier(sleeping), Readiness::earlier)
    }

    fn resource_record(&mut self, client: ClientIndex, record: Record, now_ns: u64) {
        if let Some(&place) = self.clients.get(client) {
            self.charge(place, record, now_ns);
        }
    }

    fn client_statistics(&self, client: ClientIndex) -> Option<ClientStatistics> {
        let place = self.clients.get(client)?;
        self.nodes.get(place.node)?.policy.client_statistics(place.local)
    }

    fn entitled(&self, client: ClientIndex, now_ns: u64) -> bool {
        let mut next = self.clients.get(client).copied();
        let mut is_entitled = next.is_some();
        while let (true, Some(place)) = (is_entitled, next) {
            let Some(node) = self.nodes.get(place.node) else {
                return false;
            };
            is_entitled = node.policy.entitled(place.local, now_ns);
            next = node.place;
        }
        is_entitled
    }

    fn grace(&self, client: ClientIndex, now_ns: u64) -> Grace {
        let mut next = self.clients.get(client).copied();
        let mut grace = if next.is_some() { Grace::FOR_EVER } else { Grace::NONE };
        while let Some(place) = next {
            let Some(node) = self.nodes.get(place.node) else {
                return Grace::NONE;
            };
            grace = grace.and(node.policy.grace(place.local, now_ns));
            next = node.place;
        }
        grace
    }

    /// The root's answer: `cells` stands nowhere else.
    fn tenure(&self, client: ClientIndex, now_ns: u64) -> u64 {
        let mut place = self.clients.get(client).copied();
        let top = loop {
            let Some(at) = place.filter(|at| at.node != ROOT) else { break place };
            place = self.nodes.get(at.node).and_then(|known| known.place);
        };
        match (top, self.nodes.get(ROOT)) {
            (Some(top), Some(root)) => root.policy.tenure(top.local, now_ns),
            _ => u64::MAX,
        }
    }

    fn is_held(&self, now_ns: u64) -> bool {
        self.nodes.get(ROOT).is_some_and(|root| root.policy.is_held(now_ns))
    }

    fn set_cells(&mut self, epoch: &Arc<Epoch>) {
        if let Some(root) = self.nodes.get_mut(ROOT) {
            root.policy.set_cells(epoch);
        }
    }

    // recursion: at most DEPTH_MAX + 1, because trees within trees are refused beyond that
    fn add_node(
        &mut self,
        node: NodeIndex,
        params: &ClientParams,
        children: Option<&dyn Policy>,
        now_ns: u64,
    ) -> Result<(), PolicyError> {
        if self.nodes.get(node).is_some() {
            return Err(PolicyError::NodeBusy);
        }
        let parent = self.nodes.get(params.parent.unwrap_or(ROOT)).ok_or(PolicyError::UnknownNode)?;
        let depth = parent.depth + 1;
        if depth >= DEPTH_MAX {
            return Err(PolicyError::TooDeep);
        }
        let policy = children.unwrap_or(&*self.default).init_core(self.core);
        self.insert_node(node, policy, None, depth)?;
        match self.hang(Child::Node(node), params, now_ns) {
            Ok(place) => self.nodes.get_mut(node).map(|known| known.place = Some(place)).ok_or(PolicyError::NoMemory),
            Err(error) => {
                self.nodes.remove(node);
                Err(error)
            }
        }
    }

    fn update_node(&mut self, node: NodeIndex, params: &ClientParams, now_ns: u64) -> Result<(), PolicyError> {
        self.reparametrize(self.node_place(node)?, params, now_ns)
    }

    fn remove_node(&mut self, node: NodeIndex, now_ns: u64) -> Result<(), PolicyError> {
        let place = self.node_place(node)?;
        if self.nodes.get(node).is_some_and(|known| !known.children.is_empty()) {
            return Err(PolicyError::NodeBusy);
        }
        self.nodes.remove(node);
        self.sleeping.remove(node);
        self.unhang(place, now_ns);
        Ok(())
    }

    fn node_record(&mut self, node: NodeIndex, record: Record, now_ns: u64) {
        if let Ok(place) = self.node_place(node) {
            self.charge(place, record, now_ns);
        }
    }

    fn node_elsewhere(&mut self, node: NodeIndex, record: Record, now_ns: u64) {
        if let Ok(place) = self.node_place(node)
            && let Some(above) = self.nodes.get_mut(place.node)
        {
            above.policy.record_elsewhere(place.local, record, now_ns);
        }
    }

    fn node_statistics(&self, node: NodeIndex) -> Option<ClientStatistics> {
        let place = self.node_place(node).ok()?;
        self.nodes.get(place.node)?.policy.client_statistics(place.local)
    }
}
