//! The part of the machine that belongs to an instance.

use crate::{CORES_MAX, Pa, PciAddress};

/// A range of physical memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryRegion {
    /// First byte.
    pub start: Pa,
    /// Length in bytes.
    pub bytes: u64,
}

/// Ranges of memory a zone may consist of.
pub const REGIONS_MAX: usize = 16;

/// The parts of the machine that an instance owns: it touches nothing else.
#[derive(Clone, Copy, Debug)]
pub struct ZoneDescription {
    /// Hardware ids (APIC ids) of the cores; the first `core_count` are valid, the first runs the loader's entry.
    pub core_ids: [u32; CORES_MAX],
    /// How many cores.
    pub core_count: usize,
    /// Usable memory, without the kernel's image and the boot modules.
    pub memory: [MemoryRegion; REGIONS_MAX],
    /// How many regions.
    pub memory_count: usize,
    /// Devices are limited to these, or all of them if `None`.
    pub devices: Option<&'static [PciAddress]>,
}
