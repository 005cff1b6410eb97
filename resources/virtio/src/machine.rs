//! The real machine's PCI functions as transports.

use crate::pci::{DEVICE_BASE, PciFunction, PciTransport, Registers, VENDOR};
use gyre_machine::{DeviceError, Mmio, PciDevice, pci_devices};

/// The modern virtio devices of the zone.
pub fn virtio_devices() -> impl Iterator<Item = &'static PciDevice> {
    pci_devices()
        .iter()
        .filter(|device| device.id.vendor == VENDOR && device.id.device >= DEVICE_BASE)
}

impl PciTransport<&'static PciDevice> {
    /// The transport of a device from [`virtio_devices`].
    ///
    /// # Errors
    /// As [`PciTransport::new`].
    pub fn of(device: &'static PciDevice) -> Result<Self, DeviceError> {
        PciTransport::new(device)
    }
}

impl PciFunction for &'static PciDevice {
    type Registers = Mmio;

    fn device_id(&self) -> u16 {
        self.id.device
    }

    fn read8(&self, offset: usize) -> u8 {
        self.config_read8(offset as u16)
    }

    fn read32(&self, offset: usize) -> u32 {
        self.config_read32(offset as u16)
    }

    fn each_capability(&self, visit: &mut dyn FnMut(u8, usize)) {
        self.capabilities()
            .for_each(|(id, offset)| visit(id, usize::from(offset)));
    }

    fn bar(&self, index: u8) -> Result<Mmio, DeviceError> {
        PciDevice::bar(self, index)
    }

    fn enable_bus_master(&self) {
        PciDevice::enable_bus_master(self);
    }

    fn attach_interrupt(&self, table_entry: u16, core: usize) -> Result<u32, DeviceError> {
        gyre_machine::attach_interrupt(self, table_entry, core)
    }
}

impl Registers for Mmio {
    fn bytes(&self) -> usize {
        Mmio::bytes(self)
    }

    fn read8(&self, offset: usize) -> u8 {
        Mmio::read8(self, offset)
    }

    fn read16(&self, offset: usize) -> u16 {
        Mmio::read16(self, offset)
    }

    fn read32(&self, offset: usize) -> u32 {
        Mmio::read32(self, offset)
    }

    fn write8(&self, offset: usize, value: u8) {
        Mmio::write8(self, offset, value);
    }

    fn write16(&self, offset: usize, value: u16) {
        Mmio::write16(self, offset, value);
    }

    fn write32(&self, offset: usize, value: u32) {
        Mmio::write32(self, offset, value);
    }
}
