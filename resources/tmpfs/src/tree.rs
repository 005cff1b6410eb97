//! Nodes and the operations on names.
//!
//! Pure but for time stamps: every method runs under the instance's lock and never waits. A directory keeps its
//! names by name and in the order in which they were made, so that reading it can go on after changes, and knows its
//! parent. A node lives while it has links or is open; the last of both frees it and gives its room back.
//!
//! Every method checks first and changes then, so an error leaves the tree as it was. Limits of nodes and pages are
//! the instance's; the room that a node leaves is free when its last user closes it.

use crate::content::{Pages, Room};
use crate::directory::{Directory, Entry};
use crate::node::{Body, Node};
use crate::{LINKS_MAX, Limits};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use gyre_interface::files::{Attributes, FileError, NAME_BYTES_MAX, Name, NewNode, NodeId, NodeKind, RenameMode};
use gyre_object::Page;

pub(crate) const ROOT: NodeId = NodeId(1);

/// Pages that are made or freed under one lock; then others go first.
pub(crate) const PAGES_AT_ONCE: usize = 64;

pub(crate) struct Tree {
    nodes: BTreeMap<NodeId, Node>,
    next: u64,
    pub limits: Limits,
    pub pages_used: u64,
    zeroes: Option<Page>,
    /// Pages that files have given up, to be freed in pieces.
    gone: Vec<Pages>,
}

impl Tree {
    pub fn new(limits: Limits, mode: u16) -> Tree {
        let new = NewNode { kind: NodeKind::Directory, mode, user: 0, group: 0, target: Vec::new(), device: 0 };
        Tree {
            nodes: BTreeMap::from([(ROOT, Node::new(ROOT, ROOT, new))]),
            next: 2,
            limits,
            pages_used: 0,
            zeroes: None,
            gone: Vec::new(),
        }
    }

    pub fn node_count(&self) -> u64 {
        self.nodes.len() as u64
    }

    pub fn node(&self, id: NodeId) -> Result<&Node, FileError> {
        self.nodes.get(&id).ok_or(FileError::Stale)
    }

    pub fn node_mut(&mut self, id: NodeId) -> Result<&mut Node, FileError> {
        self.nodes.get_mut(&id).ok_or(FileError::Stale)
    }

    pub fn room(&self) -> Room {
        Room(self.limits.pages_max.saturating_sub(self.pages_used))
    }

    /// Counts the pages that were taken of a room which was so large before.
    pub fn count_pages(&mut self, before: u64, room: &Room) {
        self.pages_used = self.pages_used.saturating_add(before.saturating_sub(room.0));
    }

    /// Returns the page that stands for every hole.
    pub fn zeroes(&mut self) -> Result<Page, FileError> {
        if self.zeroes.is_none() {
            self.zeroes = Some(Page::fixed().map_err(|_| FileError::OutOfMemory)?);
        }
        self.zeroes.clone().ok_or(FileError::OutOfMemory)
    }

    pub fn directory(&self, id: NodeId) -> Result<&Directory, FileError> {
        match &self.node(id)?.body {
            Body::Directory(directory) => Ok(directory),
            _ => Err(FileError::NotDirectory),
        }
    }

    fn change_directory(&mut self, id: NodeId) -> Result<&mut Directory, FileError> {
        let node = self.node_mut(id)?;
        node.touch_contents();
        match &mut node.body {
            Body::Directory(directory) => Ok(directory),
            _ => Err(FileError::NotDirectory),
        }
    }

    pub fn lookup(&self, directory: NodeId, name: &[u8]) -> Result<Attributes, FileError> {
        let entries = self.directory(directory)?;
        let id = match name {
            b"." => directory,
            b".." => entries.parent,
            _ => entries.find(name).ok_or(FileError::NotFound)?.node,
        };
        Ok(self.node(id)?.attributes)
    }

    /// Checks that `name` can be made in `directory`.
    fn check_free(&self, directory: NodeId, name: &[u8]) -> Result<(), FileError> {
        check_name(name)?;
        let entries = self.directory(directory)?;
        if entries.find(name).is_some() {
            return Err(FileError::Exists);
        }
        self.check_alive(directory)
    }

    /// Refuses new names in a directory that was removed while it was open.
    fn check_alive(&self, directory: NodeId) -> Result<(), FileError> {
        if self.node(directory)?.attributes.links == 0 {
            return Err(FileError::NotFound);
        }
        Ok(())
    }

