//! The machine's PCI functions, as drivers want them.

use gyre_machine::{DeviceError, PciAddress, PciId};
use gyre_pci::{PciFunction, Registers};
use gyre_x86_64::{Mmio, PciDevice};

/// A PCI function of this machine.
pub struct Function(pub &'static PciDevice);

/// A mapped region of one.
pub struct Region(Mmio);

impl PciFunction for Function {
    type Registers = Region;

    fn id(&self) -> PciId {
        self.0.id
    }
    fn read8(&self, offset: usize) -> u8 {
        self.0.config_read8(offset as u16)
    }
    fn read32(&self, offset: usize) -> u32 {
        self.0.config_read32(offset as u16)
    }
    fn each_capability(&self, visit: &mut dyn FnMut(u8, usize)) {
        self.0.capabilities().for_each(|(id, offset)| visit(id, usize::from(offset)));
    }
    fn bar(&self, index: u8) -> Result<Region, DeviceError> {
        self.0.bar(index).map(Region)
    }
    fn enable_bus_master(&self) {
        self.0.enable_bus_master();
    }
    fn attach_interrupt(&self, table_entry: u16, core: usize) -> Result<u32, DeviceError> {
        gyre_x86_64::attach_interrupt(self.0, table_entry, core)
    }
}

macro_rules! accesses {
    ($($read:ident $write:ident $type:ty),*) => {$(
        fn $read(&self, offset: usize) -> $type {
            self.0.$read(offset)
        }
        fn $write(&self, offset: usize, value: $type) {
            self.0.$write(offset, value);
        }
    )*};
}

impl Registers for Region {
    fn bytes(&self) -> usize {
        self.0.bytes()
    }
    accesses!(read8 write8 u8, read16 write16 u16, read32 write32 u32);
}

/// Lists the functions that `is_wanted`, in PCI order, with their places. Those of other zones count, so that a machine's disks have the same numbers in
/// each zone: [`DeviceError::NotOurs`].
pub fn functions(
    is_wanted: impl Fn(PciId) -> bool,
) -> impl Iterator<Item = (PciAddress, Result<Function, DeviceError>)> {
    let listing = gyre_x86_64::pci_listing().iter().filter(move |listed| is_wanted(listed.id));
    listing.map(|listed| (listed.address, listed.device.as_ref().map(Function).ok_or(DeviceError::NotOurs)))
}

/// Says why a device cannot be used.
pub fn tell(what: impl core::fmt::Display, address: PciAddress, error: DeviceError) {
    match error {
        // A supervisor leaves all to its zones that it does not use.
        DeviceError::NotOurs if gyre_x86_64::is_supervisor() => log::debug!("{what}: {address} is for a zone"),
        DeviceError::NotOurs => {
            log::warn!("{what}: {address} is not in this zone: devices= on the command line leaves it out")
        }
        error => log::error!("{what} at {address}: {error:?}"),
    }
}
