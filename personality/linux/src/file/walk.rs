//! Walks from a path to a node: symbolic links, "..", mounts, the process's root, rights on the way
//! (path_resolution(7)).
//!
//! Protocol of use: make a [`Walker`] with the process's root and the caller's rights, call [`Walker::walk`] with the
//! start and the path, then [`Walked::existing`], or use [`Walked::parent`] and [`Walked::name`] to make something
//! there. Walk and use stand together in [`retry_stale`], since a node may go between them.
//!
//! A walk takes one look-up per name. Links are put before the rest of the path in a loop, at most as many as Linux
//! follows (ELOOP); a slash behind the last name demands a directory. A covered directory leads to the root of the
//! file system over it, ".." at such a root back to the covered one, and at the process's root nowhere.
//!
//! Walks without a message are in [`super::near`]; it gives up and leaves the hard cases to this file.

use super::filesystem::FileSystem;
use super::mount::{MountTable, Place};
use super::open_file::OpenFile;
use super::permission::{Asker, EXECUTE};
use super::proc::Looker;
use crate::Errno;
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_interface::files::{Attributes, NAME_BYTES_MAX, NodeKind};

/// Symbolic links followed in one walk (Linux: MAXSYMLINKS).
pub const LINKS_MAX: u32 = 40;

/// How often a path is walked for one call at most.
const TRIES_MAX: u32 = 16;

/// The treatment of a symbolic link at the end of the path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LastLink {
    /// Follow it.
    Follow,
    /// Answer the link itself.
    Keep,
}

/// A directory where a walk starts, and its path for display.
#[derive(Clone)]
pub struct Start {
    /// The directory.
    pub place: Place,
    /// Its path as the process sees it.
    pub path: Vec<u8>,
}

/// Something that a path leads to.
#[derive(Clone)]
pub struct Found {
    /// The node.
    pub place: Place,
    /// Its attributes.
    pub attributes: Attributes,
    /// Its path as the process sees it.
    pub path: Vec<u8>,
}

impl Found {
    /// Opens it at its server; returns its attributes now.
    ///
    /// # Errors
    /// ESTALE if it went since it was found: the path leads elsewhere by now. The server's.
    pub async fn open(&self) -> Result<Attributes, Errno> {
        Ok(self.place.system().open(self.place.node).await?)
    }

    /// Checks the rights of somebody to it: those of its bits, and in /proc those to look into a process.
    ///
    /// # Errors
    /// EACCES.
    pub fn check(&self, asker: &Asker, looker: Looker<'_>, wanted: u16) -> Result<(), Errno> {
        let by_bits = asker.check(&self.attributes, wanted);
        match self.place.system() {
            FileSystem::Proc(proc) if wanted != 0 => proc.check(self.place.node, looker, by_bits),
            _ => by_bits,
        }
    }
}

/// Repeats an attempt that walks a path, while its node goes before it is used (Linux: retry_estale).
///
/// # Errors
/// Those of `attempt`; ENOENT if the node went [`TRIES_MAX`] times, as a directory does that was removed while it was
/// in use.
pub async fn retry_stale<T, F: Future<Output = Result<T, Errno>>>(attempt: impl Fn() -> F) -> Result<T, Errno> {
    for _ in 0..TRIES_MAX {
        match attempt().await {
            Err(Errno::ESTALE) => {}
            outcome => return outcome,
        }
    }
    Err(Errno::ENOENT)
}

/// The end of a walk.
pub struct Walked {
    /// The directory of the last name; the directory itself if the path ends in ".", ".." or "/".
    pub parent: Found,
    /// The last name; empty if the path ends in ".", ".." or is "/".
    pub name: Vec<u8>,
    /// The target, if it exists.
    pub target: Option<Found>,
    /// An open file that the path names through /proc: a pipe or socket without a place of its own.
    pub open_file: Option<Arc<OpenFile>>,
    /// True if slashes follow the last name: it must be a directory.
    pub wants_directory: bool,
}

impl Walked {
    /// Returns the path of something made under the last name.
    pub fn new_path(&self) -> Vec<u8> {
        joined(&self.parent.path, &self.name)
    }

