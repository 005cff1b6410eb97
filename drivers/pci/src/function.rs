//! A PCI function as a driver sees it.

use crate::Registers;
use gyre_machine::{DeviceError, PciId};

/// A PCI function: its configuration space, and the services of the platform for it.
pub trait PciFunction: Send + Sync {
    /// The memory behind one of its base address registers.
    type Registers: Registers;
    /// Returns vendor, device and class.
    fn id(&self) -> PciId;
    /// Reads a byte of the configuration space.
    fn read8(&self, offset: usize) -> u8;
    /// Reads 32 bits of the configuration space, at a multiple of 4.
    fn read32(&self, offset: usize) -> u32;
    /// Calls `visit` with identity and offset of each capability, in the order of the list.
    fn each_capability(&self, visit: &mut dyn FnMut(u8, usize));
    /// Maps the memory behind a base address register.
    ///
    /// # Errors
    /// [`DeviceError::NoBar`] if the function has none of that number.
    fn bar(&self, index: u8) -> Result<Self::Registers, DeviceError>;
    /// Lets the device reach memory.
    fn enable_bus_master(&self);
    /// Routes an entry of its MSI-X table to a line of a core; returns the line.
    ///
    /// # Errors
    /// [`DeviceError`] if the function or the core has none left.
    fn attach_interrupt(&self, table_entry: u16, core: usize) -> Result<u32, DeviceError>;
}

/// Finds the first capability of an identity whose offset `is_wanted`; returns the offset in the configuration space.
pub fn find_capability<F: PciFunction>(function: &F, id: u8, is_wanted: impl Fn(usize) -> bool) -> Option<usize> {
    let mut found = None;
    function.each_capability(&mut |known, offset| {
        if found.is_none() && known == id && is_wanted(offset) {
            found = Some(offset);
        }
    });
    found
}
