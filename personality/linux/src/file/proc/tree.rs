//! Trees of files that are made up at each look and belong to the whole tenant: /proc without its processes, and /sys.
//!
//! A tree is a list of rows: a path from the root without a leading slash, and its [`Body`]. Directories have rows of their own. To add a
//! file: a row and, if the text changes, its function. A node is the index of its row; the first row is the root.

use super::ProcFs;
use crate::ipc;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::future::Future;
use core::pin::Pin;
use gyre_interface::files::{FileError, NodeKind};

/// The contents of a row.
pub(super) enum Body {
    Directory,
    Link(&'static str),
    /// /proc/self: the caller's process.
    SelfLink,
    /// /proc/thread-self.
    ThreadSelf,
    Text(fn(&ProcFs) -> String),
    /// A text for which others are asked.
    Waits(for<'a> fn(&'a ProcFs) -> Making<'a>),
    /// The numbers of all processes.
    Processes,
    /// The objects of a kind.
    Objects(ipc::Kind),
    /// A name that privileged programs may change.
    Name(Name),
    /// A number that privileged programs may change, at most the second one; the first one holds until then.
    Number(u64, u64),
}

/// A name of the tenant.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Name {
    /// The node name of uname.
    Host,
    /// The domain name of uname.
    Domain,
}

/// The making of a text.
pub(super) type Making<'a> = Pin<Box<dyn Future<Output = String> + Send + 'a>>;

/// A path and its contents.
pub(super) type Row = (&'static str, Body);

/// A tree.
pub(super) struct Tree {
    pub(super) rows: &'static [Row],
    /// The file system's magic number for statfs.
    pub(super) magic: u64,
    /// Returns whether there is a row's file on this machine now.
    pub(super) is_there: fn(&str) -> bool,
}

/// Splits a path into its directory and its name.
fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

impl Tree {
    fn row(&self, index: usize) -> Option<&'static Row> {
        self.rows.get(index).filter(|row| (self.is_there)(row.0))
    }

    /// Returns kind and permission bits.
    pub(super) fn shape(&self, index: usize) -> Option<(NodeKind, u16)> {
        Some(match self.row(index)?.1 {
            Body::Directory => (NodeKind::Directory, 0o555),
            Body::Link(_) | Body::SelfLink | Body::ThreadSelf => (NodeKind::SymbolicLink, 0o777),
            Body::Text(_) | Body::Waits(_) | Body::Processes | Body::Objects(_) => (NodeKind::File, 0o444),
            Body::Name(_) | Body::Number(..) => (NodeKind::File, 0o644),
        })
    }

    /// Returns the directory of a row; the root is its own.
    pub(super) fn parent(&self, index: usize) -> usize {
        let directory = self.rows.get(index).map_or("", |row| split(row.0).0);
        self.rows.iter().position(|row| row.0 == directory).unwrap_or(0)
    }

    /// Names and indexes in a directory.
    pub(super) fn children(&self, directory: usize) -> impl Iterator<Item = (&'static str, usize)> {
        let here = self.rows.get(directory).map_or("", |row| row.0);
        let rows = self.rows.iter().enumerate().skip(1).filter(|(_, row)| (self.is_there)(row.0));
        rows.map(|(index, row)| (split(row.0), index))
            .filter(move |(path, _)| path.0 == here)
            .map(|(path, index)| (path.1, index))
    }

    /// Returns the index of a name in a directory.
    pub(super) fn child(&self, directory: usize, name: &[u8]) -> Option<usize> {
        self.children(directory).find(|(other, _)| other.as_bytes() == name).map(|found| found.1)
    }

    /// Returns the target of a link.
    pub(super) fn link(&self, index: usize) -> Option<&'static str> {
        match self.row(index)?.1 {
            Body::Link(target) => Some(target),
            _ => None,
        }
    }

    pub(super) fn is_self(&self, index: usize) -> bool {
        matches!(self.row(index), Some((_, Body::SelfLink)))
    }

    pub(super) fn is_thread_self(&self, index: usize) -> bool {
        matches!(self.row(index), Some((_, Body::ThreadSelf)))
    }

    /// Returns true for the file of all processes' numbers, whose text is made in turns.
    pub(super) fn lists_processes(&self, index: usize) -> bool {
        matches!(self.row(index), Some((_, Body::Processes)))
    }

    /// Returns the kind of objects that a file lists, whose text is made in turns.
    pub(super) fn list_of(&self, index: usize) -> Option<ipc::Kind> {
        match self.row(index)?.1 {
            Body::Objects(kind) => Some(kind),
            _ => None,
        }
    }

    /// Returns what makes a text for which others are asked.
    pub(super) fn waiting(&self, index: usize) -> Option<for<'a> fn(&'a ProcFs) -> Making<'a>> {
        match self.row(index)?.1 {
            Body::Waits(make) => Some(make),
            _ => None,
        }
    }

    /// Returns the text of a file.
    ///
    /// # Errors
    /// NotFound; IsDirectory; Invalid for links and for long texts.
    pub(super) fn contents(&self, proc: &ProcFs, index: usize) -> Result<Vec<u8>, FileError> {
        match &self.row(index).ok_or(FileError::NotFound)?.1 {
            Body::Text(make) => Ok(make(proc).into_bytes()),
            Body::Name(name) => Ok(format!("{}\n", proc.name(*name)).into_bytes()),
            Body::Number(first, _) => Ok(format!("{}\n", proc.number(index).unwrap_or(*first)).into_bytes()),
            Body::Directory => Err(FileError::IsDirectory),
            Body::Link(_) | Body::SelfLink | Body::ThreadSelf | Body::Waits(_) | Body::Processes | Body::Objects(_) => {
                Err(FileError::Invalid)
            }
        }
    }

    /// Writes a file of the tenant.
    ///
    /// # Errors
    /// ReadOnly; Invalid for what is no number or too large.
    pub(super) fn write(&self, proc: &ProcFs, index: usize, text: &[u8]) -> Result<(), FileError> {
        let text = text.trim_ascii();
        match &self.row(index).ok_or(FileError::NotFound)?.1 {
            Body::Name(name) => proc.set_name(*name, text),
            Body::Number(_, most) => {
                let number: Option<u64> = core::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
                proc.set_number(index, number.filter(|number| number <= most).ok_or(FileError::Invalid)?);
                Ok(())
            }
            _ => Err(FileError::ReadOnly),
        }
    }

    /// Returns a number by its path: the one that was written, or the first one.
    pub(super) fn number_at(&self, proc: &ProcFs, path: &str) -> Option<u64> {
        let index = self.rows.iter().position(|row| row.0 == path)?;
        match self.rows.get(index)?.1 {
            Body::Number(first, _) => Some(proc.number(index).unwrap_or(first)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{fixed, system};
    use super::*;

    #[test]
    fn each_row_has_a_directory_and_no_other_row_its_path() {
        for tree in [&fixed::TREE, &system::TREE] {
            for (index, (path, _)) in tree.rows.iter().enumerate() {
                let parent = tree.rows.get(tree.parent(index)).expect("a row");
                assert!(matches!(parent.1, Body::Directory), "{path} is in {}", parent.0);
                assert_eq!(parent.0, split(path).0, "{path} has no directory");
                assert!(tree.rows.iter().filter(|row| row.0 == *path).count() == 1, "{path} is there twice");
            }
        }
    }
}