    pub fn create(&mut self, parent: NodeId, name: Name, new: NewNode) -> Result<Attributes, FileError> {
        self.check_free(parent, &name)?;
        if self.node_count() >= self.limits.nodes_max {
            return Err(FileError::NoSpace);
        }
        let is_directory = new.kind == NodeKind::Directory;
        if is_directory && self.node(parent)?.attributes.links >= LINKS_MAX {
            return Err(FileError::TooManyLinks);
        }
        let id = NodeId(self.next);
        self.next = self.next.saturating_add(1);
        let kind = new.kind;
        let node = Node::new(id, parent, new);
        let attributes = node.attributes;
        self.nodes.insert(id, node);
        self.change_directory(parent)?.insert(name, id, kind);
        if is_directory {
            self.node_mut(parent)?.add_link();
        }
        Ok(attributes)
    }

    /// Makes a file without a name, open once.
    pub fn create_nameless(&mut self, parent: NodeId, new: NewNode) -> Result<Attributes, FileError> {
        self.directory(parent)?;
        self.check_alive(parent)?;
        if new.kind != NodeKind::File {
            return Err(FileError::Invalid);
        }
        if self.node_count() >= self.limits.nodes_max {
            return Err(FileError::NoSpace);
        }
        let id = NodeId(self.next);
        self.next = self.next.saturating_add(1);
        let mut node = Node::new(id, parent, new);
        (node.attributes.links, node.opens, node.nameless) = (0, 1, true);
        let attributes = node.attributes;
        self.nodes.insert(id, node);
        Ok(attributes)
    }

    pub fn link(&mut self, id: NodeId, directory: NodeId, name: Name) -> Result<(), FileError> {
        self.check_free(directory, &name)?;
        let node = self.node_mut(id)?;
        let kind = node.attributes.kind;
        if kind == NodeKind::Directory {
            return Err(FileError::IsDirectory);
        }
        if node.attributes.links >= LINKS_MAX {
            return Err(FileError::TooManyLinks);
        }
        if node.attributes.links == 0 && !node.nameless {
            return Err(FileError::NotFound);
        }
        node.nameless = false;
        node.add_link();
        node.touch();
        self.change_directory(directory)?.insert(name, id, kind);
        Ok(())
    }

    fn entry(&self, directory: NodeId, name: &[u8]) -> Result<Entry, FileError> {
        check_name(name)?;
        self.directory(directory)?.find(name).ok_or(FileError::NotFound)
    }

    pub fn unlink(&mut self, directory: NodeId, name: &[u8]) -> Result<(), FileError> {
        let entry = self.entry(directory, name)?;
        if entry.kind == NodeKind::Directory {
            return Err(FileError::IsDirectory);
        }
        self.change_directory(directory)?.remove(name);
        self.drop_link(entry.node)
    }

    pub fn remove_directory(&mut self, parent: NodeId, name: &[u8]) -> Result<(), FileError> {
        let entry = self.entry(parent, name)?;
        if !self.directory(entry.node)?.is_empty() {
            return Err(FileError::NotEmpty);
        }
        self.change_directory(parent)?.remove(name);
        self.drop_directory(parent, entry.node)
    }

    fn drop_link(&mut self, id: NodeId) -> Result<(), FileError> {
        let node = self.node_mut(id)?;
        node.attributes.links = node.attributes.links.saturating_sub(1);
        node.touch();
        self.reap(id);
        Ok(())
    }

    fn drop_directory(&mut self, parent: NodeId, id: NodeId) -> Result<(), FileError> {
        let above = self.node_mut(parent)?;
        above.attributes.links = above.attributes.links.saturating_sub(1);
        self.node_mut(id)?.attributes.links = 0;
        self.reap(id);
        Ok(())
    }

    /// Frees a node without names and users.
    pub fn reap(&mut self, id: NodeId) {
        let unused = |node: &Node| node.attributes.links == 0 && node.opens == 0;
        if !self.nodes.get(&id).is_some_and(unused) {
            return;
        }
        if let Some(node) = self.nodes.remove(&id)
            && let Body::File(content) = node.body
        {
            self.give_up(content.into_pages());
        }
    }

    /// Takes over pages that a file has given up. Their room is free at once; a few of them are freed here.
    pub fn give_up(&mut self, pages: Pages) {
        self.pages_used = self.pages_used.saturating_sub(pages.len() as u64);
        if pages.len() > PAGES_AT_ONCE {
            self.gone.push(pages);
        }
    }

    /// Takes out some nodes, whoever has them, and the root's names; returns whether there are more.
    pub fn discard_some(&mut self) -> bool {
        for _ in 0..PAGES_AT_ONCE {
            if self.nodes.len() <= 1 {
                break;
            }
            if let Some((_, Node { body: Body::File(content), .. })) = self.nodes.pop_last() {
                self.give_up(content.into_pages());
            }
        }
        if let Some(Node { body: Body::Directory(directory), .. }) = self.nodes.get_mut(&ROOT) {
            *directory = Directory::new(ROOT);
        }
        self.nodes.len() > 1
    }

