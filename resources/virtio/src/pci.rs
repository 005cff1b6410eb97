//! Virtio over PCI (virtio 1.2 §4.1): capabilities name regions of the device's memory.
//!
//! Written over two small traits, so that the host can test it against a fake function; in the kernel they are implemented
//! by the platform's `PciDevice` and `Mmio`.

use crate::{Doorbell, QueueLayout, Transport};
use gyre_machine::{DeviceError, Pa};
use gyre_object::SpinLock;

/// Vendor of all virtio devices.
pub const VENDOR: u16 = 0x1af4;
/// Device identity of a modern device of type 0.
pub const DEVICE_BASE: u16 = 0x1040;

const CAPABILITY_VENDOR: u8 = 0x09;
const KIND_COMMON: u8 = 1;
const KIND_NOTIFY: u8 = 2;
const KIND_DEVICE: u8 = 4;
/// What the device answers where it cannot use an interrupt entry.
const NO_VECTOR: u16 = 0xffff;

/// Offsets in the common configuration (§4.1.4.3).
mod common {
    pub(super) const DEVICE_FEATURE_SELECT: usize = 0;
    pub(super) const DEVICE_FEATURE: usize = 4;
    pub(super) const DRIVER_FEATURE_SELECT: usize = 8;
    pub(super) const DRIVER_FEATURE: usize = 12;
    pub(super) const CONFIG_VECTOR: usize = 16;
    pub(super) const QUEUES: usize = 18;
    pub(super) const STATUS: usize = 20;
    pub(super) const GENERATION: usize = 21;
    pub(super) const QUEUE_SELECT: usize = 22;
    pub(super) const QUEUE_SIZE: usize = 24;
    pub(super) const QUEUE_VECTOR: usize = 26;
    pub(super) const QUEUE_ENABLE: usize = 28;
    pub(super) const QUEUE_NOTIFY_OFFSET: usize = 30;
    pub(super) const QUEUE_DESCRIPTORS: usize = 32;
    pub(super) const QUEUE_AVAILABLE: usize = 40;
    pub(super) const QUEUE_USED: usize = 48;
    pub(super) const BYTES: usize = 56;
}

/// Offsets in a capability (§4.1.4).
mod capability {
    pub(super) const KIND: usize = 3;
    pub(super) const BAR: usize = 4;
    pub(super) const START: usize = 8;
    pub(super) const BYTES: usize = 12;
    pub(super) const MULTIPLIER: usize = 16;
}

/// A PCI function: configuration space and what the platform does with it.
pub trait PciFunction: Send + Sync {
    /// Its memory regions.
    type Registers: Registers;
    /// The device identity.
    fn device_id(&self) -> u16;
    /// Reads a byte of the configuration space.
    fn read8(&self, offset: usize) -> u8;
    /// Reads 32 bits of the configuration space, at a multiple of 4.
    fn read32(&self, offset: usize) -> u32;
    /// Calls `visit` with identity and offset of each capability.
    fn each_capability(&self, visit: &mut dyn FnMut(u8, usize));
    /// Maps a base address register.
    ///
    /// # Errors
    /// [`DeviceError::NoBar`].
    fn bar(&self, index: u8) -> Result<Self::Registers, DeviceError>;
    /// Lets the device reach memory.
    fn enable_bus_master(&self);
    /// Routes an entry of its MSI-X table to a line of a core.
    ///
    /// # Errors
    /// [`DeviceError`].
    fn attach_interrupt(&self, table_entry: u16, core: usize) -> Result<u32, DeviceError>;
}

/// Device memory. Accesses beyond the end read 0 and write nothing.
#[allow(missing_docs, reason = "reads and writes of a width at a byte offset")]
pub trait Registers: Send + Sync {
    fn bytes(&self) -> usize;
    fn read8(&self, offset: usize) -> u8;
    fn read16(&self, offset: usize) -> u16;
    fn read32(&self, offset: usize) -> u32;
    fn write8(&self, offset: usize, value: u8);
    fn write16(&self, offset: usize, value: u16);
    fn write32(&self, offset: usize, value: u32);
}

/// A part of a base address register.
struct Region<R> {
    registers: R,
    start: usize,
    bytes: usize,
}

impl<R: Registers> Region<R> {
    fn at(&self, offset: usize, width: usize) -> Option<usize> {
        self.start.checked_add(offset).filter(|_| offset.checked_add(width).is_some_and(|end| end <= self.bytes))
    }
    fn read8(&self, offset: usize) -> u8 {
        self.at(offset, 1).map_or(0, |at| self.registers.read8(at))
    }
    fn read16(&self, offset: usize) -> u16 {
        self.at(offset, 2).map_or(0, |at| self.registers.read16(at))
    }
    fn read32(&self, offset: usize) -> u32 {
        self.at(offset, 4).map_or(0, |at| self.registers.read32(at))
    }
    fn write8(&self, offset: usize, value: u8) {
        if let Some(at) = self.at(offset, 1) {
            self.registers.write8(at, value);
        }
    }
    fn write16(&self, offset: usize, value: u16) {
        if let Some(at) = self.at(offset, 2) {
            self.registers.write16(at, value);
        }
    }
    fn write32(&self, offset: usize, value: u32) {
        if let Some(at) = self.at(offset, 4) {
            self.registers.write32(at, value);
        }
    }
    fn write_address(&self, offset: usize, address: Pa) {
        self.write32(offset, address.0 as u32);
        self.write32(offset.saturating_add(4), (address.0 >> 32) as u32);
    }
}

/// A modern virtio device on PCI.
pub struct PciTransport<F: PciFunction> {
    function: F,
    /// Behind a lock because its registers are selected before they are read.
    common: SpinLock<Region<F::Registers>>,
    notify: Region<F::Registers>,
    notify_multiplier: usize,
    device: Option<Region<F::Registers>>,
}

