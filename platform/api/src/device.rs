//! Names and errors of devices.

/// Bus, device and function of a PCI device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PciAddress {
    /// Bus number.
    pub bus: u8,
    /// Device number, 0 to 31.
    pub device: u8,
    /// Function number, 0 to 7.
    pub function: u8,
}

impl core::fmt::Display for PciAddress {
    /// As lspci writes it.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:02x}:{:02x}.{:x}", self.bus, self.device, self.function)
    }
}

/// Vendor and device identity of a PCI function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PciId {
    /// Vendor, 0x1af4 for virtio.
    pub vendor: u16,
    /// Device, 0x1040 + type for modern virtio.
    pub device: u16,
    /// Class code and subclass.
    pub class: u16,
}

/// Why a device could not be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeviceError {
    /// The base address register is missing or of the wrong kind.
    NoBar,
    /// The device does not offer MSI-X, or the table is too small.
    NoInterrupt,
    /// No interrupt line is left on that core.
    NoLine,
    /// The device's zone does not include it.
    NotOurs,
    /// Memory for it could not be had.
    OutOfMemory,
    /// The device answered against its specification.
    Protocol,
}
