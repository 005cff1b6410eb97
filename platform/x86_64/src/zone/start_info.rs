//! The hand-over that a new instance finds in place of a loader's: Xen's `hvm_start_info` (xen/include/public/arch-x86/hvm/start_info.h).

use gyre_platform::MemoryRegion;
use gyre_platform::zone::REGIONS_MAX;

const MAGIC: u32 = 0x336e_c578;
const VERSION: u32 = 1;
const RAM: u32 = 1;
/// Places in the page.
const MODULES: usize = 64;
const MEMORY: usize = 128;
const ENTRY_BYTES: usize = 24;

/// Bytes of all of it.
pub(crate) const INFO_BYTES: usize = MEMORY + ENTRY_BYTES * REGIONS_MAX;

/// Its contents.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told<'a> {
    /// Physical address of the command line, which ends in a NUL.
    pub(crate) command_line: u64,
    /// The boot module; none has 0 bytes.
    pub(crate) module: MemoryRegion,
    /// All memory of the instance, its image and module among it; [`REGIONS_MAX`] ranges at most.
    pub(crate) memory: &'a [MemoryRegion],
}

/// Makes the bytes that lie at the physical address `place`.
pub(crate) fn write(place: u64, told: &Told) -> [u8; INFO_BYTES] {
    let mut bytes = [0; INFO_BYTES];
    let modules = u32::from(told.module.bytes > 0);
    let entries = told.memory.len().min(REGIONS_MAX) as u32;
    for (offset, word) in [(0, MAGIC), (4, VERSION), (12, modules), (48, entries)] {
        bytes[offset..offset + 4].copy_from_slice(&word.to_le_bytes());
    }
    let places = [(16, place + MODULES as u64), (24, told.command_line), (40, place + MEMORY as u64)];
    let module = [(MODULES, told.module.start.0), (MODULES + 8, told.module.bytes)];
    for (offset, word) in places.into_iter().chain(module) {
        bytes[offset..offset + 8].copy_from_slice(&word.to_le_bytes());
    }
    for (entry, region) in bytes[MEMORY..].chunks_exact_mut(ENTRY_BYTES).zip(told.memory) {
        entry[..8].copy_from_slice(&region.start.0.to_le_bytes());
        entry[8..16].copy_from_slice(&region.bytes.to_le_bytes());
        entry[16..20].copy_from_slice(&RAM.to_le_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acpi::PhysicalView;
    use crate::boot::pvh;
    use gyre_platform::Pa;

    const PLACE: u64 = 0x2060_0000;

    struct Memory([u8; INFO_BYTES]);

    impl PhysicalView for Memory {
        fn bytes(&self, address: u64, length: usize) -> Option<&[u8]> {
            let start = usize::try_from(address.checked_sub(PLACE)?).ok()?;
            self.0.get(start..start.checked_add(length)?)
        }
    }

    fn region(start: u64, bytes: u64) -> MemoryRegion {
        MemoryRegion { start: Pa(start), bytes }
    }

    fn read(module: MemoryRegion, memory: &[MemoryRegion]) -> pvh::StartInfo {
        let told = Told { command_line: 0x2060_1000, module, memory };
        pvh::read(&Memory(write(PLACE, &told)), PLACE).unwrap()
    }

    #[test]
    fn the_kernel_reads_what_was_written() {
        let memory: [MemoryRegion; REGIONS_MAX] =
            core::array::from_fn(|number| region((number as u64 + 1) << 24, (number as u64 + 1) << 21));
        let info = read(region(0x2040_0000, 4711), &memory);
        assert_eq!(info.command_line, 0x2060_1000);
        assert_eq!(&info.modules[..info.module_count], [region(0x2040_0000, 4711)]);
        assert_eq!(&info.memory[..info.memory_count], memory);
        assert_eq!(info.root_pointer, 0);
    }

    #[test]
    fn without_a_module_none_is_read() {
        let info = read(region(0, 0), &[region(0x2000_0000, 0x1000_0000)]);
        assert_eq!((info.module_count, info.memory_count), (0, 1));
    }
}
