//! The wishes for a new instance, and why they cannot be followed.

use super::layout::LotFault;
use core::fmt;
use gyre_platform::zone_page::ZONE_NAME_BYTES;
use gyre_platform::{CORES_MAX, MemoryRegion, OutOfMemory, PciAddress};

/// The wishes for an instance.
#[derive(Clone, Copy, Debug)]
pub struct InstancePlan<'a> {
    /// Its number, from 1 to 2^31 - 1.
    pub number: u32,
    /// Its name, up to [`ZONE_NAME_BYTES`] bytes.
    pub name: &'a str,
    /// Hardware ids of its cores; the first runs its entry.
    pub cores: &'a [u32],
    /// Its memory, in whole lots of the pool.
    pub lots: &'a [MemoryRegion],
    /// Its PCI functions.
    pub devices: &'a [PciAddress],
    /// Its boot module; empty for none.
    pub module: &'a [u8],
    /// Its command line, to which `zone=` is added.
    pub command_line: &'a str,
    /// The discriminant of the contract's `Protection`.
    pub protection: u32,
}

/// Why there is no such instance. Nothing was taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlanError {
    /// This instance is no supervisor.
    NoSupervisor,
    /// The number is 0 or too large.
    Number(u32),
    /// The name has this many bytes, and may have [`ZONE_NAME_BYTES`].
    Name(usize),
    /// So many cores are wished for, which is none or too many.
    CoreCount(usize),
    /// This core is not one of the pool, is lost, or is wished for twice.
    NoCore(u32),
    /// This core is not free.
    BusyCore(u32),
    /// These are no whole lots below 4 GiB.
    LotShape(MemoryRegion),
    /// These lots lie over others of the plan.
    LotOverlap(MemoryRegion),
    /// The lots are in more than 16 pieces.
    Scattered,
    /// No piece of the lots has the bytes that an instance needs at least.
    TooSmall(u64),
    /// These lots are not the pool's.
    NoLot(MemoryRegion),
    /// Another instance lives in this lot.
    BusyLot(MemoryRegion),
    /// This lot had another holder and was not cleared.
    DirtyLot(MemoryRegion),
    /// This function is not the pool's, or is wished for twice, or there are too many.
    NoDevice(PciAddress),
    /// This function does not stop.
    StuckDevice(PciAddress),
    /// The command line is longer than 4,095 bytes with `zone=`, or has a NUL.
    CommandLine(usize),
    /// The supervisor has no memory for its tables.
    OutOfMemory,
    /// The processor cannot hold a kernel in a wall of nested paging.
    NoWall,
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lot = |region: &MemoryRegion| (region.start.0, region.bytes >> 20);
        match self {
            PlanError::NoSupervisor => f.write_str("this kernel is no supervisor"),
            PlanError::Number(number) => write!(f, "the number {number} cannot be that of a zone"),
            PlanError::Name(bytes) => write!(f, "the name has {bytes} bytes: at most {ZONE_NAME_BYTES} fit"),
            PlanError::CoreCount(count) => write!(f, "{count} cores: expected 1 to {CORES_MAX}"),
            PlanError::NoCore(id) => write!(f, "core {id} is not in the pool, or named twice"),
            PlanError::BusyCore(id) => write!(f, "core {id} is in use"),
            PlanError::LotShape(region) => {
                let (start, mib) = lot(region);
                write!(f, "{mib} MiB at {start:#x} are no whole lots of 2 MiB below 4 GiB")
            }
            PlanError::LotOverlap(region) => write!(f, "the lots at {:#x} are named twice", region.start.0),
            PlanError::Scattered => f.write_str("the lots lie in more than 16 pieces"),
            PlanError::TooSmall(bytes) => write!(f, "no piece of the lots has the {} KiB that are needed", bytes >> 10),
            PlanError::NoLot(region) => write!(f, "the lots at {:#x} are not in the pool", region.start.0),
            PlanError::BusyLot(region) => write!(f, "a zone lives in the lot at {:#x}", region.start.0),
            PlanError::DirtyLot(region) => write!(f, "the lot at {:#x} was not cleared", region.start.0),
            PlanError::NoDevice(address) => write!(f, "the function {address} is not in the pool, or named twice"),
            PlanError::StuckDevice(address) => write!(f, "the function {address} does not stop"),
            PlanError::CommandLine(bytes) => write!(f, "the command line has {bytes} bytes or a NUL: 4,095 bytes fit"),
            PlanError::NoWall => f.write_str("this machine has no guests (SVM): protection = \"none\" or \"pages\""),
            PlanError::OutOfMemory => f.write_str("the supervisor has no memory for its tables"),
        }
    }
}

impl From<OutOfMemory> for PlanError {
    fn from(_: OutOfMemory) -> PlanError {
        PlanError::OutOfMemory
    }
}

impl From<LotFault> for PlanError {
    fn from(fault: LotFault) -> PlanError {
        match fault {
            LotFault::Shape(region) => PlanError::LotShape(region),
            LotFault::Overlap(region) => PlanError::LotOverlap(region),
            LotFault::Scattered => PlanError::Scattered,
            LotFault::Small(bytes) => PlanError::TooSmall(bytes),
        }
    }
}
