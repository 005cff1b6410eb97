//! The users, groups and capabilities that a thread acts with (credentials(7), capabilities(7)).
//!
//! Each thread has its own, as on Linux: the C library changes those of all threads by a signal. A request for a
//! process means its first thread.

mod capabilities;
pub mod login;
mod set;
#[cfg(test)]
mod tests;

pub use capabilities::{Capabilities, Execution, SecureBits, Wanted};
pub use set::{CAPABILITY_LAST, Capability, CapabilitySet};

use crate::Errno;
use alloc::vec::Vec;

/// The three users of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Users {
    /// The user that started it.
    pub real: u32,
    /// The user that it acts as.
    pub effective: u32,
    /// The user that it may act as again.
    pub saved: u32,
}

impl Users {
    /// Returns whether one of them is the superuser.
    #[must_use]
    pub fn has_root(self) -> bool {
        [self.real, self.effective, self.saved].contains(&0)
    }
}

/// The users, groups and capabilities that a thread acts with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Credentials {
    /// Real user.
    pub user: u32,
    /// Effective user.
    pub user_effective: u32,
    /// Saved user.
    pub user_saved: u32,
    /// The user that file systems see (setfsuid).
    pub user_of_files: u32,
    /// Real group.
    pub group: u32,
    /// Effective group.
    pub group_effective: u32,
    /// Saved group.
    pub group_saved: u32,
    /// The group that file systems see (setfsgid).
    pub group_of_files: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
    /// Its rights beyond its user's.
    pub capabilities: Capabilities,
}

/// The superuser's.
impl Default for Credentials {
    fn default() -> Self {
        Credentials::of_user(0, 0)
    }
}

impl Credentials {
    /// Returns the credentials of a user and a group without any other identity.
    #[must_use]
    pub fn of_user(user: u32, group: u32) -> Credentials {
        Credentials {
            user,
            user_effective: user,
            user_saved: user,
            user_of_files: user,
            group,
            group_effective: group,
            group_saved: group,
            group_of_files: group,
            groups: Vec::new(),
            capabilities: if user == 0 { Capabilities::ROOT } else { Capabilities::USER },
        }
    }

    /// Returns whether it has this capability and it counts.
    #[must_use]
    pub fn has(&self, capability: Capability) -> bool {
        self.capabilities.effective.has(capability)
    }

    /// Refuses a thread without this capability.
    ///
    /// # Errors
    /// EPERM.
    pub fn needs(&self, capability: Capability) -> Result<(), Errno> {
        if self.has(capability) { Ok(()) } else { Err(Errno::EPERM) }
    }

    /// Returns its three users.
    #[must_use]
    pub fn users(&self) -> Users {
        Users { real: self.user, effective: self.user_effective, saved: self.user_saved }
    }

    /// Changes its three users; the file system user follows the effective one, the capabilities follow as capabilities(7) says.
    pub fn set_users(&mut self, after: Users) {
        let before = self.users();
        (self.user, self.user_effective, self.user_saved) = (after.real, after.effective, after.saved);
        self.user_of_files = after.effective;
        self.capabilities = self.capabilities.users_changed(before, after);
    }

    /// Changes the user that file systems see; returns the one before. Without CAP_SETUID only one of the other three
    /// is taken.
    pub fn set_user_of_files(&mut self, user: u32) -> u32 {
        let before = self.user_of_files;
        let own = [self.user, self.user_effective, self.user_saved, before];
        if own.contains(&user) || self.has(Capability::Setuid) && user != u32::MAX {
            self.user_of_files = user;
            self.capabilities = self.capabilities.file_user_changed(before, user);
        }
        before
    }

    /// Changes the group that file systems see; answers which it was. Without CAP_SETGID only one of the other three is taken.
    pub fn set_group_of_files(&mut self, group: u32) -> u32 {
        let before = self.group_of_files;
        let own = [self.group, self.group_effective, self.group_saved, before];
        if own.contains(&group) || self.has(Capability::Setgid) && group != u32::MAX {
            self.group_of_files = group;
        }
        before
    }

    /// Takes the identity of an executed file of this owner and group, if its mode says so (execve(2)).
    pub fn execute(&mut self, identity: Identity, gains_nothing: bool) {
        self.user_effective = identity.user.unwrap_or(self.user_effective);
        self.group_effective = identity.group.unwrap_or(self.group_effective);
        let execution = Execution {
            users: self.users(),
            changes_identity: self.user_effective != self.user || self.group_effective != self.group,
            gains_nothing,
        };
        self.capabilities = self.capabilities.executed(execution);
        self.user_saved = self.user_effective;
        self.user_of_files = self.user_effective;
        self.group_saved = self.group_effective;
        self.group_of_files = self.group_effective;
    }
}

/// The part of credentials by which a process acts on others and on files.
pub(crate) struct Power {
    ids: [u32; 4],
    permitted: CapabilitySet,
}

impl Power {
    /// Returns whether nothing was gained, and the ids are as they were.
    pub(crate) fn is_within(&self, before: &Power) -> bool {
        self.ids == before.ids && self.permitted.is_within(before.permitted)
    }
}

impl Credentials {
    /// Returns its power.
    pub(crate) fn power(&self) -> Power {
        let ids = [self.user_effective, self.user_of_files, self.group_effective, self.group_of_files];
        Power { ids, permitted: self.capabilities.permitted }
    }

    /// Returns whether a program that runs with these must not trust its environment, since `before` started it (AT_SECURE).
    #[must_use]
    pub fn is_secure_after(&self, before: &Credentials) -> bool {
        let gained = !self.capabilities.permitted.is_within(self.capabilities.ambient);
        self.user_effective != before.user || self.group_effective != before.group || self.user != 0 && gained
    }
}

/// The user and the group that a program's file makes effective (set-user-id, set-group-id).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Identity {
    /// The file's owner, with set-user-id.
    pub user: Option<u32>,
    /// The file's group, with set-group-id.
    pub group: Option<u32>,
}
