//! The rights to a node: owner, group, others, and the superuser (path_resolution(7)).

use crate::credentials::{Capability, CapabilitySet, Credentials};
use crate::{Errno, Thread};
use gyre_interface::files::{Attributes, NodeKind};

/// To read.
pub const READ: u16 = 4;
/// To write.
pub const WRITE: u16 = 2;
/// To execute, or to search a directory.
pub const EXECUTE: u16 = 1;

/// The user, groups and capabilities of a caller.
#[derive(Clone, Debug)]
pub struct Asker {
    /// User.
    pub user: u32,
    /// Group.
    pub group: u32,
    /// Further groups.
    pub groups: alloc::vec::Vec<u32>,
    /// The capabilities that count.
    pub capabilities: CapabilitySet,
}

impl Asker {
    /// Returns the identity of a thread for file systems, which counts for everything but `access`.
    pub fn of(thread: &Thread) -> Asker {
        thread.with_credentials(|who| Asker {
            user: who.user_of_files,
            group: who.group_of_files,
            groups: who.groups.clone(),
            capabilities: who.capabilities.effective,
        })
    }

    /// Returns the effective identity of a thread, which counts for objects that are no files.
    pub fn effective(thread: &Thread) -> Asker {
        thread.with_credentials(|who| Asker {
            user: who.user_effective,
            group: who.group_effective,
            groups: who.groups.clone(),
            capabilities: who.capabilities.effective,
        })
    }

    /// Returns the real identity of a thread, for `access`.
    pub fn real(thread: &Thread) -> Asker {
        let Credentials { user, group, groups, capabilities, .. } = thread.credentials();
        Asker { user, group, groups, capabilities: capabilities.of_real_user(user) }
    }

    /// Returns the machine's owner, which passes all checks of files.
    pub fn owner_of_the_machine() -> Asker {
        Asker { user: 0, group: 0, groups: alloc::vec::Vec::new(), capabilities: CapabilitySet::ALL }
    }

    /// Returns whether this capability counts.
    pub fn has(&self, capability: Capability) -> bool {
        self.capabilities.has(capability)
    }

    /// Refuses a caller without a capability.
    ///
    /// # Errors
    /// EPERM.
    pub fn needs(&self, capability: Capability) -> Result<(), Errno> {
        if self.has(capability) { Ok(()) } else { Err(Errno::EPERM) }
    }

    /// Returns whether it is a member of `group`.
    pub fn in_group(&self, group: u32) -> bool {
        self.group == group || self.groups.contains(&group)
    }

    /// Returns whether it owns the node, or may act as its owner.
    pub fn owns(&self, attributes: &Attributes) -> bool {
        self.user == attributes.user || self.has(Capability::Fowner)
    }

    /// Checks `wanted` (a sum of [`READ`], [`WRITE`], [`EXECUTE`]).
    ///
    /// # Errors
    /// EACCES.
    pub fn check(&self, attributes: &Attributes, wanted: u16) -> Result<(), Errno> {
        if self.permits(attributes, wanted) { Ok(()) } else { Err(Errno::EACCES) }
    }

    fn permits(&self, attributes: &Attributes, wanted: u16) -> bool {
        let bits = if self.user == attributes.user {
            attributes.mode >> 6
        } else if self.in_group(attributes.group) {
            attributes.mode >> 3
        } else {
            attributes.mode
        };
        bits & wanted == wanted || self.overrides(attributes, wanted)
    }

    /// Returns whether a capability stands for the permission bits (capabilities(7), CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH).
    fn overrides(&self, attributes: &Attributes, wanted: u16) -> bool {
        let is_directory = attributes.kind == NodeKind::Directory;
        let reads_only = if is_directory { wanted & WRITE == 0 } else { wanted == READ };
        let may_execute = wanted & EXECUTE == 0 || attributes.mode & 0o111 != 0 || is_directory;
        may_execute && self.has(Capability::DacOverride) || reads_only && self.has(Capability::DacReadSearch)
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
