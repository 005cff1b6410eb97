//! Virtio over PCI (virtio 1.2 §4.1): capabilities name regions of the device's memory.
//!
//! ```text
//!   common   status, features, queues: registers that are selected before they are read, so they lie behind a lock
//!   notify   a doorbell for each queue
//!   device   the configuration of the kind of device; may be absent
//! ```
//!
//! [`is_device`] says which functions of a machine are virtio devices of a type. [`PciTransport::new`] finds the regions of one; from then on it is a
//! [`Transport`]. It is written over [`gyre_pci::PciFunction`], so that a host test can play the function.
//!
//! Left out: devices older than 1.0, the ISR region (MSI-X is required), interrupts for changes of the configuration.

use crate::{Doorbell, QueueLayout, Transport};
use gyre_machine::{DeviceError, PciId};
use gyre_object::SpinLock;
use gyre_pci::{CAPABILITY_VENDOR, PciFunction, Region, find_capability};

/// Vendor of all virtio devices.
const VENDOR: u16 = 0x1af4;
/// Device identity of a modern device of type 0.
const DEVICE_BASE: u16 = 0x1040;

const KIND_COMMON: u8 = 1;
const KIND_NOTIFY: u8 = 2;
const KIND_DEVICE: u8 = 4;
/// The device answers this if it cannot use an interrupt entry.
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

/// A modern virtio device on PCI.
pub struct PciTransport<F: PciFunction> {
    function: F,
    /// Behind a lock because its registers are selected before they are read.
    common: SpinLock<Region<F::Registers>>,
    notify: Region<F::Registers>,
    notify_multiplier: usize,
    device: Option<Region<F::Registers>>,
}

/// Returns true if a function is a modern virtio device of a type (virtio 1.2 §5): 1 network, 2 block, 8 SCSI host.
pub fn is_device(id: PciId, kind: u16) -> bool {
    id.vendor == VENDOR && id.device.checked_sub(DEVICE_BASE) == Some(kind)
}

impl<F: PciFunction> PciTransport<F> {
    /// Finds the device's regions.
    ///
    /// # Errors
    /// [`DeviceError::Protocol`] if it is not a modern virtio device or its regions lie outside of its memory.
    pub fn new(function: F) -> Result<PciTransport<F>, DeviceError> {
        if function.id().device < DEVICE_BASE {
            return Err(DeviceError::Protocol);
        }
        function.enable_bus_master();
        let common = find(&function, KIND_COMMON)?.ok_or(DeviceError::Protocol)?.0;
        let (notify, capability) = find(&function, KIND_NOTIFY)?.ok_or(DeviceError::Protocol)?;
        if common.bytes() < common::BYTES {
            return Err(DeviceError::Protocol);
        }
        let device = find(&function, KIND_DEVICE)?.map(|(region, _)| region);
        let notify_multiplier = function.read32(capability.saturating_add(capability::MULTIPLIER)) as usize;
        Ok(PciTransport { function, common: SpinLock::new(common), notify, notify_multiplier, device })
    }
}

/// A region and the offset of the capability that names it.
type Found<R> = Option<(Region<R>, usize)>;

/// Finds the first region of a kind that lies in a usable bar.
fn find<F: PciFunction>(function: &F, kind: u8) -> Result<Found<F::Registers>, DeviceError> {
    let byte = |capability: usize, offset| function.read8(capability.saturating_add(offset));
    let is_of_kind = |at| byte(at, capability::KIND) == kind && byte(at, capability::BAR) < 6;
    let Some(found) = find_capability(function, CAPABILITY_VENDOR, is_of_kind) else {
        return Ok(None);
    };
    let word = |offset| function.read32(found.saturating_add(offset)) as usize;
    let start = word(capability::START);
    let end = start.checked_add(word(capability::BYTES)).ok_or(DeviceError::Protocol)?;
    Ok(Some((Region::of(function, byte(found, capability::BAR), start..end)?, found)))
}

impl<F: PciFunction> Transport for PciTransport<F> {
    fn device_kind(&self) -> u16 {
        self.function.id().device.saturating_sub(DEVICE_BASE)
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
        let offset = offset.filter(|offset| self.notify.holds(*offset, 2)).ok_or(DeviceError::Protocol)?;
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
mod search;
#[cfg(test)]
mod tests;
