//! Walks through the names that file systems have in memory: no message, no memory of the heap, no waiting.
//!
//! A walk gives up, before it has changed anything, at a symbolic link to follow, "..", /proc or a name that is not
//! in memory; then [`super::walk`] does it. Both check the same rights on the way.

use super::context::FileContext;
use super::mount::{Mount, Place};
use super::permission::{Asker, EXECUTE};
use super::walk::{LastLink, next_name};
use crate::{Errno, Thread};
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_interface::files::{Attributes, FileError, NAME_BYTES_MAX, NodeId, NodeKind};
use gyre_interface::near::Near;

/// Longest path that is walked so, the NUL included, bytes.
pub(super) const PATH_BYTES: usize = 128;

/// A path, copied from the program.
pub(super) struct ShortPath {
    bytes: [u8; PATH_BYTES],
    count: usize,
}

impl ShortPath {
    /// Reads a path that lies in memory that is there.
    pub(super) fn read(thread: &Thread, address: u64) -> Option<ShortPath> {
        let mut bytes = [0; PATH_BYTES];
        let count = thread.with_space(|space| space.string_at_once(address, &mut bytes))?;
        Some(ShortPath { bytes, count })
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        self.bytes.get(..self.count).unwrap_or_default()
    }
}

/// The target of a path.
pub(super) struct NearFound {
    pub(super) place: Place,
    pub(super) attributes: Attributes,
}

/// How far a walk came in one file system.
enum Stop {
    Found(Attributes),
    /// Another file system covers the directory; so much of the path is left.
    Covered(Place, usize),
}

/// Something that is done with the node at the end in the same visit, after it was found: opening it.
pub(super) trait Last {
    /// `None` gives up.
    fn reached(&self, near: &'static dyn Near, found: Attributes) -> Option<Result<Attributes, Errno>>;
}

/// Nothing.
pub(super) struct Look;

impl Last for Look {
    fn reached(&self, _near: &'static dyn Near, found: Attributes) -> Option<Result<Attributes, Errno>> {
        Some(Ok(found))
    }
}

/// Walks a path from the root, the current directory or an open one.
pub(super) fn walk(
    context: &FileContext,
    asker: &Asker,
    directory: i32,
    path: &[u8],
    link: LastLink,
    last: &impl Last,
) -> Option<Result<NearFound, Errno>> {
    if path.is_empty() {
        return None;
    }
    let mut place = context.near_start(directory, path)?;
    let mut rest = path;
    loop {
        let walk = Walk { context, asker, mount: &place.mount, link, last };
        let node = place.node;
        let stop = match place.system().visit(|near| walk.in_one(near, node, rest))?? {
            Ok(stop) => stop,
            Err(error) => return Some(Err(error)),
        };
        match stop {
            Stop::Found(attributes) => {
                let place = Place { node: attributes.node, ..place };
                return Some(Ok(NearFound { place, attributes }));
            }
            Stop::Covered(over, left) => {
                rest = path.get(path.len().checked_sub(left)?..)?;
                place = over;
            }
        }
    }
}

struct Walk<'a, L> {
    context: &'a FileContext,
    asker: &'a Asker,
    mount: &'a Arc<Mount>,
    link: LastLink,
    last: &'a L,
}

impl<L: Last> Walk<'_, L> {
    /// Walks as far as the path stays in one file system.
    fn in_one(&self, near: &'static dyn Near, start: NodeId, path: &[u8]) -> Option<Result<Stop, Errno>> {
        let mut at = near.attributes(start)?.ok()?;
        let mut rest = path;
        loop {
            let (name, tail) = next_name(rest);
            if name.is_empty() {
                return self.reached(near, at);
            }
            if let Err(error) = self.check(&at, name) {
                return Some(Err(error));
            }
            rest = tail;
            match name {
                b"." => continue,
                b".." => return None,
                _ => {}
            }
            let is_last = tail.iter().all(|byte| *byte == b'/');
            at = match near.lookup(at.node, name)? {
                Ok(found) => found,
                Err(FileError::NotFound) => return Some(Err(Errno::ENOENT)),
                Err(_) => return None,
            };
            match at.kind {
                NodeKind::SymbolicLink if !is_last || !tail.is_empty() || self.link == LastLink::Follow => return None,
                NodeKind::Directory => {
                    if let Some(over) = self.context.tenant().mounts.over_key((self.mount.id, at.node)) {
                        return Some(Ok(Stop::Covered(over, tail.len())));
                    }
                }
                _ if is_last && !tail.is_empty() => return Some(Err(Errno::ENOTDIR)),
                _ => {}
            }
        }
    }

    fn reached(&self, near: &'static dyn Near, found: Attributes) -> Option<Result<Stop, Errno>> {
        Some(self.last.reached(near, found)?.map(Stop::Found))
    }

    fn check(&self, directory: &Attributes, name: &[u8]) -> Result<(), Errno> {
        if directory.kind != NodeKind::Directory {
            return Err(Errno::ENOTDIR);
        }
        self.asker.check(directory, EXECUTE)?;
        if name.len() > NAME_BYTES_MAX { Err(Errno::ENAMETOOLONG) } else { Ok(()) }
    }
}

/// Returns the path as the process sees it, without doubled slashes and dots.
pub(super) fn shown_path(context: &FileContext, directory: i32, path: &[u8]) -> Option<Vec<u8>> {
    let mut shown = Vec::with_capacity(path.len().saturating_add(1));
    if path.first() != Some(&b'/') {
        shown = context.near_path(directory)?;
    }
    let mut rest = path;
    loop {
        let (name, tail) = next_name(rest);
        rest = tail;
        match name {
            b"" => break,
            b"." => continue,
            _ => {}
        }
        if shown.last() != Some(&b'/') {
            shown.push(b'/');
        }
        shown.extend_from_slice(name);
    }
    if shown.is_empty() {
        shown.push(b'/');
    }
    Some(shown)
}