    /// Returns whether pages are to be freed.
    pub fn has_gone(&self) -> bool {
        !self.gone.is_empty()
    }

    /// Takes out up to [`PAGES_AT_ONCE`] of them.
    pub fn take_gone(&mut self) -> Vec<Page> {
        let Some(pages) = self.gone.last_mut() else { return Vec::new() };
        let taken = core::iter::from_fn(|| pages.pop_first()).take(PAGES_AT_ONCE).map(|(_, page)| page).collect();
        if pages.is_empty() {
            self.gone.pop();
        }
        taken
    }

    pub fn rename(
        &mut self,
        from: NodeId,
        from_name: &[u8],
        to: NodeId,
        to_name: Name,
        mode: RenameMode,
    ) -> Result<(), FileError> {
        match mode {
            RenameMode::Replace => self.replace(from, from_name, to, to_name),
            RenameMode::Keep => {
                self.entry(from, from_name)?;
                match self.directory(to)?.find(&to_name) {
                    Some(_) => Err(FileError::Exists),
                    None => self.replace(from, from_name, to, to_name),
                }
            }
            RenameMode::Exchange => self.exchange(from, from_name, to, &to_name),
        }
    }

    fn exchange(&mut self, from: NodeId, from_name: &[u8], to: NodeId, to_name: &[u8]) -> Result<(), FileError> {
        let (first, second) = (self.entry(from, from_name)?, self.entry(to, to_name)?);
        for (entry, above) in [(first, to), (second, from)] {
            if entry.kind == NodeKind::Directory && self.is_inside(above, entry.node)? {
                return Err(FileError::Invalid);
            }
        }
        self.change_directory(from)?.insert(from_name.to_vec(), second.node, second.kind);
        self.change_directory(to)?.insert(to_name.to_vec(), first.node, first.kind);
        for (entry, before, after) in [(first, from, to), (second, to, from)] {
            self.node_mut(entry.node)?.touch();
            if entry.kind == NodeKind::Directory && from != to {
                self.change_parent(entry.node, before, after)?;
            }
        }
        Ok(())
    }

    fn replace(&mut self, from: NodeId, from_name: &[u8], to: NodeId, to_name: Name) -> Result<(), FileError> {
        let moved = self.entry(from, from_name)?;
        check_name(&to_name)?;
        self.check_alive(to)?;
        let replaced = self.directory(to)?.find(&to_name);
        if moved.kind == NodeKind::Directory && self.is_inside(to, moved.node)? {
            return Err(FileError::Invalid);
        }
        if let Some(replaced) = replaced {
            if replaced.node == moved.node {
                return Ok(());
            }
            self.check_replace(moved, replaced)?;
        }
        self.change_directory(from)?.remove(from_name);
        self.change_directory(to)?.insert(to_name, moved.node, moved.kind);
        self.node_mut(moved.node)?.touch();
        if moved.kind == NodeKind::Directory && from != to {
            self.change_parent(moved.node, from, to)?;
        }
        match replaced {
            Some(old) if old.kind == NodeKind::Directory => self.drop_directory(to, old.node),
            Some(old) => self.drop_link(old.node),
            None => Ok(()),
        }
    }

    fn check_replace(&self, moved: Entry, replaced: Entry) -> Result<(), FileError> {
        match (moved.kind == NodeKind::Directory, replaced.kind == NodeKind::Directory) {
            (true, false) => Err(FileError::NotDirectory),
            (false, true) => Err(FileError::IsDirectory),
            (true, true) if !self.directory(replaced.node)?.is_empty() => Err(FileError::NotEmpty),
            _ => Ok(()),
        }
    }

    fn change_parent(&mut self, moved: NodeId, from: NodeId, to: NodeId) -> Result<(), FileError> {
        if let Body::Directory(directory) = &mut self.node_mut(moved)?.body {
            directory.parent = to;
        }
        let before = self.node_mut(from)?;
        before.attributes.links = before.attributes.links.saturating_sub(1);
        self.node_mut(to)?.add_link();
        Ok(())
    }

    /// Returns whether `inner` is `outer` or lies below it.
    fn is_inside(&self, inner: NodeId, outer: NodeId) -> Result<bool, FileError> {
        let mut at = inner;
        loop {
            if at == outer {
                return Ok(true);
            }
            let parent = self.directory(at)?.parent;
            if parent == at {
                return Ok(false);
            }
            at = parent;
        }
    }
}

fn check_name(name: &[u8]) -> Result<(), FileError> {
    match name {
        b"" | b"." | b".." => Err(FileError::Invalid),
        _ if name.len() > NAME_BYTES_MAX => Err(FileError::NameTooLong),
        _ if name.contains(&b'/') || name.contains(&0) => Err(FileError::Invalid),
        _ => Ok(()),
    }
}
