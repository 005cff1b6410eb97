//! Policies as data: what a machine file says, and the policy it stands for.
use crate::policy::{ClientParams, NodeIndex, Policy, PolicyError};
use crate::tree::{DEPTH_MAX, StaticNode, Tree};
use crate::{
    earliest_deadline, reservation, round_robin, strict_priority, token_bucket, weighted_fair, worst_case_fair,
};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Any policy of this crate with its parameters.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
// recursion: at most DEPTH_MAX + 1, because only the machine file of the owner makes one
pub enum PolicyConfig {
    /// [`weighted_fair`].
    WeightedFair(weighted_fair::Params),
    /// [`worst_case_fair`].
    WorstCaseFair(worst_case_fair::Params),
    /// [`round_robin`].
    RoundRobin(round_robin::Params),
    /// [`strict_priority`].
    StrictPriority(strict_priority::Params),
    /// [`earliest_deadline`].
    EarliestDeadline(earliest_deadline::Params),
    /// [`token_bucket`].
    TokenBucket(token_bucket::Params),
    /// [`reservation`].
    Reservation(reservation::Params),
    /// [`crate::tree`].
    Tree {
        /// Policy of the root.
        root: Box<PolicyConfig>,
        /// Policy of added nodes that do not name their own.
        default: Box<PolicyConfig>,
        /// Nodes that exist from the start, parents first.
        nodes: Vec<NodeConfig>,
    },
}

/// A node of a tree that exists from the start.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct NodeConfig {
    /// Its index, not 0.
    pub node: NodeIndex,
    /// Its place (`parent`) and parameters there.
    pub params: ClientParams,
    /// Policy of its children; `None` = the tree's default.
    pub children: Option<Box<PolicyConfig>>,
}

impl Default for PolicyConfig {
    fn default() -> Self {
        PolicyConfig::WeightedFair(weighted_fair::Params::default())
    }
}

/// Makes the policy a configuration stands for.
///
/// # Errors
/// Those of [`Tree::new`], and `TooDeep` for trees within trees beyond [`DEPTH_MAX`]; flat policies are always made.
pub fn build(config: &PolicyConfig) -> Result<Box<dyn Policy>, PolicyError> {
    build_at(config, 0)
}

// recursion: at most DEPTH_MAX + 1, because deeper configurations are refused
fn build_at(config: &PolicyConfig, depth: usize) -> Result<Box<dyn Policy>, PolicyError> {
    if depth > DEPTH_MAX {
        return Err(PolicyError::TooDeep);
    }
    Ok(match config {
        PolicyConfig::WeightedFair(params) => Box::new(weighted_fair::policy(*params)),
        PolicyConfig::WorstCaseFair(params) => Box::new(worst_case_fair::policy(*params)),
        PolicyConfig::RoundRobin(params) => Box::new(round_robin::policy(*params)),
        PolicyConfig::StrictPriority(params) => Box::new(strict_priority::policy(*params)),
        PolicyConfig::EarliestDeadline(params) => Box::new(earliest_deadline::policy(*params)),
        PolicyConfig::TokenBucket(params) => Box::new(token_bucket::policy(*params)),
        PolicyConfig::Reservation(params) => Box::new(reservation::policy(*params)),
        PolicyConfig::Tree { root, default, nodes } => {
            let nodes = nodes.iter().map(|node| build_node(node, depth + 1)).collect::<Result<_, _>>()?;
            let default = build_at(default, depth + 1)?.into();
            Box::new(Tree::new(build_at(root, depth + 1)?, default, nodes)?)
        }
    })
}

fn build_node(config: &NodeConfig, depth: usize) -> Result<StaticNode, PolicyError> {
    let build_children = |children: &PolicyConfig| build_at(children, depth);
    let children = config.children.as_deref().map(build_children).transpose()?;
    Ok(StaticNode { node: config.node, params: config.params, children })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::ClientParams;
    use alloc::vec;

    fn nested(depth: usize) -> PolicyConfig {
        (0..depth).fold(PolicyConfig::default(), |inner, _| PolicyConfig::Tree {
            root: Box::new(PolicyConfig::default()),
            default: Box::new(inner),
            nodes: vec![],
        })
    }

    #[test]
    fn trees_within_trees_are_built_up_to_a_depth() {
        assert_eq!(build(&nested(DEPTH_MAX)).map(|policy| policy.name()).ok(), Some("tree"));
        assert_eq!(build(&nested(DEPTH_MAX + 1)).err(), Some(PolicyError::TooDeep));
    }

    #[test]
    fn a_node_under_an_unknown_one_is_refused_when_the_policy_is_made() {
        let orphan = NodeConfig { node: 1, params: ClientParams::default().under(7), children: None };
        let config = PolicyConfig::Tree {
            root: Box::new(PolicyConfig::default()),
            default: Box::new(PolicyConfig::default()),
            nodes: vec![orphan],
        };
        assert_eq!(build(&config).err(), Some(PolicyError::UnknownNode));
    }

    #[test]
    fn every_configuration_makes_the_policy_it_names() {
        let all = [
            (PolicyConfig::WeightedFair(Default::default()), "weighted-fair"),
            (PolicyConfig::WorstCaseFair(Default::default()), "worst-case-fair"),
            (PolicyConfig::RoundRobin(Default::default()), "round-robin"),
            (PolicyConfig::StrictPriority(Default::default()), "strict-priority"),
            (PolicyConfig::EarliestDeadline(Default::default()), "earliest-deadline"),
            (PolicyConfig::TokenBucket(Default::default()), "token-bucket"),
            (PolicyConfig::Reservation(Default::default()), "reservation"),
            (nested(1), "tree"),
        ];
        for (config, name) in all {
            assert_eq!(build(&config).unwrap().name(), name);
        }
    }
}
