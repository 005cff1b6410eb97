//! Addresses for devices that the firmware left without (qboot does): memory registers of bus 0, above what others have.
//!
//! Nothing is moved. Devices behind bridges keep what they have, as bridges would need windows too.

use crate::acpi::Tables;
use crate::pci::PciDevice;
use gyre_platform::DeviceError;

/// PCs keep this range free for devices: above QEMU's configuration space, below the interrupt controllers.
const WINDOW: core::ops::Range<u64> = 0xc000_0000..0xfe00_0000;

/// Gives each memory register without an address one. Returns how many.
pub(crate) fn assign(devices: &[PciDevice], tables: &Tables) -> usize {
    let mut next = first_free(devices, tables);
    let mut assigned = 0;
    for device in devices.iter().filter(|device| device.address.bus == 0 && device.config_read8(14) & 0x7f == 0) {
        let mut number = 0;
        while number < 6 {
            let Ok(register) = device.memory_register(number) else {
                number += 1;
                continue;
            };
            if register.start == 0 && register.bytes.is_power_of_two() {
                let start = next.next_multiple_of(register.bytes.max(4096));
                if start + register.bytes > WINDOW.end {
                    log::warn!(target: "platform", "no room for register {number} of {:?}: {} bytes", device.address, register.bytes);
                } else {
                    device.set_memory_register(number, start, register.is_wide);
                    next = start + register.bytes;
                    assigned += 1;
                }
            }
            number += if register.is_wide { 2 } else { 1 };
        }
    }
    assigned
}

/// The end of all that lies in the window: registers with addresses, the configuration space, memory.
fn first_free(devices: &[PciDevice], tables: &Tables) -> u64 {
    let registers = devices.iter().flat_map(|device| (0..6).filter_map(|number| device.bar_range(number).ok()));
    let zone = crate::zone();
    let memory = zone.memory[..zone.memory_count].iter().map(|region| region.start.0 + region.bytes);
    let space =
        tables.configuration.map(|(base, first, last)| base + ((u64::from(last.saturating_sub(first)) + 1) << 20));
    let ends = registers.map(|(start, bytes)| start.0 + bytes).chain(memory).chain(space);
    ends.filter(|end| WINDOW.contains(end)).fold(WINDOW.start, u64::max)
}

/// A memory base address register as it stands.
pub(crate) struct MemoryRegister {
    /// Address; 0 if the firmware gave none.
    pub(crate) start: u64,
    /// Length in bytes; 0 if there is no register.
    pub(crate) bytes: u64,
    /// True if it takes two registers.
    pub(crate) is_wide: bool,
}

impl MemoryRegister {
    /// Its range.
    ///
    /// # Errors
    /// [`DeviceError::NoBar`] if it has no address or an impossible one.
    pub(crate) fn range(&self) -> Result<(gyre_platform::Pa, u64), DeviceError> {
        let good = self.start != 0 && self.bytes.is_power_of_two() && self.start.is_multiple_of(self.bytes);
        if good { Ok((gyre_platform::Pa(self.start), self.bytes)) } else { Err(DeviceError::NoBar) }
    }
}
