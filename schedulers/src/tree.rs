//! A tree of policies: every node orders its children, which are clients or further nodes, by a policy of its own.
//!
//! Any policy nests under any other (the event scheduling tree; with weighted fair queueing at every node it is the hierarchical
//! start-time fair queueing of Goyal, Guo and Vin: "A Hierarchical CPU Scheduler for Multimedia Operating Systems", 1996). The CPU of a
//! machine for several tenants is shared this way: activities by weight at the root, the queues of one activity by turns below.
//! ```text
//!   root (weighted fair)     node 1: weight 50     node 2: weight 33     node 3: weight 17
//!                              queues, threads       queues, threads       queues, threads   (round robin)
//! ```
//! * A child is ready at its parent while something below it is. A record charges the client and every node above it, so
//!   a node holds its share of *all* consumption below it, whichever client spent it.
//! * A node that was chosen is offered to its parent again at the next decision, after its charges: one heap operation, not two.
//! * A node that waits (a token bucket below) sleeps until its time and costs nothing meanwhile.
//!
//! **Bound**: at each node the bound of its policy, its children taken as clients. **Work conserving**: if all policies are.
//! **Cost**: one choice and one charge per level; at most [`DEPTH_MAX`] levels of nodes.
use crate::policy::{ClientParams, CoreLoad, CorePolicy, NodeIndex, Placement, Policy, PolicyError};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

mod node;
mod state;

pub use state::TreeCore;

/// Most nodes on the way from the root to a client, the root included.
pub const DEPTH_MAX: usize = 8;

/// The root, which always exists.
pub const ROOT: NodeIndex = 0;

/// A node that exists from the start.
pub struct StaticNode {
    /// Its index, not 0.
    pub node: NodeIndex,
    /// Its place (`parent`) and parameters there.
    pub params: ClientParams,
    /// Policy of its children; `None` = the tree's default.
    pub children: Option<Box<dyn Policy>>,
}

/// A tree policy.
pub struct Tree {
    root: Box<dyn Policy>,
    default: Arc<dyn Policy>,
    nodes: Vec<StaticNode>,
}

impl Tree {
    /// Makes a tree whose root is ordered by `root`, and added nodes by `default` unless they name their own policy.
    ///
    /// # Errors
    /// Those of `add_node` for one of `nodes`; parents come before their children.
    pub fn new(root: Box<dyn Policy>, default: Arc<dyn Policy>, nodes: Vec<StaticNode>) -> Result<Self, PolicyError> {
        let tree = Tree { root, default, nodes };
        tree.grow(&mut tree.bare_core(0)?)?;
        Ok(tree)
    }

    fn bare_core(&self, core: usize) -> Result<TreeCore, PolicyError> {
        TreeCore::new(core, &*self.root, self.default.clone())
    }

    fn grow(&self, bare: &mut TreeCore) -> Result<(), PolicyError> {
        self.nodes.iter().try_for_each(|node| bare.add_node(node.node, &node.params, node.children.as_deref(), 0))
    }
}

impl Policy for Tree {
    fn name(&self) -> &'static str {
        "tree"
    }

    /// Makes the state of one core. The nodes were tried in `new`, so that only want of memory can keep one from being
    /// added now; `add_client` under it then answers `UnknownNode`.
    fn init_core(&self, core: usize) -> Box<dyn CorePolicy> {
        let mut made = TreeCore::bare(core, self.default.clone());
        if made.plant(&*self.root).is_ok() {
            let _ = self.grow(&mut made);
        }
        Box::new(made)
    }

    // recursion: at most DEPTH_MAX + 1, because trees within trees are refused beyond that
    fn load_share(&self, affinity: u64, client_activity: u32, cores: &[CoreLoad]) -> Placement {
        self.root.load_share(affinity, client_activity, cores)
    }
}

#[cfg(test)]
mod tests;
