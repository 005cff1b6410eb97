//! Interrupts of devices by message (PCI Local Bus 3.0, 6.8.2): each becomes a bit in one core's event word.

use crate::core_local::{block_of, core_count};
use crate::lock::SpinLock;
use crate::mmio::Mmio;
use crate::pci::PciDevice;
use crate::user_entry::VECTOR_FIRST_EVENT;
use core::sync::atomic::{AtomicU64, Ordering};
use gyre_platform::{CORES_MAX, DeviceError, Events, Pa, PciAddress};

const CAPABILITY: u8 = 0x11;
const ENABLE: u16 = 1 << 15;
const MASK_ALL: u16 = 1 << 14;
const ENTRY_BYTES: usize = 16;
/// Devices whose tables are kept mapped.
const TABLES_MAX: usize = 32;
const ENTRY_MASKED: u32 = 1;

/// Lines in use on each core; bit = event bit. Bits below the first line are never free.
static LINES: [AtomicU64; CORES_MAX] = [const { AtomicU64::new((1 << Events::FIRST_LINE) - 1) }; CORES_MAX];
static TABLES: SpinLock<[Option<(PciAddress, Mmio)>; TABLES_MAX]> = SpinLock::new([None; TABLES_MAX]);

/// Sends entry `table_entry` of the device's MSI-X table to `core` and returns the line: the bit of [`Events`] that it sets there.
///
/// # Errors
/// [`DeviceError::NoInterrupt`] where the device has no such entry or the core does not run, [`DeviceError::NoLine`] where the
/// core has none left, and those of mapping the table.
pub fn attach_interrupt(device: &PciDevice, table_entry: u16, core: usize) -> Result<u32, DeviceError> {
    let target = (core < core_count()).then(|| block_of(core).apic_id.load(Ordering::Relaxed)).ok_or(DeviceError::NoInterrupt)?;
    let (capability, table) = table_of(device, table_entry)?;
    let line = take_line(core)?;
    let at = usize::from(table_entry) * ENTRY_BYTES;
    table.write32(at + 12, ENTRY_MASKED);
    table.write32(at, 0xfee0_0000 | (target & 0xff) << 12);
    table.write32(at + 4, 0);
    table.write32(at + 8, VECTOR_FIRST_EVENT as u32 + line);
    table.write32(at + 12, 0);
    device.config_write16(capability + 2, device.config_read16(capability + 2) & !MASK_ALL | ENABLE);
    Ok(line)
}

/// Masks an entry and frees its line. An interrupt on its way may still set the bit once.
pub fn detach_interrupt(device: &PciDevice, table_entry: u16, core: usize, line: u32) {
    if let Ok((_, table)) = table_of(device, table_entry) {
        table.write32(usize::from(table_entry) * ENTRY_BYTES + 12, ENTRY_MASKED);
    }
    if (Events::FIRST_LINE..64).contains(&line) && core < CORES_MAX {
        LINES[core].fetch_and(!(1 << line), Ordering::AcqRel);
    }
}

/// How many entries the device's table has; 0 without MSI-X.
pub fn interrupt_entries(device: &PciDevice) -> u16 {
    find_capability(device).map_or(0, |capability| (device.config_read16(capability + 2) & 0x7ff) + 1)
}

fn find_capability(device: &PciDevice) -> Option<u16> {
    device.capabilities().find(|(identity, _)| *identity == CAPABILITY).map(|(_, place)| place)
}

fn take_line(core: usize) -> Result<u32, DeviceError> {
    let lines = &LINES[core];
    let mut used = lines.load(Ordering::Relaxed);
    loop {
        let line = (!used).trailing_zeros();
        if line == 64 {
            return Err(DeviceError::NoLine);
        }
        match lines.compare_exchange_weak(used, used | 1 << line, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => return Ok(line),
            Err(now) => used = now,
        }
    }
}

/// The capability's place and the table, mapped on first use.
fn table_of(device: &PciDevice, table_entry: u16) -> Result<(u16, Mmio), DeviceError> {
    let capability = find_capability(device).ok_or(DeviceError::NoInterrupt)?;
    let entries = (device.config_read16(capability + 2) & 0x7ff) + 1;
    if table_entry >= entries {
        return Err(DeviceError::NoInterrupt);
    }
    TABLES.with(|tables| {
        if let Some((_, table)) = tables.iter().flatten().find(|(address, _)| *address == device.address) {
            return Ok((capability, *table));
        }
        let free = tables.iter_mut().find(|place| place.is_none()).ok_or(DeviceError::OutOfMemory)?;
        let table = map_table(device, capability, entries)?;
        *free = Some((device.address, table));
        Ok((capability, table))
    })
}

fn map_table(device: &PciDevice, capability: u16, entries: u16) -> Result<Mmio, DeviceError> {
    let place = device.config_read32(capability + 4);
    let (start, size) = device.bar_range((place & 7) as u8)?;
    let offset = u64::from(place & !7);
    let bytes = usize::from(entries) * ENTRY_BYTES;
    if offset + bytes as u64 > size {
        return Err(DeviceError::Protocol);
    }
    device.config_write16(4, device.config_read16(4) | 1 << 1);
    let table = Mmio::map(Pa(start.0 + offset), bytes as u64)?;
    // Everything starts masked: what firmware or an earlier owner left must not raise anything.
    (0..usize::from(entries)).for_each(|entry| table.write32(entry * ENTRY_BYTES + 12, ENTRY_MASKED));
    Ok(table)
}
