//! The contents of a node.

use crate::content::Content;
use crate::directory::Directory;
use alloc::vec::Vec;
use gyre_interface::files::{Attributes, NewNode, NodeId, NodeKind};
use gyre_object::{Census, Counter};

gyre_object::per_instance! {
    /// Nodes of all memory file systems (V12).
    pub static NODES: Census = Census::of::<Node>();
}

/// The part of a node that depends on its kind.
pub(crate) enum Body {
    File(Content),
    Directory(Directory),
    Link(Vec<u8>),
    /// Devices, named pipes and names of sockets: nothing but attributes.
    Special,
}

pub(crate) struct Node {
    pub attributes: Attributes,
    pub body: Body,
    /// How many `open` are not closed yet: the node lives on without a name.
    pub opens: u32,
    /// Made without a name, and none was given to it yet.
    pub nameless: bool,
    _counter: Counter,
}

impl Node {
    pub fn new(id: NodeId, parent: NodeId, new: NewNode) -> Node {
        let now = gyre_machine::wall_clock_ns();
        let size_bytes = new.target.len() as u64;
        let body = match new.kind {
            NodeKind::File => Body::File(Content::default()),
            NodeKind::Directory => Body::Directory(Directory::new(parent)),
            NodeKind::SymbolicLink => Body::Link(new.target),
            NodeKind::CharacterDevice | NodeKind::BlockDevice | NodeKind::Pipe | NodeKind::Socket => Body::Special,
        };
        let attributes = Attributes {
            node: id,
            // Numbers are not used twice.
            number: id.0,
            kind: new.kind,
            mode: new.mode & 0o7777,
            links: if new.kind == NodeKind::Directory { 2 } else { 1 },
            user: new.user,
            group: new.group,
            size_bytes,
            blocks_512: 0,
            device: new.device,
            accessed_ns: now,
            modified_ns: now,
            changed_ns: now,
            losses: 0,
        };
        Node { attributes, body, opens: 0, nameless: false, _counter: NODES.count() }
    }

    /// Notes that contents and node changed now.
    pub fn touch_contents(&mut self) {
        let now = gyre_machine::wall_clock_ns();
        self.attributes.modified_ns = now;
        self.attributes.changed_ns = now;
    }

    /// Counts one more name; the caller has checked that there are fewer than the most.
    pub fn add_link(&mut self) {
        self.attributes.links = self.attributes.links.saturating_add(1);
    }

    /// Notes that the node changed now.
    pub fn touch(&mut self) {
        self.attributes.changed_ns = gyre_machine::wall_clock_ns();
    }
}
