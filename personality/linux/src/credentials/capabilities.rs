//! The capabilities of a thread and how calls change them (capabilities(7); Linux: security/commoncap.c).
//!
//! Pure: each rule answers the new capabilities, or EPERM and changes nothing. The caller stores the answer in the
//! thread's credentials.
//!
//! * [`Capabilities::changed`] is capset, [`Capabilities::users_changed`] and [`Capabilities::file_user_changed`] the
//!   setuid family.
//! * [`Capabilities::executed`] is execve. Files have no capabilities of their own here; user 0 stands for all of them
//!   unless `NO_ROOT` is set.
//! * [`Capabilities::bounded`], [`Capabilities::secured`] and [`Capabilities::with_ambient`] are calls of prctl.
//!
//! Always true: effective is within permitted, and ambient is within permitted and inheritable. A lock among the
//! secure bits is never taken back.

use super::Users;
use super::set::{Capability, CapabilitySet};
use crate::Errno;
use bitflags::bitflags;

bitflags! {
    /// How capabilities follow the user (SECBIT_* of `linux/securebits.h`).
    #[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
    pub struct SecureBits: u32 {
        /// User 0 gets no capabilities by execve.
        const NO_ROOT = 1 << 0;
        /// [`SecureBits::NO_ROOT`] stays as it is.
        const NO_ROOT_LOCKED = 1 << 1;
        /// A change of users changes no capabilities.
        const NO_SETUID_FIXUP = 1 << 2;
        /// [`SecureBits::NO_SETUID_FIXUP`] stays as it is.
        const NO_SETUID_FIXUP_LOCKED = 1 << 3;
        /// Permitted ones stay if all users become others than 0 (PR_SET_KEEPCAPS); execve clears it.
        const KEEP_CAPS = 1 << 4;
        /// [`SecureBits::KEEP_CAPS`] stays as it is.
        const KEEP_CAPS_LOCKED = 1 << 5;
        /// Nothing is added to the ambient set.
        const NO_AMBIENT_RAISE = 1 << 6;
        /// [`SecureBits::NO_AMBIENT_RAISE`] stays as it is.
        const NO_AMBIENT_RAISE_LOCKED = 1 << 7;
    }
}

/// The bits of [`SecureBits`] that lock the one below each.
const LOCKS: u32 = 0xaa;

/// The three sets that capset names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// Those that count.
    pub effective: CapabilitySet,
    /// Those that may be made to count.
    pub permitted: CapabilitySet,
    /// Those that a program may get by execve.
    pub inheritable: CapabilitySet,
}

/// The capabilities of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capabilities {
    /// Those that count.
    pub effective: CapabilitySet,
    /// Those that may be made to count.
    pub permitted: CapabilitySet,
    /// Those that a program may get by execve, if its file says so.
    pub inheritable: CapabilitySet,
    /// No other can be got by execve.
    pub bounding: CapabilitySet,
    /// Those that stay over an execve of an ordinary file.
    pub ambient: CapabilitySet,
    /// How they follow the user.
    pub secure: SecureBits,
}

/// A program that is about to take over, for [`Capabilities::executed`].
#[derive(Clone, Copy, Debug)]
pub struct Execution {
    /// The users with which it would run.
    pub users: Users,
    /// True if its file changes the effective user or group.
    pub changes_identity: bool,
    /// True if the process gave up new privileges (PR_SET_NO_NEW_PRIVS).
    pub gains_nothing: bool,
}

impl Capabilities {
    /// Those of the superuser.
    pub const ROOT: Capabilities = Capabilities {
        effective: CapabilitySet::ALL,
        permitted: CapabilitySet::ALL,
        inheritable: CapabilitySet::EMPTY,
        bounding: CapabilitySet::ALL,
        ambient: CapabilitySet::EMPTY,
        secure: SecureBits::empty(),
    };
    /// Those of an ordinary user.
    pub const USER: Capabilities =
        Capabilities { effective: CapabilitySet::EMPTY, permitted: CapabilitySet::EMPTY, ..Capabilities::ROOT };

    /// Returns them after capset.
    ///
    /// # Errors
    /// EPERM if one is wanted that the thread has not, or may not inherit.
    pub fn changed(self, wanted: Wanted) -> Result<Capabilities, Errno> {
        let may_inherit = match self.effective.has(Capability::Setpcap) {
            true => self.bounding,
            false => self.permitted.and(self.bounding),
        };
        let is_allowed = wanted.inheritable.is_within(self.inheritable.or(may_inherit))
            && wanted.permitted.is_within(self.permitted)
            && wanted.effective.is_within(wanted.permitted);
        if !is_allowed {
            return Err(Errno::EPERM);
        }
        Ok(Capabilities {
            effective: wanted.effective,
            permitted: wanted.permitted,
            inheritable: wanted.inheritable,
            ambient: self.ambient.and(wanted.permitted).and(wanted.inheritable),
            ..self
        })
    }

