//! The state after a crash, compared with the allowed and the demanded one.

use super::node::{Extended, Found, Id, Place};
use super::top;
use super::work::OWNERS;
use super::world::{ROOT, World};
use crate::support::{assert_clean, e2fsck, mount, read_all};
use gyre_interface::files::files::Client;
use gyre_interface::files::{Attributes, NodeId, NodeKind};
use std::collections::{BTreeMap, BTreeSet};

/// How much was compared.
#[derive(Clone, Copy, Default, Debug)]
pub struct Compared {
    pub names: u64,
    pub nodes: u64,
    pub bytes: u64,
    /// Names that had to be there, old or new.
    pub promises: u64,
    /// Nodes in lost+found, all of them rightly.
    pub lost_and_found: u64,
}

/// The tree of a worker.
#[derive(Default)]
struct Tree {
    first_owner: u32,
    nodes: BTreeMap<Id, Found>,
    names: BTreeMap<Place, Id>,
    lost_and_found: BTreeSet<Id>,
}

/// Repairs an image and compares each world.
pub async fn check(mut image: Vec<u8>, worlds: &[World], what: &str) -> Compared {
    let (code, words) = e2fsck(&mut image, &["-fy"]);
    assert!(code <= 1, "{what}: e2fsck -fy says {code}: {words}");
    if code != 0 {
        assert_clean(image.clone());
    }
    let (disk, _, client) = mount(image).await;
    let mut compared = Compared::default();
    for (number, world) in worlds.iter().enumerate() {
        let tree = Tree::read(&client, number, worlds.len()).await;
        let fault = tree.fault_of_nodes(world).or_else(|| tree.fault_of_names(world)).or_else(|| tree.loss(world));
        assert!(fault.is_none(), "{what}, worker {number}: {}\n{words}", fault.unwrap_or_default());
        compared.add(&tree.compared(world));
    }
    disk.discard();
    compared
}

impl Compared {
    fn add(&mut self, other: &Compared) {
        self.names += other.names;
        self.nodes += other.nodes;
        self.bytes += other.bytes;
        self.promises += other.promises;
        self.lost_and_found += other.lost_and_found;
    }
}

impl Tree {
    /// Reads the tree of one of `of` workers, with its nodes in lost+found.
    async fn read(client: &Client, number: usize, of: usize) -> Tree {
        let mut tree = Tree { first_owner: number as u32 * OWNERS, ..Tree::default() };
        let root = client.root().await.unwrap();
        let mut queue = vec![(ROOT, top(client, root, number, of).await)];
        let lost_and_found = client.lookup(root, b"lost+found".to_vec()).await.unwrap();
        for (_, node) in entries(client, lost_and_found.node).await {
            if let Some(id) = tree.id_of(&node) {
                tree.lost_and_found.insert(id);
                tree.add(client, node, &mut queue).await;
            }
        }
        while let Some((id, directory)) = queue.pop() {
            for (name, node) in entries(client, directory).await {
                if node.node == lost_and_found.node {
                    continue;
                }
                let found = tree.id_of(&node).unwrap_or_else(|| panic!("{name} is another worker's, {node:?}"));
                tree.names.insert((id, name), found);
                tree.add(client, node, &mut queue).await;
            }
        }
        tree
    }

    /// Returns the number of a node of this worker.
    fn id_of(&self, node: &Attributes) -> Option<Id> {
        node.user.checked_sub(self.first_owner).filter(|id| *id < OWNERS)
    }

    async fn add(&mut self, client: &Client, node: Attributes, queue: &mut Vec<(Id, NodeId)>) {
        let id = self.id_of(&node).expect("who calls has looked");
        if node.kind == NodeKind::Directory {
            queue.push((id, node.node));
        }
        self.nodes.insert(id, found(client, node).await);
    }

    /// Returns the fault of a node that holds contents it never held.
    fn fault_of_nodes(&self, world: &World) -> Option<String> {
        self.nodes.iter().find_map(|(id, found)| match world.nodes.get(id) {
            None => Some(format!("nobody made node {id}: {found:?}")),
            Some(node) => node.fault(found).map(|fault| format!("node {id} is {fault}")),
        })
    }

    /// Returns the fault of a name that leads to a wrong node, or is missing though it was there all the time.
    fn fault_of_names(&self, world: &World) -> Option<String> {
        let wrong = self
            .names
            .iter()
            .find(|(place, id)| !world.names.get(place).is_some_and(|name| name.may_be(|leads| *leads == Some(**id))));
        if let Some((place, id)) = wrong {
            return Some(format!("{place:?} leads to {id}, not {:?}", world.names.get(place)));
        }
        let is_there = |id: Id| id == ROOT || self.nodes.contains_key(&id);
        let must = world.names.iter().filter(|(place, name)| is_there(place.0) && !name.may_be(Option::is_none));
        let missing = must.into_iter().find(|(place, _)| !self.names.contains_key(place));
        missing.map(|(place, name)| format!("{place:?} is missing: {name:?}"))
    }

    /// Returns a node that was synced and is nowhere, or in lost+found without reason.
    fn loss(&self, world: &World) -> Option<String> {
        world.nodes.iter().find_map(|(id, node)| {
            let is_found = self.lost_and_found.contains(id);
            let is_at = |place: &Place| self.names.get(place) == Some(id);
            let holds = |places: &Vec<Place>| {
                places.iter().any(is_at) || (node.exchanged && (self.nodes.contains_key(id) || node.may_be_hollow()))
            };
            if let Some(lost) = node.promises.iter().find(|places| !holds(places)) {
                return Some(format!("node {id} is not at {lost:?}, in lost+found: {is_found}"));
            }
            let is_free = (node.promises.is_empty() && node.named && !node.gone) || node.exchanged;
            (is_found && !is_free).then(|| format!("node {id} is in lost+found"))
        })
    }

    fn compared(&self, world: &World) -> Compared {
        Compared {
            names: self.names.len() as u64,
            nodes: self.nodes.len() as u64,
            bytes: self.nodes.values().map(|found| found.data.len() as u64).sum(),
            promises: world.nodes.values().map(|node| node.promises.len() as u64).sum(),
            lost_and_found: self.lost_and_found.len() as u64,
        }
    }
}

async fn entries(client: &Client, directory: NodeId) -> Vec<(String, Attributes)> {
    let mut found = Vec::new();
    for entry in client.read_directory(directory, 0, usize::MAX).await.unwrap() {
        if !matches!(&entry.name[..], b"." | b"..") {
            let name = String::from_utf8(entry.name.clone()).unwrap();
            found.push((name, client.lookup(directory, entry.name).await.unwrap()));
        }
    }
    found
}

async fn found(client: &Client, node: Attributes) -> Found {
    let mut extended = Extended::new();
    for name in client.list_extended(node.node).await.unwrap() {
        let value = client.extended(node.node, name.clone()).await.unwrap();
        extended.insert(String::from_utf8(name).unwrap(), value);
    }
    let (mut target, mut data) = (Vec::new(), Vec::new());
    match node.kind {
        NodeKind::SymbolicLink => target = client.read_link(node.node).await.unwrap(),
        NodeKind::File => data = read_all(client, node.node).await.unwrap(),
        _ => {}
    }
    Found { kind: node.kind, target, attributes: (node.mode, node.group, extended), data }
}
