//! Network cards that cells can have. The kernel keeps them, and its own path uses none of them.

use crate::base::Base;
use crate::network;
use crate::pci::{self, functions};
use alloc::boxed::Box;
use gyre_assembly::network::attach_card;
use gyre_cell_abi::card::{CardFacts, FRAME_BYTES_MIN};
use gyre_cell_device::Wire;
use gyre_contract::boot::Machine;
use gyre_contract::zones::DeviceAddress;
use gyre_device::LinkDevice;
use gyre_interface::link::link;
use gyre_machine::PciAddress;
use gyre_virtio::pci::is_device;
use gyre_virtio_net::{DEVICE_KIND, VirtioNet};

/// A card.
#[derive(Clone, Copy)]
pub struct Card {
    client: link::Client,
    device: &'static VirtioNet,
}

impl Card {
    /// Starts the card at an address; `None` if there is none, or it does not start.
    pub fn start(base: &Base, at: PciAddress) -> Option<Card> {
        let (_, function) = functions(|id| is_device(id, DEVICE_KIND)).find(|(address, _)| *address == at)?;
        let opened =
            function.and_then(network::open).inspect_err(|error| pci::tell("network card for cells", at, *error));
        let device: &'static VirtioNet = Box::leak(Box::new(opened.ok()?));
        Some(Card { client: attach_card(base.engine, device), device })
    }

    /// Returns what a cell is told.
    pub fn facts(&self) -> CardFacts {
        let frame_bytes_max = u16::try_from(self.frame_bytes_max()).unwrap_or(u16::MAX);
        CardFacts { mac: self.device.properties().mac, frame_bytes_max, reserved: 0 }
    }

    fn frame_bytes_max(&self) -> usize {
        self.device.properties().mtu_bytes.saturating_add(FRAME_BYTES_MIN)
    }

    /// Returns the card as the service of a cell sees it.
    pub fn wire(&self) -> Wire<VirtioNet> {
        Wire {
            client: self.client,
            frames: self.device,
            has_room: VirtioNet::has_room,
            mac: self.device.properties().mac,
            frame_bytes_max: self.frame_bytes_max(),
        }
    }
}

/// Returns the places of the devices of cells, disks and cards, in the order of the machine file.
pub fn addresses(machine: &Machine) -> impl Iterator<Item = PciAddress> + '_ {
    let address =
        |device: &DeviceAddress| PciAddress { bus: device.bus, device: device.device, function: device.function };
    machine.cells_devices.iter().map(address)
}