impl<F: PciFunction> PciTransport<F> {
    /// Finds the device's regions.
    ///
    /// # Errors
    /// [`DeviceError::Protocol`] where it is not a modern virtio device or its regions lie outside of its memory.
    pub fn new(function: F) -> Result<PciTransport<F>, DeviceError> {
        if function.device_id() < DEVICE_BASE {
            return Err(DeviceError::Protocol);
        }
        function.enable_bus_master();
        let common = find(&function, KIND_COMMON)?.ok_or(DeviceError::Protocol)?.0;
        let (notify, capability) = find(&function, KIND_NOTIFY)?.ok_or(DeviceError::Protocol)?;
        if common.bytes < common::BYTES {
            return Err(DeviceError::Protocol);
        }
        let device = find(&function, KIND_DEVICE)?.map(|(region, _)| region);
        let notify_multiplier = function.read32(capability.saturating_add(capability::MULTIPLIER)) as usize;
        Ok(PciTransport { function, common: SpinLock::new(common), notify, notify_multiplier, device })
    }
}

/// A region and the offset of the capability that names it.
type Found<R> = Option<(Region<R>, usize)>;

/// The first region of a kind that lies in a usable bar.
fn find<F: PciFunction>(function: &F, kind: u8) -> Result<Found<F::Registers>, DeviceError> {
    let mut found = None;
    function.each_capability(&mut |id, offset| {
        if id == CAPABILITY_VENDOR
            && found.is_none()
            && function.read8(offset.saturating_add(capability::KIND)) == kind
            && function.read8(offset.saturating_add(capability::BAR)) < 6
        {
            found = Some(offset);
        }
    });
    let Some(capability) = found else {
        return Ok(None);
    };
    let at = |offset: usize| capability.saturating_add(offset);
    let registers = function.bar(function.read8(at(capability::BAR)))?;
    let start = function.read32(at(capability::START)) as usize;
    let bytes = function.read32(at(capability::BYTES)) as usize;
    if start.checked_add(bytes).is_none_or(|end| end > registers.bytes()) {
        return Err(DeviceError::Protocol);
    }
    Ok(Some((Region { registers, start, bytes }, capability)))
}

impl<F: PciFunction> Transport for PciTransport<F> {
    fn device_kind(&self) -> u16 {
        self.function.device_id().saturating_sub(DEVICE_BASE)
    }

    fn status(&self) -> u8 {
        self.common.lock().read8(common::STATUS)
    }

    fn set_status(&self, status: u8) {
        self.common.lock().write8(common::STATUS, status);
    }

    fn device_features(&self) -> u64 {
        let common = self.common.lock();
        let half = |number| {
            common.write32(common::DEVICE_FEATURE_SELECT, number);
            u64::from(common.read32(common::DEVICE_FEATURE))
        };
        half(0) | half(1) << 32
    }

    fn set_driver_features(&self, features: u64) {
        let common = self.common.lock();
        for (number, half) in [(0, features as u32), (1, (features >> 32) as u32)] {
            common.write32(common::DRIVER_FEATURE_SELECT, number);
            common.write32(common::DRIVER_FEATURE, half);
        }
    }

    fn queue_size_max(&self, queue: u16) -> u16 {
        let common = self.common.lock();
        if queue >= common.read16(common::QUEUES) {
            return 0;
        }
        common.write16(common::QUEUE_SELECT, queue);
        common.read16(common::QUEUE_SIZE)
    }

    fn enable_queue(&self, queue: u16, layout: QueueLayout, table_entry: u16) -> Result<Doorbell, DeviceError> {
        let common = self.common.lock();
        if queue >= common.read16(common::QUEUES) {
            return Err(DeviceError::Protocol);
        }
        common.write16(common::QUEUE_SELECT, queue);
        common.write16(common::QUEUE_SIZE, layout.size);
        common.write16(common::QUEUE_VECTOR, table_entry);
        common.write16(common::CONFIG_VECTOR, NO_VECTOR);
        if common.read16(common::QUEUE_VECTOR) != table_entry {
            return Err(DeviceError::NoInterrupt);
        }
        common.write_address(common::QUEUE_DESCRIPTORS, layout.descriptors);
        common.write_address(common::QUEUE_AVAILABLE, layout.available);
        common.write_address(common::QUEUE_USED, layout.used);
        let offset = usize::from(common.read16(common::QUEUE_NOTIFY_OFFSET)).checked_mul(self.notify_multiplier);
        let offset = offset.filter(|offset| self.notify.at(*offset, 2).is_some()).ok_or(DeviceError::Protocol)?;
        common.write16(common::QUEUE_ENABLE, 1);
        Ok(Doorbell { queue, offset })
    }

    fn notify(&self, doorbell: Doorbell) {
        self.notify.write16(doorbell.offset, doorbell.queue);
    }

    fn config_u8(&self, offset: usize) -> u8 {
        self.device.as_ref().map_or(0, |device| device.read8(offset))
    }

    fn config_u16(&self, offset: usize) -> u16 {
        self.device.as_ref().map_or(0, |device| device.read16(offset))
    }

    fn config_u32(&self, offset: usize) -> u32 {
        self.device.as_ref().map_or(0, |device| device.read32(offset))
    }

    fn config_generation(&self) -> u8 {
        self.common.lock().read8(common::GENERATION)
    }

    fn attach_interrupt(&self, table_entry: u16, core: usize) -> Result<u32, DeviceError> {
        self.function.attach_interrupt(table_entry, core)
    }
}

#[cfg(test)]
mod tests;
