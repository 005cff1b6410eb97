//! What a crash left, compared with what may be there and what must.

use super::node::{Extended, Found, Id, Place};
use super::support::{assert_clean, e2fsck, mount, read_all};
use super::world::{ROOT, World};
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

/// The tree.
#[derive(Default)]
struct Tree {
    nodes: BTreeMap<Id, Found>,
    names: BTreeMap<Place, Id>,
    lost_and_found: BTreeSet<Id>,
}

/// Repairs an image and compares.
pub async fn check(mut image: Vec<u8>, world: &World, what: &str) -> Compared {
    let (code, words) = e2fsck(&mut image, &["-fy"]);
    assert!(code <= 1, "{what}: e2fsck -fy says {code}: {words}");
    if code != 0 {
        assert_clean(image.clone());
    }
    let (disk, _, client) = mount(image).await;
    let tree = Tree::read(&client).await;
    disk.discard();
    let fault = tree.fault_of_nodes(world).or_else(|| tree.fault_of_names(world)).or_else(|| tree.loss(world));
    assert!(fault.is_none(), "{what}: {}\n{words}", fault.unwrap_or_default());
    tree.compared(world)
}

impl Tree {
    async fn read(client: &Client) -> Tree {
        let mut tree = Tree::default();
        let mut queue = vec![(ROOT, client.root().await.unwrap())];
        while let Some((id, directory)) = queue.pop() {
            for (name, node) in entries(client, directory).await {
                if (id, &name[..]) == (ROOT, "lost+found") {
                    for (_, node) in entries(client, node.node).await {
                        tree.lost_and_found.insert(node.user);
                        tree.add(client, node, &mut queue).await;
                    }
                    continue;
                }
                tree.names.insert((id, name), node.user);
                tree.add(client, node, &mut queue).await;
            }
        }
        tree
    }

    async fn add(&mut self, client: &Client, node: Attributes, queue: &mut Vec<(Id, NodeId)>) {
        if node.kind == NodeKind::Directory {
            queue.push((node.user, node.node));
        }
        self.nodes.insert(node.user, found(client, node).await);
    }

    /// A node that holds what it never held.
    fn fault_of_nodes(&self, world: &World) -> Option<String> {
        self.nodes.iter().find_map(|(id, found)| match world.nodes.get(id) {
            None => Some(format!("nobody made node {id}: {found:?}")),
            Some(node) => node.fault(found).map(|fault| format!("node {id} is {fault}")),
        })
    }

    /// A name that leads where it never led, or is missing though it was there all the time.
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

    /// A node that was synced and is nowhere, or in lost+found without reason.
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
