//! Random operations, done to the model and to the file system; both must answer the same.

use super::tree::{Body, Id, Model, Name};
use crate::support::{self, Random, read_all, views_of};
use gyre_interface::files::files::Client;
use gyre_interface::files::*;

/// Largest offset of a write, and largest write.
const AT_MAX: usize = 60_000;
const WRITE_BYTES_MAX: usize = 12_000;
const EXTENDED_NAMES: [&[u8]; 4] = [b"user.a", b"user.longer", b"security.b", b"trusted.c"];
const EXTENDED_BYTES_MAX: usize = 200;

pub struct Worker {
    pub client: Client,
    pub model: Model,
    handles: Vec<NodeId>,
    random: Random,
}

fn new(kind: NodeKind, target: &[u8]) -> NewNode {
    NewNode { kind, mode: 0o755, user: 0, group: 0, target: target.to_vec(), device: 0 }
}

impl Worker {
    pub async fn new(client: Client, seed: u64) -> Worker {
        let handles = vec![client.root().await.unwrap()];
        Worker { client, model: Model::new(), handles, random: Random(seed) }
    }

    pub async fn step(&mut self) {
        match self.random.below(23) {
            0 | 1 => self.create().await,
            2 => self.symbolic_link().await,
            3 => self.nameless().await,
            4 => self.link().await,
            5..=7 => self.write().await,
            8 => self.append().await,
            9 => self.truncate().await,
            10 => self.punch().await,
            11 => self.allocate().await,
            12 => self.zero_range().await,
            13 => self.set_extended().await,
            14 => self.remove_extended().await,
            15 => self.remove().await,
            16 | 17 => self.rename().await,
            18 | 19 => self.write_direct().await,
            20 => self.read_direct().await,
            _ => self.read_or_sync().await,
        }
    }

    fn directory(&mut self) -> Id {
        let among = self.model.directories(0);
        among[self.random.below(among.len())]
    }

    /// Returns a directory and a name, which often leads somewhere.
    fn place(&mut self) -> (Id, Name) {
        let directory = self.directory();
        let name = format!("n{}{}", self.random.below(12), "x".repeat(self.random.below(40))).into_bytes();
        let (index, exists) = (self.random.below(8), self.random.below(3) > 0);
        let existing = self.model.entries(directory).keys().nth(index).filter(|_| exists);
        (directory, existing.cloned().unwrap_or(name))
    }

    async fn node(&mut self) -> Option<(Id, NodeId)> {
        let (directory, name) = self.place();
        let id = *self.model.entries(directory).get(&name)?;
        let found = self.client.lookup(self.handles[directory], name).await.unwrap();
        assert_eq!(found.node, self.handles[id]);
        Some((id, found.node))
    }

    async fn file(&mut self) -> Option<(Id, NodeId)> {
        let (id, node) = self.node().await?;
        (self.model.kind(id) == NodeKind::File).then_some((id, node))
    }

    // Names.

    async fn create(&mut self) {
        let body = match self.random.below(4) {
            0 => Body::Directory(Default::default()),
            _ => Body::File(Vec::new()),
        };
        self.make(body, b"").await;
    }

    async fn symbolic_link(&mut self) {
        let target = vec![b'a' + self.random.below(26) as u8; 1 + self.random.below(120)];
        self.make(Body::SymbolicLink(target.clone()), &target).await;
    }

    async fn make(&mut self, body: Body, target: &[u8]) {
        let (directory, name) = self.place();
        let id = self.model.add(body);
        let kind = self.model.kind(id);
        let made = self.client.create(self.handles[directory], name.clone(), new(kind, target)).await;
        let exists = self.model.entries(directory).contains_key(&name);
        assert_eq!(made.is_ok(), !exists, "{made:?}");
        // A number without a node stays behind if there is none.
        self.handles.push(made.map_or(NodeId(u64::MAX), |made| made.node));
        if exists {
            assert_eq!(made.err(), Some(FileError::Exists));
        } else {
            self.model.entries_mut(directory).insert(name, id);
        }
    }

