//! Names of a directory, by name and in the order in which they were made.
//!
//! Every entry keeps a position for life, so that reading a directory goes on at the right place while names come and go.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use gyre_interface::files::{DirectoryEntry, Name, NodeId, NodeKind};

/// Positions 0 and 1 are "." and "..".
const FIRST: u64 = 2;

#[derive(Clone, Copy)]
pub(crate) struct Entry {
    pub node: NodeId,
    pub kind: NodeKind,
    position: u64,
}

pub(crate) struct Directory {
    pub parent: NodeId,
    names: BTreeMap<Name, Entry>,
    order: BTreeMap<u64, Name>,
    next: u64,
}

impl Directory {
    pub fn new(parent: NodeId) -> Directory {
        Directory { parent, names: BTreeMap::new(), order: BTreeMap::new(), next: FIRST }
    }

    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    pub fn find(&self, name: &[u8]) -> Option<Entry> {
        self.names.get(name).copied()
    }

    /// Adds or replaces a name.
    pub fn insert(&mut self, name: Name, node: NodeId, kind: NodeKind) {
        self.remove(&name);
        let position = self.next;
        self.next = self.next.saturating_add(1);
        self.order.insert(position, name.clone());
        let entry = Entry { node, kind, position };
        self.names.insert(name, entry);
    }

    pub fn remove(&mut self, name: &[u8]) -> Option<Entry> {
        let entry = self.names.remove(name)?;
        self.order.remove(&entry.position);
        Some(entry)
    }

    /// Entries from `from` on, at least one and about `bytes_max` of names; `this` is the directory's own node.
    pub fn read(&self, this: NodeId, from: u64, bytes_max: usize) -> Vec<DirectoryEntry> {
        let dots = [(0, &b"."[..], this), (1, &b".."[..], self.parent)];
        let dots = dots.into_iter().filter(|dot| dot.0 >= from);
        let dots = dots.map(|(position, name, node)| DirectoryEntry {
            name: name.to_vec(),
            number: node.0,
            kind: NodeKind::Directory,
            next: position.saturating_add(1),
        });
        let named = self.order.range(from.max(FIRST)..);
        let named = named.filter_map(|(position, name)| {
            let entry = self.names.get(name)?;
            Some(DirectoryEntry {
                name: name.clone(),
                number: entry.node.0,
                kind: entry.kind,
                next: position.saturating_add(1),
            })
        });
        let mut bytes = 0_usize;
        let fits = |entry: &DirectoryEntry| {
            let before = bytes;
            bytes = bytes.saturating_add(entry.name.len()).saturating_add(24);
            before < bytes_max.max(1)
        };
        dots.chain(named).take_while(fits).collect()
    }
}
