//! PCI functions that come to a zone while it runs.
//!
//! Each has a place for good, with its configuration space: one that goes and comes again finds it. The supervisor keeps a function that is
//! nobody's at rest; the zone's kernel stops its driver before it gives one away.
//!
//! Called by the zone's agent, on one core at a time.

use super::inside;
use crate::lock::{Once, SpinLock};
use crate::mmio::Mmio;
use crate::pci::{self, PciDevice};
use gyre_platform::zone_page::ZONE_DEVICES_MAX;
use gyre_platform::{DeviceError, Pa, PciAddress};

/// Functions that can come: as many as a zone holds, and those that it held before.
const PLACES: usize = 2 * ZONE_DEVICES_MAX;

/// A function with its configuration space.
struct Known {
    device: PciDevice,
    space: Mmio,
}

static KNOWN: [Once<Known>; PLACES] = [const { Once::new() }; PLACES];
/// Places in use; held while one is added.
static COUNT: SpinLock<usize> = SpinLock::new(0);

/// The configuration space of a function that came later.
pub(crate) fn space_of(address: PciAddress) -> Option<&'static Mmio> {
    known(address).map(|known| &known.space)
}

fn known(address: PciAddress) -> Option<&'static Known> {
    KNOWN.iter().map_while(Once::get).find(|known| known.device.address == address)
}

/// Finds a function that the supervisor has given to this zone.
///
/// # Errors
/// [`DeviceError::NotOurs`] in an instance that is no zone, and if nothing answers there; [`DeviceError::OutOfMemory`] if it cannot be mapped
/// or there were too many.
pub fn join_function(address: PciAddress) -> Result<&'static PciDevice, DeviceError> {
    if let Some(device) = pci::pci_devices().iter().find(|device| device.address == address) {
        return Ok(device);
    }
    COUNT.with(|count| {
        if let Some(known) = known(address) {
            return Ok(&known.device);
        }
        let place = KNOWN.get(*count).ok_or(DeviceError::OutOfMemory)?;
        let plan = inside::zone_plan().ok_or(DeviceError::NotOurs)?;
        let space = pci::map_space(Pa(plan.ecam), address)?;
        let device = pci::identify(address, &space).ok_or(DeviceError::NotOurs)?;
        place.set(Known { device, space });
        *count += 1;
        place.get().map(|known| &known.device).ok_or(DeviceError::NotOurs)
    })
}
