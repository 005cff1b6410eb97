//! Capabilities and sets of them (capabilities(7)).

/// A right of the superuser that can be given up by itself, by its number in `linux/capability.h`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Capability {
    /// Changes owners of files.
    Chown = 0,
    /// Passes the checks of a file's permission bits.
    DacOverride = 1,
    /// Reads any file, and searches any directory.
    DacReadSearch = 2,
    /// Acts as the owner of any file.
    Fowner = 3,
    /// Keeps the set-group-id bit of a file whose group it is not in.
    Fsetid = 4,
    /// Sends signals to anybody.
    Kill = 5,
    /// Changes groups.
    Setgid = 6,
    /// Changes users.
    Setuid = 7,
    /// Changes its bounding set and secure bits, and inherits capabilities that it does not have.
    Setpcap = 8,
    /// Listens at ports below 1024.
    NetBindService = 10,
    /// Opens raw sockets.
    NetRaw = 13,
    /// Locks memory past its limit.
    IpcLock = 14,
    /// Passes the checks of shared memory's permission bits.
    IpcOwner = 15,
    /// Changes its root directory.
    SysChroot = 18,
    /// Looks into processes of other users.
    SysPtrace = 19,
    /// Sets the host's name, and does administration without a capability of its own.
    SysAdmin = 21,
    /// Restarts the tenant.
    SysBoot = 22,
    /// Raises priorities.
    SysNice = 23,
    /// Raises hard limits, and changes those of others.
    SysResource = 24,
    /// Makes device files.
    Mknod = 27,
    /// Replaces the user as whom somebody logged in.
    AuditControl = 30,
    /// Gives capabilities to files.
    Setfcap = 31,
    /// Reads and clears the kernel's messages.
    Syslog = 34,
}

/// The highest number that Linux 6.1 knows (CAP_CHECKPOINT_RESTORE).
pub const CAPABILITY_LAST: u32 = 40;

/// Some capabilities, a bit each by number.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CapabilitySet(u64);

impl CapabilitySet {
    /// None.
    pub const EMPTY: CapabilitySet = CapabilitySet(0);
    /// All that Linux 6.1 knows.
    pub const ALL: CapabilitySet = CapabilitySet((1 << (CAPABILITY_LAST + 1)) - 1);
    /// Those that go and come with the file system user (CAP_FS_SET: numbers 0 to 4, MKNOD, LINUX_IMMUTABLE, MAC_OVERRIDE).
    pub const OF_FILES: CapabilitySet = CapabilitySet(0b1_1111 | 1 << 9 | 1 << Capability::Mknod as u8 | 1 << 32);

    /// Returns the set of these bits, without those that Linux 6.1 does not know.
    #[must_use]
    pub const fn of_bits(bits: u64) -> CapabilitySet {
        CapabilitySet(bits & CapabilitySet::ALL.0)
    }

    /// Returns the set of one capability by its number; empty if there is no such capability.
    #[must_use]
    pub fn numbered(number: u64) -> Option<CapabilitySet> {
        let number = u32::try_from(number).ok().filter(|number| *number <= CAPABILITY_LAST)?;
        Some(CapabilitySet(1 << number))
    }

    /// Returns it as bits, by number.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Returns whether this capability is one of them.
    #[must_use]
    pub const fn has(self, capability: Capability) -> bool {
        self.0 & 1 << capability as u8 != 0
    }

    /// Returns whether none is missing in `other`.
    #[must_use]
    pub const fn is_within(self, other: CapabilitySet) -> bool {
        self.0 & !other.0 == 0
    }

    /// Returns the union.
    #[must_use]
    pub const fn or(self, other: CapabilitySet) -> CapabilitySet {
        CapabilitySet(self.0 | other.0)
    }

    /// Returns the intersection.
    #[must_use]
    pub const fn and(self, other: CapabilitySet) -> CapabilitySet {
        CapabilitySet(self.0 & other.0)
    }

    /// Returns it without the capabilities of `other`.
    #[must_use]
    pub const fn without(self, other: CapabilitySet) -> CapabilitySet {
        CapabilitySet(self.0 & !other.0)
    }
}
