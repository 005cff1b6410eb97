//! Random operations of workers, each told to the world of `world.rs` before it is done.
//!
//! A `Worker` has a site of its own, in which it makes the first directories durably, random numbers from a seed, and a style that says
//! which operations it mixes. Each step is one operation if there is something to do it with: making, naming, moving, replacing,
//! exchanging and removing nodes; writing, growing, cutting and punching files, through the cache and past it; changing attributes; and
//! syncing, seldom.
//!
//! Every write has bytes that no other one has, and every node an owner of its worker's, so that after a crash each byte and each inode
//! can be traced back. While the machine runs, all files are read and compared.
//!
//! Checks after a crash are in `check.rs`. Mapped files and disks that fail are left out: other tests of the file system have them.

use super::node::{Id, Place};
use super::style::{Operation, Style};
use super::world::{ROOT, World};
use crate::support::{Random, views_of, write_direct};
use gyre_interface::block::SECTOR_BYTES;
use gyre_interface::files::files::Client;
use gyre_interface::files::*;
use std::cell::{RefCell, RefMut};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Directories below the root that are never moved or removed.
pub const DIRECTORIES: usize = 5;
/// Nodes with names of all workers beyond which none is made.
const NODES_MAX: usize = 50;
/// Owners that a worker's nodes have on the disk: its own.
pub const OWNERS: u32 = 1 << 20;
/// Directories besides those.
const MORE_DIRECTORIES: usize = 6;
const EXTENDED_NAMES: [&str; 3] = ["user.first", "user.second", "trusted.third"];
const EXTENDED_BYTES_MAX: usize = 250;

/// The place where a worker works, alone.
#[derive(Clone)]
pub struct Site {
    pub world: Rc<RefCell<World>>,
    /// The directory that is its world's root.
    pub top: NodeId,
    pub first_owner: u32,
}

/// A worker.
pub struct Worker {
    client: Client,
    world: Rc<RefCell<World>>,
    handles: BTreeMap<Id, NodeId>,
    random: Random,
    number: usize,
    style: Style,
    bytes_max: usize,
    nodes_max: usize,
    /// The owner of its top directory; of its other nodes the ones behind.
    first_owner: u32,
    /// How often each operation was done.
    pub done: BTreeMap<Operation, u64>,
}

pub fn new(kind: NodeKind, user: u32, target: &[u8]) -> NewNode {
    NewNode { kind, mode: 0o755, user, group: 0, target: target.to_vec(), device: 0 }
}

/// Returns the bytes that only this write has.
fn pattern(id: Id, number: usize, bytes: usize) -> Vec<u8> {
    let tag = Random((u64::from(id) << 32) + number as u64).next().to_le_bytes();
    (0..bytes).map(|at| tag[at % tag.len()]).collect()
}

impl Worker {
    /// Makes the first directories below its top, durably; one of so many workers.
    pub async fn begin(client: Client, site: Site, seed: u64, (style, bytes_max): (Style, usize), of: usize) -> Worker {
        let Site { world, top, first_owner } = site;
        let handles = BTreeMap::from([(ROOT, top)]);
        let (random, done, nodes_max) = (Random(seed), BTreeMap::new(), NODES_MAX / of);
        let mut worker =
            Worker { client, world, handles, random, number: 0, style, bytes_max, nodes_max, first_owner, done };
        for d in 0..DIRECTORIES {
            worker.take_or_make((ROOT, format!("d{d}"))).await;
        }
        worker.client.sync_all().await.unwrap();
        worker.world().all_synced();
        worker
    }

    /// Takes a directory that mke2fs made, or makes a new one.
    async fn take_or_make(&mut self, place: Place) {
        let (root, name) = (self.handles[&ROOT], place.1.clone().into_bytes());
        let Ok(found) = self.client.lookup(root, name).await else {
            self.make(NodeKind::Directory, &place, b"").await;
            return;
        };
        let id = self.world().make(NodeKind::Directory, b"");
        self.world().link(&place, id);
        self.handles.insert(id, found.node);
        let (mode, user, group) = (Some(0o755), Some(self.first_owner + id), Some(0));
        let change = AttributeChange { mode, user, group, ..AttributeChange::default() };
        self.client.set_attributes(found.node, change).await.unwrap();
    }