    /// Returns the target.
    ///
    /// # Errors
    /// ENOENT if there is none; ENOTDIR if a slash follows something else than a directory.
    pub fn existing(self) -> Result<Found, Errno> {
        let found = self.target.ok_or(Errno::ENOENT)?;
        if self.wants_directory && found.attributes.kind != NodeKind::Directory {
            return Err(Errno::ENOTDIR);
        }
        Ok(found)
    }
}

/// Walks paths for one system call.
pub struct Walker<'a> {
    /// The tenant's mounts.
    pub mounts: &'a MountTable,
    /// The process' root directory.
    pub root: Place,
    /// The rights of the caller.
    pub asker: Asker,
    /// The thread that looks into /proc; it has names of its own there.
    pub looker: Looker<'a>,
    /// Links that may still be followed.
    links_left: u32,
}

/// The outcome of looking at one name.
enum Step {
    /// Go on from here.
    At(Found),
    /// A link: the text to walk, from the root or from here.
    Link(Vec<u8>),
    /// A link of /proc that leads to an open file.
    Magic(Arc<OpenFile>),
    /// Nothing there.
    Missing,
}

impl<'a> Walker<'a> {
    /// Makes a walker for one call.
    pub fn new(mounts: &'a MountTable, root: Place, asker: Asker, looker: Looker<'a>) -> Walker<'a> {
        Walker { mounts, root, asker, looker, links_left: LINKS_MAX }
    }

    /// Walks `path` from `start`, or from the root if it begins with a slash.
    ///
    /// # Errors
    /// ENOENT (empty path, or a missing name before the last), ENOTDIR, EACCES, ELOOP, ENAMETOOLONG, those of the
    /// file system.
    pub async fn walk(&mut self, start: &Start, path: &[u8], last: LastLink) -> Result<Walked, Errno> {
        if path.is_empty() {
            return Err(Errno::ENOENT);
        }
        let mut at = self.begin(start, path).await?;
        let mut rest = path.to_vec();
        loop {
            let (name, tail) = next_name(&rest);
            if name.is_empty() {
                return Ok(ended(at));
            }
            let is_last = tail.iter().all(|byte| *byte == b'/');
            let wants_directory = !tail.is_empty();
            self.check_directory(&at)?;
            let follow = !is_last || last == LastLink::Follow || wants_directory;
            let is_dots = name == b"." || name == b"..";
            match self.step(&at, name, follow).await? {
                Step::Missing if !is_last => return Err(Errno::ENOENT),
                Step::Missing => return Ok(missing(at, name, wants_directory)),
                Step::At(found) if is_last && is_dots => return Ok(ended(found)),
                Step::At(found) if is_last => return Ok(arrived(at, name, found, wants_directory)),
                Step::At(found) => {
                    at = found;
                    rest = tail.to_vec();
                }
                Step::Magic(file) => match self.enter_magic(&at, name, &file, is_last).await? {
                    Some(found) if is_last => return Ok(arrived(at, name, found, wants_directory)),
                    Some(found) => {
                        at = found;
                        rest = tail.to_vec();
                    }
                    None => return Ok(magic(at, name, file)),
                },
                Step::Link(mut target) => {
                    target.extend_from_slice(tail);
                    if target.first() == Some(&b'/') {
                        at = self.begin(start, &target).await?;
                    }
                    rest = target;
                }
            }
        }
    }

    async fn begin(&self, start: &Start, path: &[u8]) -> Result<Found, Errno> {
        let (place, path) = if path.first() == Some(&b'/') {
            (self.root.clone(), b"/".to_vec())
        } else {
            (start.place.clone(), start.path.clone())
        };
        let attributes = place.system().attributes(place.node).await?;
        Ok(Found { place, attributes, path })
    }

    fn check_directory(&self, at: &Found) -> Result<(), Errno> {
        if at.attributes.kind != NodeKind::Directory {
            return Err(Errno::ENOTDIR);
        }
        at.check(&self.asker, self.looker, EXECUTE)
    }

    /// Looks at one name in `at`.
    async fn step(&mut self, at: &Found, name: &[u8], follow: bool) -> Result<Step, Errno> {
        if name.len() > NAME_BYTES_MAX {
            return Err(Errno::ENAMETOOLONG);
        }
        match name {
            b"." => return Ok(Step::At(at.clone())),
            b".." => return self.up(at).await.map(Step::At),
            _ => {}
        }
        let attributes = match at.place.system().lookup(at.place.node, name).await {
            Err(gyre_interface::files::FileError::NotFound) => return Ok(Step::Missing),
            answer => answer?,
        };
        if attributes.kind == NodeKind::SymbolicLink && follow {
            return self.follow(at, &attributes).await;
        }
        let place = Place { mount: at.place.mount.clone(), node: attributes.node };
        let path = joined(&at.path, name);
        self.cross(Found { place, attributes, path }).await.map(Step::At)
    }

    /// Goes from a covered directory to the root that covers it.
    async fn cross(&self, found: Found) -> Result<Found, Errno> {
        if found.attributes.kind != NodeKind::Directory {
            return Ok(found);
        }
        let Some(place) = self.mounts.over(&found.place) else {
            return Ok(found);
        };
        let attributes = place.system().attributes(place.node).await?;
        Ok(Found { place, attributes, ..found })
    }

    async fn follow(&mut self, at: &Found, link: &Attributes) -> Result<Step, Errno> {
        self.links_left = self.links_left.checked_sub(1).ok_or(Errno::ELOOP)?;
        if let FileSystem::Proc(proc) = at.place.system()
            && let Some(file) = proc.open_file(link.node, self.looker)?
        {
            return Ok(Step::Magic(file));
        }
        let target = at.place.system().read_link(link.node, self.looker).await?;
        if target.is_empty() {
            return Err(Errno::ENOENT);
        }
        Ok(Step::Link(target))
    }

    /// Returns the place behind an open file, if it has one.
    async fn enter_magic(
        &self,
        _at: &Found,
        _name: &[u8],
        file: &Arc<OpenFile>,
        is_last: bool,
    ) -> Result<Option<Found>, Errno> {
        let Some(place) = file.place() else {
            return if is_last { Ok(None) } else { Err(Errno::ENOTDIR) };
        };
        let attributes = place.system().attributes(place.node).await?;
        Ok(Some(Found { place: place.clone(), attributes, path: file.path().to_vec() }))
    }

    /// Returns the directory above, not beyond the process' root.
    async fn up(&self, at: &Found) -> Result<Found, Errno> {
        let mut place = at.place.clone();
        if place.same(&self.root) {
            return Ok(at.clone());
        }
        while place.is_mount_root() {
            let Some(covered) = place.mount.covers.clone() else {
                return Ok(at.clone());
            };
            place = covered;
        }
        let attributes = place.system().lookup(place.node, b"..").await?;
        let found = Found { place: Place { node: attributes.node, ..place }, attributes, path: parent_path(&at.path) };
        self.cross(found).await
    }
}

