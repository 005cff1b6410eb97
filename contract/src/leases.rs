//! The leases that cells of a tenant hold, as [`CELL_LEASES`] writes them.

/// `cell_leases(buffer, length) -> count`: writes a [`Lease`] for each cell of the caller's tenant, by number, as many as there is room for; answers
/// how many there are. For every program. Never waits.
///
/// Errors: ENOSYS (no memory is kept for cells), EFAULT.
pub const CELL_LEASES: u64 = 0x1056;

/// States of a lease ([`Lease::state`]).
pub mod state {
    /// Its memory is made ready, or its cores are on their way.
    pub const PREPARING: u32 = 0;
    /// Its cores are in the cell.
    pub const RUNS: u32 = 1;
    /// The cell was asked for parts and has time to give them.
    pub const ASKED: u32 = 2;
    /// Its cores leave the cell, and its memory is cleared.
    pub const ENDS: u32 = 3;
}

/// A lease now.
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    Default,
    Debug,
    zerocopy::FromBytes,
    zerocopy::IntoBytes,
    zerocopy::Immutable,
    zerocopy::KnownLayout,
)]
#[repr(C)]
pub struct Lease {
    /// Its number among the leases that there are; it is used again.
    pub number: u32,
    /// The cell's process.
    pub process: i32,
    /// One of [`state`].
    pub state: u32,
    /// Lots of 2 MiB.
    pub lots: u32,
    /// Its cores, bit `n` for the core in slot `n`.
    pub cores: u64,
    /// Its devices, bit `n` for the device at place `n` of the machine file's list.
    pub devices: u64,
    /// Since when it stands, ns from the kernel's start.
    pub since_ns: u64,
    /// The name of the process, with zeros behind it, when it became a cell.
    pub name: [u8; 16],
    /// The SHA-256 of the file of its runtime; zeros if that lies in no file.
    pub runtime: [u8; 32],
}

const _: () = assert!(size_of::<Lease>() == 88);