    /// Makes a file without a name; most get one.
    async fn nameless(&mut self) {
        let (directory, name) = self.place();
        let id = self.model.add(Body::File(Vec::new()));
        let made = self.client.create_nameless(self.handles[directory], new(NodeKind::File, b"")).await.unwrap();
        self.handles.push(made.node);
        self.write_to(id, made.node).await;
        if self.random.below(4) > 0 {
            self.link_at(id, directory, name).await;
        }
        self.client.close(made.node).await.unwrap();
    }

    async fn link(&mut self) {
        let Some((id, _)) = self.node().await else { return };
        let (directory, name) = self.place();
        self.link_at(id, directory, name).await;
    }

    async fn link_at(&mut self, id: Id, directory: Id, name: Name) {
        let linked = self.client.link(self.handles[id], self.handles[directory], name.clone()).await;
        let expected = match self.model.kind(id) {
            NodeKind::Directory => Err(FileError::IsDirectory),
            _ if self.model.entries(directory).contains_key(&name) => Err(FileError::Exists),
            _ => Ok(()),
        };
        assert_eq!(linked, expected);
        if linked.is_ok() {
            self.model.entries_mut(directory).insert(name, id);
        }
    }

    async fn remove(&mut self) {
        let (directory, name) = self.place();
        let found = self.model.entries(directory).get(&name);
        let is_directory = found.is_some_and(|id| self.model.kind(*id) == NodeKind::Directory);
        let handle = self.handles[directory];
        let removed = match is_directory {
            true => self.client.remove_directory(handle, name.clone()).await,
            false => self.client.unlink(handle, name.clone()).await,
        };
        assert_eq!(removed, self.model.remove(directory, &name));
    }

    async fn rename(&mut self) {
        let ((from, name), (to, new_name)) = (self.place(), self.place());
        let mode = [RenameMode::Replace, RenameMode::Keep, RenameMode::Exchange][self.random.below(3)];
        let (source, target) = (self.handles[from], self.handles[to]);
        let done = self.client.rename(source, name.clone(), target, new_name.clone(), mode).await;
        assert_eq!(done, self.model.rename((from, &name), (to, &new_name), mode), "{mode:?} {from} to {to}");
    }

    // Contents.

    async fn write(&mut self) {
        let Some((id, node)) = self.file().await else { return };
        self.write_to(id, node).await;
    }

    async fn write_to(&mut self, id: Id, node: NodeId) {
        let (at, bytes) = (self.random.below(AT_MAX), self.random.below(WRITE_BYTES_MAX));
        let fill = self.random.next() as u8;
        assert_eq!(self.client.write(node, at as u64, views_of(&vec![fill; bytes])).await, Ok(bytes));
        if bytes > 0 {
            self.fill(id, at, bytes, fill);
        }
    }

    async fn write_direct(&mut self) {
        let Some((id, node)) = self.file().await else { return };
        let (at, sectors) = (self.random.below(AT_MAX / 512) * 512, 1 + self.random.below(WRITE_BYTES_MAX / 512));
        let fill = self.random.next() as u8;
        let data = vec![fill; sectors * 512];
        support::write_direct(&self.client, node, at, &data, &mut self.random).await;
        self.fill(id, at, data.len(), fill);
    }

    async fn read_direct(&mut self) {
        let Some((id, node)) = self.file().await else { return };
        let (at, sectors) = (self.random.below(AT_MAX / 512) * 512, 1 + self.random.below(AT_MAX / 512));
        let found = support::read_direct(&self.client, node, at, sectors * 512, &mut self.random).await;
        let data = self.model.data(id);
        let wanted = &data[at.min(data.len())..(at + sectors * 512).min(data.len())];
        assert!(found == wanted, "contents read past the cache differ");
    }

    fn fill(&mut self, id: Id, at: usize, bytes: usize, fill: u8) {
        let data = self.model.data(id);
        data.resize(data.len().max(at + bytes), 0);
        data[at..at + bytes].fill(fill);
    }