    fn world(&self) -> RefMut<'_, World> {
        self.world.borrow_mut()
    }

    /// Does one thing, if there is something to do it with.
    pub async fn step(&mut self) {
        self.number += 1;
        let operations = self.style.operations;
        let operation = operations[self.random.below(operations.len())];
        if self.act(operation).await.is_some() {
            *self.done.entry(operation).or_default() += 1;
        }
    }

    async fn act(&mut self, operation: Operation) -> Option<()> {
        match operation {
            Operation::Create => self.create().await,
            Operation::Junk => self.junk().await,
            Operation::MakeDirectory => self.make_directory().await,
            Operation::MakeSymbolicLink => self.make_symbolic_link().await,
            Operation::Nameless => self.nameless().await,
            Operation::Link => self.link().await,
            Operation::Rename => self.rename(|kind| kind != NodeKind::Directory).await,
            Operation::MoveDirectory => self.rename(|kind| kind == NodeKind::Directory).await,
            Operation::Replace => self.replace().await,
            Operation::Exchange => self.exchange().await,
            Operation::Remove => self.remove().await,
            Operation::RemoveDirectory => self.remove_directory().await,
            Operation::Overwrite => self.overwrite().await,
            Operation::OverwriteDirect => self.overwrite_direct().await,
            Operation::Append => self.append().await,
            Operation::Truncate => self.truncate().await,
            Operation::Punch => self.punch().await,
            Operation::Allocate => self.allocate().await,
            Operation::ChangeMode => self.change_mode().await,
            Operation::ChangeExtended => self.change_extended().await,
            Operation::WriteOut => self.write_out().await,
            Operation::Sync => self.sync_any(|_| true).await,
            Operation::SyncDirectory => self.sync_any(|kind| kind == NodeKind::Directory).await,
            Operation::SyncAll => self.sync_all().await,
        }
    }

    // Choices.

    fn any<T: Clone>(&mut self, among: &[T]) -> Option<T> {
        among.get(self.random.below(among.len())).cloned()
    }

    /// Returns a name of a node of these kinds, but not one of the first directories'.
    fn existing(&mut self, choice: impl Fn(NodeKind) -> bool) -> Option<Place> {
        let places = {
            let world = self.world.borrow();
            world.existing(|id| id > DIRECTORIES as Id && choice(world.nodes[&id].kind))
        };
        self.any(&places)
    }

    /// Returns a node with a name, and its place.
    fn node(&mut self, choice: impl Fn(NodeKind) -> bool) -> Option<(Id, NodeId)> {
        let place = self.existing(choice)?;
        let id = self.at(&place);
        Some((id, self.handles[&id]))
    }

    fn file(&mut self) -> Option<(Id, NodeId)> {
        self.node(|kind| kind == NodeKind::File)
    }

    fn at(&self, place: &Place) -> Id {
        self.world().at(place).expect("it exists")
    }

    fn directories(&self) -> Vec<Id> {
        let world = self.world.borrow();
        let places = world.existing(|id| world.nodes[&id].kind == NodeKind::Directory);
        places.iter().filter_map(|place| world.at(place)).collect()
    }

    /// Returns a name that leads nowhere now, in any directory.
    fn free(&mut self, kind: &str) -> Place {
        let among = self.directories();
        let directory = self.any(&among).expect("the first ones");
        (directory, self.name(kind, self.number))
    }

    fn name(&self, kind: &str, number: usize) -> String {
        format!("{kind}{number}{}", "_".repeat(self.style.name_bytes))
    }

    fn raw(&self, place: &Place) -> (NodeId, Name) {
        (self.handles[&place.0], place.1.clone().into_bytes())
    }

    fn has_room(&self) -> Option<()> {
        (self.world().existing(|_| true).len() < self.nodes_max).then_some(())
    }

    fn once_in(&mut self, count: usize) -> bool {
        self.random.below(count) == 0
    }

    /// Returns data for a write, and its offset: within the largest file.
    fn data(&mut self, id: Id) -> (usize, Vec<u8>) {
        let (at, bytes) = (self.random.below(self.bytes_max), 1 + self.random.below(self.bytes_max));
        (at, pattern(id, self.number, bytes.min(self.bytes_max - at)))
    }

    // Making.

    async fn make(&mut self, kind: NodeKind, place: &Place, target: &[u8]) -> Id {
        let id = self.world().make(kind, target);
        self.world().link(place, id);
        let (directory, name) = self.raw(place);
        let made = self.client.create(directory, name, new(kind, self.first_owner + id, target)).await.unwrap();
        self.handles.insert(id, made.node);
        id
    }

    async fn make_file(&mut self, place: &Place) -> Id {
        let id = self.make(NodeKind::File, place, b"").await;
        let bytes = 1 + self.random.below(self.bytes_max);
        self.write(id, 0, pattern(id, self.number, bytes)).await;
        id
    }

    async fn create(&mut self) -> Option<()> {
        self.has_room()?;
        let place = self.free("f");
        let id = self.make_file(&place).await;
        self.sync(id).await;
        Some(())
    }

    /// Makes and removes files that are never synced.
    async fn junk(&mut self) -> Option<()> {
        let place = (1 + self.random.below(DIRECTORIES) as Id, self.name("junk", self.number % 7));
        let kind = {
            let world = self.world.borrow();
            world.at(&place).map(|id| world.nodes[&id].kind)
        };
        match kind {
            // An exchange has moved it here.
            Some(NodeKind::Directory) => return None,
            Some(_) => self.unlink(&place).await,
            None => {
                self.has_room()?;
                self.make_file(&place).await;
            }
        }
        Some(())
    }

    async fn make_directory(&mut self) -> Option<()> {
        if self.directories().len() >= DIRECTORIES + MORE_DIRECTORIES {
            return None;
        }
        let place = self.free("dir");
        let id = self.make(NodeKind::Directory, &place, b"").await;
        self.sync_perhaps(id).await;
        Some(())
    }

    async fn make_symbolic_link(&mut self) -> Option<()> {
        self.has_room()?;
        let place = self.free("s");
        let bytes = 1 + self.random.below(150);
        let target: Vec<u8> = (0..bytes).map(|at| b'a' + ((self.number + at) % 26) as u8).collect();
        let id = self.make(NodeKind::SymbolicLink, &place, &target).await;
        self.sync_perhaps(id).await;
        Some(())
    }

    /// Returns a file without a name, which perhaps gets one later.
    async fn nameless(&mut self) -> Option<()> {
        self.has_room()?;
        let place = self.free("n");
        let id = self.world().make(NodeKind::File, b"");
        let new = new(NodeKind::File, self.first_owner + id, b"");
        let made = self.client.create_nameless(self.handles[&place.0], new).await.unwrap();
        self.handles.insert(id, made.node);
        let (at, data) = self.data(id);
        self.write(id, at, data).await;
        self.sync_perhaps(id).await;
        if !self.once_in(4) {
            self.link_at(id, &place).await;
            self.sync_perhaps(id).await;
        }
        self.client.close(made.node).await.unwrap();
        Some(())
    }

    // Names.

    async fn link(&mut self) -> Option<()> {
        self.has_room()?;
        let (id, _) = self.node(|kind| kind != NodeKind::Directory)?;
        let place = self.free("l");
        self.link_at(id, &place).await;
        self.sync_perhaps(id).await;
        Some(())
    }

    async fn link_at(&mut self, id: Id, place: &Place) {
        self.world().link(place, id);
        let (directory, name) = self.raw(place);
        self.client.link(self.handles[&id], directory, name).await.unwrap();
    }

    /// Returns whether a place is below a directory, which must not be moved there.
    fn is_below(&self, id: Id, place: &Place) -> bool {
        let mut at = place.0;
        while at != ROOT && at != id {
            at = self.world().places(at)[0].0;
        }
        at == id
    }

    async fn rename(&mut self, choice: impl Fn(NodeKind) -> bool) -> Option<()> {
        let from = self.existing(choice)?;
        let to = self.free("m");
        let id = self.at(&from);
        if self.is_below(id, &to) {
            return None;
        }
        self.world().rename(&from, &to);
        self.move_name(&from, &to, RenameMode::Keep).await;
        self.sync_perhaps(id).await;
        Some(())
    }

    async fn move_name(&self, from: &Place, to: &Place, mode: RenameMode) {
        let ((source, name), (target, new_name)) = (self.raw(from), self.raw(to));
        self.client.rename(source, name, target, new_name, mode).await.unwrap();
    }

    /// Saves safely: a new file takes the place of another.
    async fn replace(&mut self) -> Option<()> {
        let to = self.existing(|kind| kind != NodeKind::Directory)?;
        let from = (to.0, self.name("t", self.number));
        let id = self.make_file(&from).await;
        self.sync(id).await;
        self.world().rename(&from, &to);
        self.move_name(&from, &to, RenameMode::Replace).await;
        self.sync_perhaps(to.0).await;
        Some(())
    }

    async fn exchange(&mut self) -> Option<()> {
        let (from, to) = (self.existing(|_| true)?, self.existing(|_| true)?);
        let (first, second) = (self.at(&from), self.at(&to));
        if first == second || self.is_below(first, &to) || self.is_below(second, &from) {
            return None;
        }
        self.world().exchange(&from, &to);
        self.move_name(&from, &to, RenameMode::Exchange).await;
        self.sync_perhaps(first).await;
        Some(())
    }

    async fn unlink(&mut self, place: &Place) {
        self.world().remove(place);
        let (directory, name) = self.raw(place);
        self.client.unlink(directory, name).await.unwrap();
    }

    async fn remove(&mut self) -> Option<()> {
        let place = self.existing(|kind| kind != NodeKind::Directory)?;
        self.unlink(&place).await;
        self.sync_perhaps(place.0).await;
        Some(())
    }

    async fn remove_directory(&mut self) -> Option<()> {
        let place = self.existing(|kind| kind == NodeKind::Directory)?;
        let id = self.at(&place);
        let is_empty =
            !self.world().names.iter().any(|((directory, _), name)| *directory == id && name.now().is_some());
        if !is_empty {
            return None;
        }
        self.world().remove(&place);
        let (directory, name) = self.raw(&place);
        self.client.remove_directory(directory, name).await.unwrap();
        self.sync_perhaps(place.0).await;
        Some(())
    }

    // Contents.

    async fn write(&mut self, id: Id, at: usize, data: Vec<u8>) {
        self.world().node(id).write(at, &data);
        let written = self.client.write(self.handles[&id], at as u64, views_of(&data)).await;
        assert_eq!(written, Ok(data.len()));
    }

    async fn overwrite(&mut self) -> Option<()> {
        let (id, _) = self.file()?;
        let (at, data) = self.data(id);
        self.write(id, at, data).await;
        self.sync_perhaps(id).await;
        Some(())
    }

    /// Writes past the cache, as far as the file has blocks.
    async fn overwrite_direct(&mut self) -> Option<()> {
        let (id, node) = self.file()?;
        let (at, mut data) = self.data(id);
        let at = at / SECTOR_BYTES * SECTOR_BYTES;
        data.resize(
            data.len().next_multiple_of(SECTOR_BYTES).min((self.bytes_max - at) / SECTOR_BYTES * SECTOR_BYTES),
            0,
        );
        if data.is_empty() {
            return None;
        }
        self.world().node(id).write(at, &data);
        write_direct(&self.client, node, at, &data, &mut self.random).await;
        self.sync_perhaps(id).await;
        Some(())
    }

    async fn append(&mut self) -> Option<()> {
        let (id, node) = self.file()?;
        let end = self.world().node(id).size();
        let room = self.bytes_max.checked_sub(end + 1)?;
        let data = pattern(id, self.number, 1 + self.random.below(room));
        self.world().node(id).write(end, &data);
        assert_eq!(self.client.append(node, views_of(&data)).await, Ok(end as u64));
        self.sync_perhaps(id).await;
        Some(())
    }

    /// Shrinks or grows.
    async fn truncate(&mut self) -> Option<()> {
        let (id, node) = self.file()?;
        let size = self.random.below(self.bytes_max);
        self.world().node(id).resize(size);
        let change = AttributeChange { size_bytes: Some(size as u64), ..AttributeChange::default() };
        self.client.set_attributes(node, change).await.unwrap();
        self.sync_perhaps(id).await;
        Some(())
    }

    async fn punch(&mut self) -> Option<()> {
        let (id, node) = self.file()?;
        let (at, bytes) = (self.random.below(self.bytes_max), 1 + self.random.below(self.bytes_max));
        self.world().node(id).punch(at, bytes);
        self.client.punch(node, at as u64, bytes as u64).await.unwrap();
        self.sync_perhaps(id).await;
        Some(())
    }

    async fn allocate(&mut self) -> Option<()> {
        let (id, node) = self.file()?;
        let at = self.random.below(self.bytes_max);
        let bytes = 1 + self.random.below(self.bytes_max - at);
        self.world().node(id).place(at, at + bytes);
        self.client.allocate(node, at as u64, bytes as u64).await.unwrap();
        self.sync_perhaps(id).await;
        Some(())
    }

    // Attributes.

    async fn change_mode(&mut self) -> Option<()> {
        let (id, node) = self.node(|kind| kind != NodeKind::SymbolicLink)?;
        let (mode, group) = (self.random.below(0o1000) as u16, self.random.below(1 << 20) as u32);
        let extended = self.world().node(id).attributes.now().2.clone();
        self.world().node(id).attributes.set((mode, group, extended));
        let change = AttributeChange { mode: Some(mode), group: Some(group), ..AttributeChange::default() };
        self.client.set_attributes(node, change).await.unwrap();
        self.sync_perhaps(id).await;
        Some(())
    }

    /// Sets an extended attribute, or removes it.
    async fn change_extended(&mut self) -> Option<()> {
        let (id, node) = self.node(|_| true)?;
        let name = EXTENDED_NAMES[self.random.below(EXTENDED_NAMES.len())];
        let mut attributes = self.world().node(id).attributes.now().clone();
        let raw = name.as_bytes().to_vec();
        if attributes.2.contains_key(name) && self.once_in(2) {
            attributes.2.remove(name);
            self.world().node(id).attributes.set(attributes);
            self.client.remove_extended(node, raw).await.unwrap();
        } else {
            let value = pattern(id, self.number, self.random.below(EXTENDED_BYTES_MAX));
            attributes.2.insert(name.into(), value.clone());
            self.world().node(id).attributes.set(attributes);
            self.client.set_extended(node, raw, value, Presence::Any).await.unwrap();
        }
        self.sync_perhaps(id).await;
        Some(())
    }

    // Syncing.

    async fn sync(&mut self, id: Id) {
        self.client.sync(self.handles[&id]).await.unwrap();
        self.world().synced(id);
    }

    /// Syncs seldom: most changes stay unsynced for a while.
    async fn sync_perhaps(&mut self, id: Id) {
        if self.once_in(4) {
            self.sync(id).await;
        }
    }

    async fn sync_any(&mut self, choice: impl Fn(NodeKind) -> bool) -> Option<()> {
        let (id, _) = self.node(choice)?;
        self.sync(id).await;
        Some(())
    }

    async fn sync_all(&mut self) -> Option<()> {
        self.client.sync_all().await.unwrap();
        self.world().all_synced();
        Some(())
    }

    /// Contents on their way, with nothing promised.
    async fn write_out(&mut self) -> Option<()> {
        let (_, node) = self.file()?;
        self.client.write_out(node).await.unwrap();
        Some(())
    }

    /// Checks all files while the machine runs.
    pub async fn compare(&self) {
        let world = self.world.borrow().clone();
        for place in world.existing(|id| world.nodes[&id].kind == NodeKind::File) {
            let id = world.at(&place).expect("it exists");
            let data = crate::support::read_all(&self.client, self.handles[&id]).await.unwrap();
            assert!(data == world.nodes[&id].data(), "{place:?}, before any crash");
        }
    }
}
