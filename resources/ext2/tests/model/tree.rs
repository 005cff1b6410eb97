//! The file system as it should be: nodes by number, names in directories.

use gyre_interface::files::{FileError, NodeKind, RenameMode};
use std::collections::BTreeMap;

/// A node, the root is 0. None is used again.
pub type Id = usize;
pub type Name = Vec<u8>;
/// Names from the root, joined by '/'.
pub type Path = Vec<u8>;

/// The contents of a node.
#[derive(Clone, Debug)]
pub enum Body {
    File(Vec<u8>),
    SymbolicLink(Vec<u8>),
    Directory(BTreeMap<Name, Id>),
}

pub struct Node {
    pub body: Body,
    pub extended: BTreeMap<Name, Vec<u8>>,
}

/// A node as seen under a name.
#[derive(Clone, PartialEq, Debug)]
pub struct Seen {
    pub kind: NodeKind,
    /// The contents of a file, or the target of a link.
    pub contents: Vec<u8>,
    pub links: usize,
    /// The first name of this node.
    pub first: Path,
    pub extended: BTreeMap<Name, Vec<u8>>,
}

/// All names with their nodes.
pub type View = BTreeMap<Path, Seen>;

pub struct Model {
    pub nodes: Vec<Node>,
}

impl Model {
    pub fn new() -> Model {
        let mut model = Model { nodes: Vec::new() };
        model.add(Body::Directory(BTreeMap::new()));
        model
    }

    pub fn add(&mut self, body: Body) -> Id {
        self.nodes.push(Node { body, extended: BTreeMap::new() });
        self.nodes.len() - 1
    }

    pub fn kind(&self, id: Id) -> NodeKind {
        match self.nodes[id].body {
            Body::File(_) => NodeKind::File,
            Body::SymbolicLink(_) => NodeKind::SymbolicLink,
            Body::Directory(_) => NodeKind::Directory,
        }
    }

    pub fn entries(&self, directory: Id) -> &BTreeMap<Name, Id> {
        match &self.nodes[directory].body {
            Body::Directory(entries) => entries,
            other => panic!("a directory was expected, not {other:?}"),
        }
    }

    pub fn entries_mut(&mut self, directory: Id) -> &mut BTreeMap<Name, Id> {
        match &mut self.nodes[directory].body {
            Body::Directory(entries) => entries,
            other => panic!("a directory was expected, not {other:?}"),
        }
    }

    pub fn data(&mut self, file: Id) -> &mut Vec<u8> {
        match &mut self.nodes[file].body {
            Body::File(data) => data,
            other => panic!("a file was expected, not {other:?}"),
        }
    }

    /// Returns a node and the directories below it.
    pub fn directories(&self, from: Id) -> Vec<Id> {
        let Body::Directory(entries) = &self.nodes[from].body else { return Vec::new() };
        let below = entries.values().flat_map(|id| self.directories(*id));
        [from].into_iter().chain(below).collect()
    }

    fn is_empty(&self, id: Id) -> bool {
        matches!(&self.nodes[id].body, Body::Directory(entries) if entries.is_empty())
    }

    /// Removes a name, or says why that cannot be.
    pub fn remove(&mut self, directory: Id, name: &[u8]) -> Result<(), FileError> {
        let id = *self.entries(directory).get(name).ok_or(FileError::NotFound)?;
        if self.kind(id) == NodeKind::Directory && !self.is_empty(id) {
            return Err(FileError::NotEmpty);
        }
        self.entries_mut(directory).remove(name);
        Ok(())
    }

    /// Renames, or returns the reason why that is not possible.
    pub fn rename(&mut self, from: (Id, &[u8]), to: (Id, &[u8]), mode: RenameMode) -> Result<(), FileError> {
        let moved = *self.entries(from.0).get(from.1).ok_or(FileError::NotFound)?;
        let other = self.entries(to.0).get(to.1).copied();
        match (mode, other) {
            (RenameMode::Keep, Some(_)) => return Err(FileError::Exists),
            (RenameMode::Exchange, None) => return Err(FileError::NotFound),
            (RenameMode::Exchange, Some(other)) => self.check_exchange((from.0, moved), (to.0, other))?,
            (RenameMode::Keep | RenameMode::Replace, _) => self.check_rename(moved, to.0, other)?,
        }
        if other == Some(moved) {
            return Ok(());
        }
        self.entries_mut(from.0).remove(from.1);
        self.entries_mut(to.0).insert(to.1.to_vec(), moved);
        if let (RenameMode::Exchange, Some(other)) = (mode, other) {
            self.entries_mut(from.0).insert(from.1.to_vec(), other);
        }
        Ok(())
    }

    fn check_rename(&self, moved: Id, to: Id, replaced: Option<Id>) -> Result<(), FileError> {
        if self.directories(moved).contains(&to) {
            return Err(FileError::Invalid);
        }
        let Some(replaced) = replaced.filter(|replaced| *replaced != moved) else { return Ok(()) };
        let is_directory = |id| self.kind(id) == NodeKind::Directory;
        match (is_directory(moved), is_directory(replaced)) {
            (true, false) => Err(FileError::NotDirectory),
            (false, true) => Err(FileError::IsDirectory),
            (true, true) if !self.is_empty(replaced) => Err(FileError::NotEmpty),
            _ => Ok(()),
        }
    }

    fn check_exchange(&self, first: (Id, Id), second: (Id, Id)) -> Result<(), FileError> {
        let is_below = |(_, node): (Id, Id), (directory, _): (Id, Id)| self.directories(node).contains(&directory);
        let across = first.0 != second.0 && first.1 != second.1;
        let circle = across && (is_below(first, second) || is_below(second, first));
        if circle { Err(FileError::Invalid) } else { Ok(()) }
    }

    /// Returns the view of the tree.
    pub fn view(&self) -> View {
        let mut names = Vec::new();
        self.names(0, &[], &mut names);
        let seen = |(path, id): &(Path, Id)| {
            let first = names.iter().filter(|(_, other)| other == id).map(|(path, _)| path).min();
            let count = names.iter().filter(|(_, other)| other == id).count();
            (path.clone(), self.seen(*id, count, first.expect("it has a name")))
        };
        names.iter().map(seen).collect()
    }

    fn names(&self, directory: Id, prefix: &[u8], into: &mut Vec<(Path, Id)>) {
        for (name, id) in self.entries(directory) {
            let path = [prefix, b"/", &name[..]].concat();
            if self.kind(*id) == NodeKind::Directory {
                self.names(*id, &path, into);
            }
            into.push((path, *id));
        }
    }

    fn seen(&self, id: Id, names: usize, first: &Path) -> Seen {
        let (contents, links) = match &self.nodes[id].body {
            Body::File(contents) | Body::SymbolicLink(contents) => (contents.clone(), names),
            Body::Directory(entries) => {
                (Vec::new(), 2 + entries.values().filter(|id| self.kind(**id) == NodeKind::Directory).count())
            }
        };
        Seen { kind: self.kind(id), contents, links, first: first.clone(), extended: self.nodes[id].extended.clone() }
    }
}
