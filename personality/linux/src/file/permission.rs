//! Who may do what to a node: owner, group, others, and the superuser (path_resolution(7)).

use crate::{Errno, Thread};
use gyre_interface::files::{Attributes, NodeKind};

/// To read.
pub const READ: u16 = 4;
/// To write.
pub const WRITE: u16 = 2;
/// To execute, or to search a directory.
pub const EXECUTE: u16 = 1;

/// Who asks.
#[derive(Clone, Debug)]
pub struct Asker {
    /// User.
    pub user: u32,
    /// Group.
    pub group: u32,
    /// Further groups.
    pub groups: alloc::vec::Vec<u32>,
}

impl Asker {
    /// The effective identity of a thread, which counts for everything but `access`.
    pub fn of(thread: &Thread) -> Asker {
        thread.process().with_credentials(|who| Asker {
            user: who.user_effective,
            group: who.group_effective,
            groups: who.groups.clone(),
        })
    }

    /// The real identity of a thread, for `access`.
    pub fn real(thread: &Thread) -> Asker {
        let credentials = thread.process().credentials();
        Asker { user: credentials.user, group: credentials.group, groups: credentials.groups }
    }

    /// True for user 0, who passes checks of files.
    pub fn is_super(&self) -> bool {
        self.user == 0
    }

    /// True where it is a member of `group`.
    pub fn in_group(&self, group: u32) -> bool {
        self.group == group || self.groups.contains(&group)
    }

    /// True where it owns the node, or is the superuser.
    pub fn owns(&self, attributes: &Attributes) -> bool {
        self.is_super() || self.user == attributes.user
    }

    /// Checks `wanted` (a sum of [`READ`], [`WRITE`], [`EXECUTE`]).
    ///
    /// # Errors
    /// EACCES.
    pub fn check(&self, attributes: &Attributes, wanted: u16) -> Result<(), Errno> {
        if self.permits(attributes, wanted) { Ok(()) } else { Err(Errno::EACCES) }
    }

    fn permits(&self, attributes: &Attributes, wanted: u16) -> bool {
        if self.is_super() {
            let executable = attributes.mode & 0o111 != 0 || attributes.kind == NodeKind::Directory;
            return wanted & EXECUTE == 0 || executable;
        }
        let bits = if self.user == attributes.user {
            attributes.mode >> 6
        } else if self.in_group(attributes.group) {
            attributes.mode >> 3
        } else {
            attributes.mode
        };
        bits & wanted == wanted
    }

    /// Checks that a name in `directory` may be removed, when its node is `node`: a sticky directory protects others' names.
    ///
    /// # Errors
    /// EPERM.
    pub fn check_sticky(&self, directory: &Attributes, node: &Attributes) -> Result<(), Errno> {
        let protected = directory.mode & 0o1000 != 0;
        if protected && !self.owns(directory) && !self.owns(node) {
            return Err(Errno::EPERM);
        }
        Ok(())
    }
}
