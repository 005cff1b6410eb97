//! Owner, maker and mode of an object of System V (`struct ipc_perm`, sysvipc(7)).
//!
//! Effective user and groups count (Linux: ipcperms in ipc/util.c), not those of setfsuid.

use super::{READ, WRITE};
use crate::Errno;
use crate::credentials::Capability;
use crate::file::permission::Asker;

/// Bytes of `struct ipc64_perm`.
pub const BYTES: usize = 48;
/// The bits of a mode that are kept.
const MODE: u32 = 0o777;
/// No user and no group.
const NOBODY: u32 = u32::MAX;

/// The owner and the rights of an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Permission {
    /// The key; 0 (IPC_PRIVATE) if it has none.
    pub key: u32,
    /// User and group that own it.
    pub owner: (u32, u32),
    /// User and group that made it.
    pub maker: (u32, u32),
    /// The rights of owner, group and others.
    pub mode: u32,
}

impl Permission {
    /// Makes the permission of an object that `asker` makes; the lowest nine bits of `mode` count.
    pub fn new(asker: &Asker, key: u32, mode: u32) -> Permission {
        let who = (asker.user, asker.group);
        Permission { key, owner: who, maker: who, mode: mode & MODE }
    }

    /// Returns the rights that the flags of an xxxget call ask for: 4 to read, 2 to write, 1 that no call needs.
    pub fn wanted(flags: u32) -> u32 {
        (flags | flags >> 3 | flags >> 6) & 7
    }

    /// Checks rights: a sum of 4 to read and 2 to write.
    ///
    /// # Errors
    /// EACCES.
    pub fn check(&self, asker: &Asker, wanted: u32) -> Result<(), Errno> {
        let part = match () {
            () if asker.user == self.owner.0 || asker.user == self.maker.0 => self.mode >> 6,
            () if asker.in_group(self.owner.1) || asker.in_group(self.maker.1) => self.mode >> 3,
            () => self.mode,
        };
        match part & wanted == wanted || asker.has(Capability::IpcOwner) {
            true => Ok(()),
            false => Err(Errno::EACCES),
        }
    }

    /// Checks that the asker may read.
    ///
    /// # Errors
    /// EACCES.
    pub fn check_read(&self, asker: &Asker) -> Result<(), Errno> {
        self.check(asker, READ)
    }

    /// Checks that the asker may write.
    ///
    /// # Errors
    /// EACCES.
    pub fn check_write(&self, asker: &Asker) -> Result<(), Errno> {
        self.check(asker, WRITE)
    }

    /// Checks that the asker may change or remove the object: its owner, its maker, or CAP_SYS_ADMIN.
    ///
    /// # Errors
    /// EPERM.
    pub fn check_owner(&self, asker: &Asker) -> Result<(), Errno> {
        let may = self.is_owned_by(asker) || asker.has(Capability::SysAdmin);
        if may { Ok(()) } else { Err(Errno::EPERM) }
    }

    /// Returns whether the asker is its owner or its maker.
    pub fn is_owned_by(&self, asker: &Asker) -> bool {
        asker.user == self.owner.0 || asker.user == self.maker.0
    }

    /// Takes owner and mode from the first [`BYTES`] of a structure that IPC_SET gave.
    ///
    /// # Errors
    /// EINVAL for nobody as owner.
    pub fn set(&mut self, given: &[u8]) -> Result<(), Errno> {
        let field =
            |at: usize| given.get(at..).and_then(|raw| raw.first_chunk()).map_or(0, |raw| u32::from_le_bytes(*raw));
        let owner = (field(4), field(8));
        if owner.0 == NOBODY || owner.1 == NOBODY {
            return Err(Errno::EINVAL);
        }
        (self.owner, self.mode) = (owner, field(20) & MODE);
        Ok(())
    }

    /// Returns it as `struct ipc64_perm` of x86-64, with the sequence of the object's number and `more` bits of the mode.
    pub fn encode(&self, sequence: u32, more: u32) -> [u8; BYTES] {
        let Permission { key, owner, maker, mode } = *self;
        super::words(&[key, owner.0, owner.1, maker.0, maker.1, mode | more, sequence & 0xffff])
    }
}