fn ended(found: Found) -> Walked {
    Walked { parent: found.clone(), name: Vec::new(), target: Some(found), open_file: None, wants_directory: true }
}

fn missing(parent: Found, name: &[u8], wants_directory: bool) -> Walked {
    Walked { parent, name: name.to_vec(), target: None, open_file: None, wants_directory }
}

fn arrived(parent: Found, name: &[u8], target: Found, wants_directory: bool) -> Walked {
    Walked { parent, name: name.to_vec(), target: Some(target), open_file: None, wants_directory }
}

fn magic(parent: Found, name: &[u8], file: Arc<OpenFile>) -> Walked {
    Walked { parent, name: name.to_vec(), target: None, open_file: Some(file), wants_directory: false }
}

/// Returns the first name of a path and its rest, slashes included.
pub(super) fn next_name(path: &[u8]) -> (&[u8], &[u8]) {
    let start = path.iter().position(|byte| *byte != b'/').unwrap_or(path.len());
    let path = path.get(start..).unwrap_or(&[]);
    let end = path.iter().position(|byte| *byte == b'/').unwrap_or(path.len());
    path.split_at(end)
}

fn joined(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(directory.len().saturating_add(name.len()).saturating_add(1));
    path.extend_from_slice(directory);
    if path.last() != Some(&b'/') {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

fn parent_path(path: &[u8]) -> Vec<u8> {
    match path.iter().rposition(|byte| *byte == b'/') {
        None | Some(0) => b"/".to_vec(),
        Some(at) => path.get(..at).unwrap_or(b"/").to_vec(),
    }
}
