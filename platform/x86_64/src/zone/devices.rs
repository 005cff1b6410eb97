//! A PCI function between two owners: it raises nothing, moves nothing, and lies where the firmware put it.

use crate::instructions::rdtsc;
use crate::lock::{Once, SpinLock};
use crate::mmio::Mmio;
use crate::pci::{self, PciDevice};
use crate::time;
use gyre_platform::PciAddress;

const COMMAND: u16 = 4;
const COMMAND_MEMORY: u16 = 1 << 1;
const COMMAND_MASTER: u16 = 1 << 2;
const FIRST_BAR: u16 = 0x10;
const BARS: usize = 6;
const VIRTIO_VENDOR: u16 = 0x1af4;
const VENDOR_CAPABILITY: u8 = 0x09;
const EXPRESS_CAPABILITY: u8 = 0x10;
const MSIX_CAPABILITY: u8 = 0x11;
const MSIX_ENABLE: u16 = 1 << 15;
const MSIX_MASK_ALL: u16 = 1 << 14;
/// The kind of virtio capability that names the common registers (virtio 1.2, 4.1.4).
const COMMON: u8 = 1;
/// The status register there.
const STATUS: usize = 20;
/// A virtio device gets so long to read 0 after it was told to reset (virtio 1.2, 4.1.4.3.1, gives no limit).
const RESET_MS: u64 = 100;
/// After a function-level reset nothing may be asked of a function for so long (PCI Express 6.0, 6.6.2).
const FUNCTION_RESET_MS: u64 = 100;
const DEVICES_MAX: usize = 64;

/// A function does not come to rest, or there is no known way to reset it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceStuck(pub PciAddress);

/// A function as the firmware left it.
#[derive(Clone, Copy, Debug)]
struct Saved {
    device: PciDevice,
    command: u16,
    bars: [u32; BARS],
}

static SAVED: Once<[Option<Saved>; DEVICES_MAX]> = Once::new();
/// The common registers of virtio functions, mapped on first use: mappings stay.
static COMMONS: SpinLock<[Option<(PciAddress, Mmio)>; DEVICES_MAX]> = SpinLock::new([None; DEVICES_MAX]);

/// Remembers how the firmware left the functions that the supervisor does not keep. Boot core, once.
pub(crate) fn remember() {
    let mut saved = [None; DEVICES_MAX];
    let others = pci::pci_listing().iter().filter(|function| function.device.is_none());
    for (place, function) in saved.iter_mut().zip(others) {
        let device = PciDevice { address: function.address, id: function.id };
        let bars = core::array::from_fn(|number| device.config_read32(FIRST_BAR + 4 * number as u16));
        *place = Some(Saved { device, command: device.config_read16(COMMAND), bars });
    }
    SAVED.set(saved);
}

/// Brings a function of the pool to rest: no bus mastering, all its interrupts masked, reset, its addresses as the firmware chose them.
///
/// # Errors
/// [`DeviceStuck`]: it may still write to memory, and goes to nobody.
pub fn settle(address: PciAddress) -> Result<(), DeviceStuck> {
    let is_it = |saved: &&Saved| saved.device.address == address;
    let saved = SAVED.get().and_then(|list| list.iter().flatten().find(is_it)).ok_or(DeviceStuck(address))?;
    let device = &saved.device;
    device.disable_bus_master();
    mask_interrupts(device);
    put_back(saved);
    let reset = if device.id.vendor == VIRTIO_VENDOR { reset_virtio(device) } else { None };
    let done = match reset {
        Some(is_reset) => is_reset,
        None => reset_function(device),
    };
    put_back(saved);
    mask_interrupts(device);
    device.config_write16(COMMAND, saved.command & !COMMAND_MASTER);
    let is_quiet = device.config_read16(COMMAND) & COMMAND_MASTER == 0;
    if done && is_quiet { Ok(()) } else { Err(DeviceStuck(address)) }
}

fn mask_interrupts(device: &PciDevice) {
    if let Some(place) = capability(device, MSIX_CAPABILITY) {
        device.config_write16(place + 2, device.config_read16(place + 2) & !MSIX_ENABLE | MSIX_MASK_ALL);
    }
}

fn capability(device: &PciDevice, wanted: u8) -> Option<u16> {
    device.capabilities().find(|(identity, _)| *identity == wanted).map(|(_, place)| place)
}

/// Writes the address registers that somebody has changed; the function does not answer meanwhile.
fn put_back(saved: &Saved) {
    let device = &saved.device;
    for (number, value) in saved.bars.iter().enumerate() {
        let place = FIRST_BAR + 4 * number as u16;
        if device.config_read32(place) != *value {
            device.config_write16(COMMAND, device.config_read16(COMMAND) & !COMMAND_MEMORY);
            device.config_write32(place, *value);
        }
    }
}

/// Resets a virtio function; returns whether it did, or `None` if it has no such registers.
fn reset_virtio(device: &PciDevice) -> Option<bool> {
    let common = common_registers(device)?;
    device.config_write16(COMMAND, device.config_read16(COMMAND) | COMMAND_MEMORY);
    common.write8(STATUS, 0);
    Some(waits(RESET_MS, || common.read8(STATUS) == 0))
}

fn common_registers(device: &PciDevice) -> Option<Mmio> {
    COMMONS.with(|list| {
        if let Some((_, found)) = list.iter().flatten().find(|(address, _)| *address == device.address) {
            return Some(*found);
        }
        let is_common =
            |(identity, place): &(u8, u16)| *identity == VENDOR_CAPABILITY && device.config_read8(place + 3) == COMMON;
        let (_, place) = device.capabilities().find(is_common)?;
        let bar = device.bar(device.config_read8(place + 4)).ok()?;
        let (offset, bytes) = (device.config_read32(place + 8) as usize, device.config_read32(place + 12) as usize);
        let registers = bar.part(offset, bytes)?;
        *list.iter_mut().find(|place| place.is_none())? = Some((device.address, registers));
        Some(registers)
    })
}

/// Resets a function by the way of PCI Express; returns whether it has it.
fn reset_function(device: &PciDevice) -> bool {
    const CAN_RESET: u32 = 1 << 28;
    const RESET: u16 = 1 << 15;
    let Some(place) = capability(device, EXPRESS_CAPABILITY) else { return false };
    if device.config_read32(place + 4) & CAN_RESET == 0 {
        return false;
    }
    device.config_write16(place + 8, device.config_read16(place + 8) | RESET);
    waits(FUNCTION_RESET_MS, || false);
    device.config_read16(0) == device.id.vendor
}

fn waits(ms: u64, is_so: impl Fn() -> bool) -> bool {
    let end = rdtsc().saturating_add(ms * time::cycles_per_ms());
    while rdtsc() < end {
        if is_so() {
            return true;
        }
        core::hint::spin_loop();
    }
    is_so()
}
