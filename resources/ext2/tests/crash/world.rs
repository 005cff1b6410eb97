//! The state of all nodes and names, and the part of it that a crash must keep.
//!
//! Every operation is told here before it is done, so that the machine may stop while it is done.

use super::cell::Cell;
use super::node::{Id, Node, Place};
use gyre_interface::files::NodeKind;
use std::collections::BTreeMap;

/// The root's number.
pub const ROOT: Id = 0;

/// The nodes and names.
#[derive(Clone)]
pub struct World {
    pub nodes: BTreeMap<Id, Node>,
    pub names: BTreeMap<Place, Cell<Option<Id>>>,
    block_bytes: usize,
}

impl World {
    /// Returns the root, on a disk with blocks of this size.
    pub fn new(block_bytes: usize) -> World {
        let root = Node::new(NodeKind::Directory, &[], block_bytes);
        World { nodes: BTreeMap::from([(ROOT, root)]), names: BTreeMap::new(), block_bytes }
    }

    /// Notes that a node is about to be made, without a name.
    pub fn make(&mut self, kind: NodeKind, target: &[u8]) -> Id {
        let id = self.nodes.len() as Id;
        self.nodes.insert(id, Node::new(kind, target, self.block_bytes));
        id
    }

    pub fn node(&mut self, id: Id) -> &mut Node {
        self.nodes.get_mut(&id).expect("nodes are kept")
    }

    fn name(&mut self, place: &Place) -> &mut Cell<Option<Id>> {
        self.names.entry(place.clone()).or_insert_with(|| Cell::new(None))
    }

    /// Returns the node that a name leads to now.
    pub fn at(&self, place: &Place) -> Option<Id> {
        self.names.get(place).and_then(|name| *name.now())
    }

    /// Returns the names that lead to a node now.
    pub fn places(&self, id: Id) -> Vec<Place> {
        self.existing(|found| found == id)
    }

    /// Returns the names that lead now to nodes of this choice.
    pub fn existing(&self, choice: impl Fn(Id) -> bool) -> Vec<Place> {
        let leads = |name: &Cell<Option<Id>>| name.now().is_some_and(&choice);
        self.names.iter().filter(|(_, name)| leads(name)).map(|(place, _)| place.clone()).collect()
    }

    /// Notes that a name is about to lead to a node.
    pub fn link(&mut self, place: &Place, id: Id) {
        self.name(place).set(Some(id));
        self.node(id).named = true;
    }

    /// Notes that a name is about to go.
    pub fn remove(&mut self, place: &Place) {
        self.break_promises(place);
        self.name(place).set(None);
    }

    fn break_promises(&mut self, place: &Place) {
        if let Some(id) = self.at(place) {
            self.node(id).promises.retain(|places| places.last() != Some(place));
        }
    }

    /// Notes that a node is about to have another name, which may lead to another node now.
    pub fn rename(&mut self, from: &Place, to: &Place) {
        let id = self.at(from).expect("it has the old name");
        self.break_promises(to);
        self.may_lead_on(id, from, to);
        self.name(to).set(Some(id));
        self.name(from).set(None);
        self.may_lose_a_name(id, [to, to]);
    }

    /// Notes that two names are about to exchange their nodes. By design a crash may leave the first node under both, and the second in
    /// lost+found.
    pub fn exchange(&mut self, from: &Place, to: &Place) {
        let (first, second) = (self.at(from).expect("both lead somewhere"), self.at(to).expect("both lead somewhere"));
        self.may_lead_on(first, from, to);
        self.may_lead_on(second, to, from);
        self.name(to).set(Some(first));
        self.name(from).set(Some(second));
        self.may_lose_a_name(first, [from, to]);
        self.node(second).exchanged = true;
    }

    fn may_lead_on(&mut self, id: Id, from: &Place, to: &Place) {
        let leads = self.node(id).promises.iter_mut().filter(|places| places.last() == Some(from));
        leads.for_each(|places| places.push(to.clone()));
    }

    /// Notes that e2fsck removes one of two names of a directory.
    fn may_lose_a_name(&mut self, id: Id, places: [&Place; 2]) {
        if self.node(id).kind == NodeKind::Directory {
            places.into_iter().for_each(|place| self.name(place).allow(None));
        }
    }

    /// Notes that a node was synced: it and the names that lead there are durable; for a directory its entries, too.
    pub fn synced(&mut self, id: Id) {
        self.node(id).settle();
        self.names_synced(id);
        if self.node(id).kind == NodeKind::Directory {
            let entries: Vec<Place> = self.names.keys().filter(|(directory, _)| *directory == id).cloned().collect();
            entries.iter().for_each(|place| self.name_synced(place));
        }
    }

    fn names_synced(&mut self, id: Id) {
        for place in self.places(id) {
            self.name_synced(&place);
            self.names_synced(place.0);
        }
    }

    fn name_synced(&mut self, place: &Place) {
        self.name(place).settle();
        self.break_promises(place);
        if let Some(id) = self.at(place) {
            let node = self.node(id);
            node.promises.push(vec![place.clone()]);
            node.exchanged = false;
        }
    }

    /// Notes that everything was synced.
    pub fn all_synced(&mut self) {
        let places: Vec<Place> = self.names.keys().cloned().collect();
        places.iter().for_each(|place| self.name_synced(place));
        let ids: Vec<Id> = self.nodes.keys().copied().collect();
        for id in ids {
            let has_name = !self.places(id).is_empty();
            let node = self.node(id);
            node.settle();
            node.gone = node.named && !has_name;
        }
    }
}