    /// Returns them after a change of the real, effective and saved user.
    #[must_use]
    pub fn users_changed(mut self, before: Users, after: Users) -> Capabilities {
        if self.secure.contains(SecureBits::NO_SETUID_FIXUP) {
            return self;
        }
        if before.has_root() && !after.has_root() {
            if !self.secure.contains(SecureBits::KEEP_CAPS) {
                self.permitted = CapabilitySet::EMPTY;
                self.effective = CapabilitySet::EMPTY;
            }
            self.ambient = CapabilitySet::EMPTY;
        }
        match (before.effective, after.effective) {
            (0, 0) => {}
            (0, _) => self.effective = CapabilitySet::EMPTY,
            (_, 0) => self.effective = self.permitted,
            _ => {}
        }
        self
    }

    /// Returns them after a change of the file system user.
    #[must_use]
    pub fn file_user_changed(mut self, before: u32, after: u32) -> Capabilities {
        if self.secure.contains(SecureBits::NO_SETUID_FIXUP) {
            return self;
        }
        match (before, after) {
            (0, 0) => {}
            (0, _) => self.effective = self.effective.without(CapabilitySet::OF_FILES),
            (_, 0) => self.effective = self.effective.or(self.permitted.and(CapabilitySet::OF_FILES)),
            _ => {}
        }
        self
    }

    /// Returns them after execve. Files have no capabilities of their own here.
    #[must_use]
    pub fn executed(self, program: Execution) -> Capabilities {
        let follows_root = !self.secure.contains(SecureBits::NO_ROOT);
        let is_root = follows_root && (program.users.real == 0 || program.users.effective == 0);
        let of_root = if is_root { self.bounding.or(self.inheritable) } else { CapabilitySet::EMPTY };
        let of_file = if program.gains_nothing { of_root.and(self.permitted) } else { of_root };
        let ambient = if program.changes_identity { CapabilitySet::EMPTY } else { self.ambient };
        let permitted = of_file.or(ambient);
        let effective = if follows_root && program.users.effective == 0 { permitted } else { ambient };
        Capabilities { effective, permitted, ambient, secure: self.secure.difference(SecureBits::KEEP_CAPS), ..self }
    }

    /// Returns the set that counts for access(2), which asks for the real user.
    #[must_use]
    pub fn of_real_user(self, user: u32) -> CapabilitySet {
        match (self.secure.contains(SecureBits::NO_SETUID_FIXUP), user) {
            (true, _) => self.effective,
            (false, 0) => self.permitted,
            (false, _) => CapabilitySet::EMPTY,
        }
    }

    /// Takes `lost` out of the bounding set, for ever.
    ///
    /// # Errors
    /// EPERM without CAP_SETPCAP.
    pub fn bounded(self, lost: CapabilitySet) -> Result<Capabilities, Errno> {
        self.needs(Capability::Setpcap)?;
        Ok(Capabilities { bounding: self.bounding.without(lost), ..self })
    }

    /// Returns them with other secure bits (PR_SET_SECUREBITS).
    ///
    /// # Errors
    /// EPERM without CAP_SETPCAP, for bits that do not exist, and if a lock forbids it.
    pub fn secured(self, wanted: u64) -> Result<Capabilities, Errno> {
        let wanted = u32::try_from(wanted).ok().and_then(SecureBits::from_bits).ok_or(Errno::EPERM)?;
        let (now, new) = (self.secure.bits(), wanted.bits());
        let breaks_lock = (now & LOCKS) >> 1 & (now ^ new) != 0 || now & LOCKS & !new != 0;
        if breaks_lock {
            return Err(Errno::EPERM);
        }
        self.needs(Capability::Setpcap)?;
        Ok(Capabilities { secure: wanted, ..self })
    }

    /// Returns them with PR_SET_KEEPCAPS.
    ///
    /// # Errors
    /// EPERM if it is locked.
    pub fn keeping(self, keeps: bool) -> Result<Capabilities, Errno> {
        if self.secure.contains(SecureBits::KEEP_CAPS_LOCKED) {
            return Err(Errno::EPERM);
        }
        let mut secure = self.secure;
        secure.set(SecureBits::KEEP_CAPS, keeps);
        Ok(Capabilities { secure, ..self })
    }

    /// Returns them with `more` in the ambient set.
    ///
    /// # Errors
    /// EPERM for a capability that is not permitted and inheritable, and if the secure bits forbid it.
    pub fn with_ambient(self, more: CapabilitySet) -> Result<Capabilities, Errno> {
        let may = more.is_within(self.permitted.and(self.inheritable));
        if !may || self.secure.contains(SecureBits::NO_AMBIENT_RAISE) {
            return Err(Errno::EPERM);
        }
        Ok(Capabilities { ambient: self.ambient.or(more), ..self })
    }

    fn needs(&self, capability: Capability) -> Result<(), Errno> {
        if self.effective.has(capability) { Ok(()) } else { Err(Errno::EPERM) }
    }
}
