//! A file system in memory.
//!
//! Messages in: the requests of `interface::files`. Messages out: if memory is short, a file that grows
//! asks the memory resource for room ([`room`]).
//!
//! One lock guards the tree of an instance; instances are never shared between tenants, so tenants do not meet at it. Pages
//! are handed out by reference and are the same ones that mappings hold: a write changes them in place, as a shared mapping
//! would. Every page belongs to the activity whose request made it; names and nodes are charged by the kernel's heap.
//!
//! Left out: extended attributes, quotas per user, access times on reads (mounted as if with `noatime`).
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]
extern crate alloc;
#[cfg(test)]
extern crate std;

mod content;
mod directory;
mod near;
mod node;
mod room;
mod server;
mod tree;

#[cfg(test)]
mod tests;

pub use node::NODES;
pub use room::Memory;

use gyre_object::TenantLock;

/// The bounds of an instance.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Pages of contents.
    pub pages_max: u64,
    /// Nodes, the root included.
    pub nodes_max: u64,
}

/// Largest file: offsets stay far below the sign bit of `off_t`.
pub const FILE_BYTES_MAX: u64 = 1 << 40;
/// Names of one node, as ext2 has it.
pub const LINKS_MAX: u32 = 32_000;

/// One file system in memory.
pub struct Tmpfs {
    tree: TenantLock<tree::Tree>,
    /// Without it files may take all that their owner may have.
    memory: Option<Memory>,
}

impl Tmpfs {
    /// Makes an empty file system whose root has the permission bits `mode` and belongs to user and group 0.
    pub fn new(limits: Limits, mode: u16) -> Tmpfs {
        Tmpfs { tree: TenantLock::new(tree::Tree::new(limits, mode)), memory: None }
    }

    /// Lets its files leave some of this memory to others.
    pub fn within(self, memory: Memory) -> Tmpfs {
        Tmpfs { memory: Some(memory), ..self }
    }
}
