//! The network path: the first virtio network device.

use crate::assembly::System;
use crate::host::tenant_of;
use crate::pci::{self, Function, virtio_devices};
use alloc::boxed::Box;
use gyre_account::ActivityId;
use gyre_assembly::network::{Network, Settings, connect};
use gyre_machine::DeviceError;
use gyre_net::{Net, NetStatistics};
use gyre_object::SetOnce;
use gyre_virtio::pci::PciTransport;
use gyre_virtio_net::{NetOptions, VirtioNet};

/// The type of network devices.
const NET: u16 = 1;

static PATH: SetOnce<&'static Net> = SetOnce::new();

/// What a tenant's traffic was, where there is a network.
pub fn statistics_of(activity: ActivityId) -> NetStatistics {
    PATH.get().and_then(|net| net.statistics_of(activity)).unwrap_or_default()
}

/// Starts the zone's first network device and the path above it. Without a device there is no network.
pub fn start(system: &'static System) -> Option<Network> {
    let ours = virtio_devices(NET).find(|(_, function)| function.is_ok());
    let (address, function) = ours.or_else(|| virtio_devices(NET).next())?;
    match function.and_then(open) {
        Ok(device) => {
            let network = connect(system.engine, Box::leak(Box::new(device)), settings(system))?;
            PATH.set(network.net);
            Some(network)
        }
        Err(error) => {
            pci::tell("network device", address, error);
            None
        }
    }
}

fn open(function: Function) -> Result<VirtioNet, DeviceError> {
    let transport = PciTransport::new(function)?;
    VirtioNet::new(Box::new(transport), 0, NetOptions::default())
}

fn settings(system: &System) -> Settings {
    let tenants = system.activities.iter().zip(&system.machine.tenants);
    Settings {
        addresses: tenants.map(|(activity, tenant)| (*activity, tenant.address)).collect(),
        gateway: system.machine.link.gateway,
        prefix: system.machine.link.prefix_bits,
        tenant_of,
    }
}