    async fn append(&mut self) {
        let Some((id, node)) = self.file().await else { return };
        let (end, bytes, fill) = (self.model.data(id).len(), 1 + self.random.below(3000), self.random.next() as u8);
        assert_eq!(self.client.append(node, views_of(&vec![fill; bytes])).await, Ok(end as u64));
        self.fill(id, end, bytes, fill);
    }

    async fn truncate(&mut self) {
        let Some((id, node)) = self.file().await else { return };
        let size = self.random.below(70_000);
        let change = AttributeChange { size_bytes: Some(size as u64), ..AttributeChange::default() };
        self.client.set_attributes(node, change).await.unwrap();
        self.model.data(id).resize(size, 0);
    }

    /// Returns a range to make or fill a hole.
    fn range(&mut self) -> (usize, usize) {
        let (at, bytes) = (self.random.below(AT_MAX), 1 + self.random.below(3 * WRITE_BYTES_MAX));
        // Whole blocks, too.
        if self.random.below(2) == 0 { (at / 4096 * 4096, bytes.next_multiple_of(4096)) } else { (at, bytes) }
    }

    async fn punch_at(&mut self, id: Id, node: NodeId, (at, bytes): (usize, usize)) {
        self.client.punch(node, at as u64, bytes as u64).await.unwrap();
        let data = self.model.data(id);
        let end = (at + bytes).min(data.len());
        data[at.min(end)..end].fill(0);
    }

    async fn allocate_at(&mut self, id: Id, node: NodeId, (at, bytes): (usize, usize)) {
        self.client.allocate(node, at as u64, bytes as u64).await.unwrap();
        let data = self.model.data(id);
        data.resize(data.len().max(at + bytes), 0);
    }

    async fn punch(&mut self) {
        let Some((id, node)) = self.file().await else { return };
        let range = self.range();
        self.punch_at(id, node, range).await;
    }

    async fn allocate(&mut self) {
        let Some((id, node)) = self.file().await else { return };
        let range = self.range();
        self.allocate_at(id, node, range).await;
    }

    /// Zeroes a range as the personality does: a hole is made and filled.
    async fn zero_range(&mut self) {
        let Some((id, node)) = self.file().await else { return };
        let range = self.range();
        self.punch_at(id, node, range).await;
        self.allocate_at(id, node, range).await;
    }

    // Extended attributes.

    async fn set_extended(&mut self) {
        let Some((id, node)) = self.node().await else { return };
        let name = EXTENDED_NAMES[self.random.below(EXTENDED_NAMES.len())].to_vec();
        let value = vec![b'a' + self.random.below(26) as u8; 1 + self.random.below(EXTENDED_BYTES_MAX)];
        let demand = [Presence::Any, Presence::Absent, Presence::Present][self.random.below(3)];
        let set = self.client.set_extended(node, name.clone(), value.clone(), demand).await;
        let extended = &mut self.model.nodes[id].extended;
        let expected = match (demand, extended.contains_key(&name)) {
            (Presence::Absent, true) => Err(FileError::Exists),
            (Presence::Present, false) => Err(FileError::NoAttribute),
            _ => Ok(()),
        };
        assert_eq!(set, expected);
        if set.is_ok() {
            extended.insert(name, value);
        }
    }

    async fn remove_extended(&mut self) {
        let Some((id, node)) = self.node().await else { return };
        let name = EXTENDED_NAMES[self.random.below(EXTENDED_NAMES.len())].to_vec();
        let removed = self.client.remove_extended(node, name.clone()).await;
        let was_there = self.model.nodes[id].extended.remove(&name).is_some();
        assert_eq!(removed, if was_there { Ok(()) } else { Err(FileError::NoAttribute) });
    }

    async fn read_or_sync(&mut self) {
        let Some((id, node)) = self.file().await else { return };
        match self.random.below(4) {
            0 => self.client.sync(node).await.unwrap(),
            1 => self.client.sync_all().await.unwrap(),
            _ => assert!(read_all(&self.client, node).await.unwrap() == *self.model.data(id), "contents differ"),
        }
    }
}
