//! The loader's hand-over: Xen's `hvm_start_info` (xen/include/public/arch-x86/hvm/start_info.h).

use crate::acpi::PhysicalView;
use gyre_platform::{MemoryRegion, Pa};

/// Entries of the loader's memory map that are kept.
pub(crate) const MAP_ENTRIES_MAX: usize = 64;
const MAGIC: u32 = 0x336e_c578;
/// Modules that are kept: the first is the machine description.
pub(crate) const MODULES_MAX: usize = 4;
const RAM: u32 = 1;

/// The parts of start_info that Gyre uses.
pub(crate) struct StartInfo {
    /// Physical address of the command line; 0 for none.
    pub(crate) command_line: u64,
    /// Physical address of ACPI's root pointer; 0 if the loader does not know.
    pub(crate) root_pointer: u64,
    /// Boot modules.
    pub(crate) modules: [MemoryRegion; MODULES_MAX],
    /// How many.
    pub(crate) module_count: usize,
    /// Memory that may be used, in the loader's order.
    pub(crate) memory: [MemoryRegion; MAP_ENTRIES_MAX],
    /// How many.
    pub(crate) memory_count: usize,
}

const NOTHING: MemoryRegion = MemoryRegion { start: Pa(0), bytes: 0 };

fn word(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(offset..offset + 4)?.try_into().ok()?))
}

fn long(bytes: &[u8], offset: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(offset..offset + 8)?.try_into().ok()?))
}

/// Reads start_info; `None` if it is not one, or has no memory map (version 0).
pub(crate) fn read(view: &dyn PhysicalView, address: u64) -> Option<StartInfo> {
    let head = view.bytes(address, 56)?;
    if word(head, 0)? != MAGIC || word(head, 4)? < 1 {
        return None;
    }
    let mut info = StartInfo {
        command_line: long(head, 24)?,
        root_pointer: long(head, 32)?,
        modules: [NOTHING; MODULES_MAX],
        module_count: 0,
        memory: [NOTHING; MAP_ENTRIES_MAX],
        memory_count: 0,
    };
    read_modules(view, long(head, 16)?, word(head, 12)?, &mut info);
    read_memory(view, long(head, 40)?, word(head, 48)?, &mut info);
    Some(info)
}

fn read_modules(view: &dyn PhysicalView, address: u64, count: u32, info: &mut StartInfo) {
    let Some(list) = view.bytes(address, (count as usize).min(MODULES_MAX) * 32) else {
        return;
    };
    for entry in list.chunks_exact(32) {
        if let (Some(start), Some(bytes)) = (long(entry, 0), long(entry, 8)) {
            info.modules[info.module_count] = MemoryRegion { start: Pa(start), bytes };
            info.module_count += 1;
        }
    }
}

/// Entries of other kinds are left out: reserved ranges of 12 TiB and the empty last entry of qboot among them.
fn read_memory(view: &dyn PhysicalView, address: u64, count: u32, info: &mut StartInfo) {
    let Some(list) = view.bytes(address, (count as usize).min(1024) * 24) else {
        return;
    };
    for entry in list.chunks_exact(24) {
        let (Some(start), Some(bytes), Some(kind)) = (long(entry, 0), long(entry, 8), word(entry, 16)) else {
            return;
        };
        if kind == RAM && bytes > 0 && start.checked_add(bytes).is_some() && info.memory_count < MAP_ENTRIES_MAX {
            info.memory[info.memory_count] = MemoryRegion { start: Pa(start), bytes };
            info.memory_count += 1;
        }
    }
}
