//! The network path: the first virtio network device, or the link to a supervisor whose card carries our frames.

use crate::base::Base;
use crate::pci::{self, Function, functions};
use crate::seats;
use alloc::boxed::Box;
use alloc::vec::Vec;
use gyre_account::ActivityId;
use gyre_assembly::network::{Door, Network, Protection, Refusal, Settings, connect, connect_nothing, connect_uplink};
use gyre_contract::boot::{self, Overload, Way};
use gyre_device::InterruptLine;
use gyre_interface::link::LinkProperties;
use gyre_machine::{DeviceError, PciAddress};
use gyre_net::LinkId;
use gyre_virtio::pci::{PciTransport, is_device};
use gyre_virtio_net::{DEVICE_KIND, NetOptions, VirtioNet};
use gyre_zone_link::ZoneLink;

/// The core that takes the interrupts of an uplink: it never leaves.
const CORE: usize = 0;
/// Largest packet on the segment, bytes.
const MTU_BYTES: usize = 1500;

/// The link to the supervisor of an instance without a card.
#[derive(Clone, Copy)]
pub struct Uplink {
    /// Its number in the path.
    pub id: LinkId,
    /// Its device.
    pub device: &'static ZoneLink,
}

/// The network, and its way to the segment.
#[derive(Clone, Copy, Default)]
pub struct Started {
    /// The path.
    pub network: Option<Network>,
    /// See there.
    pub uplink: Option<Uplink>,
    /// The card, with its place.
    pub card: Option<(PciAddress, &'static VirtioNet)>,
}

/// Starts the network. Without a device there is none, but in a zone: one can be attached to it.
pub fn start(base: &Base) -> Started {
    match base.machine.link.way {
        Way::Card => start_card(base).unwrap_or_else(|| start_without(base)),
        Way::Supervisor => start_uplink(base),
    }
}

/// Starts the path of a zone above no card. Links to other instances work as with one.
fn start_without(base: &Base) -> Started {
    if gyre_x86_64::zone_page().is_none() {
        return Started::default();
    }
    log::info!("there is no network card: the network waits for one");
    Started { network: connect_nothing(base.engine, properties(base), settings(base)), ..Started::default() }
}

/// Properties of a way to the segment that is not a card of this instance.
fn properties(base: &Base) -> LinkProperties {
    let mac = base.machine.link.mac;
    LinkProperties { mac, mtu_bytes: MTU_BYTES, checksum_offload: false, segmentation_bytes_max: 0 }
}

/// Starts the path above the link to the supervisor, which comes up by an offer (`zones/links.rs`).
fn start_uplink(base: &Base) -> Started {
    let Ok(line) = gyre_x86_64::reserve_line(CORE) else {
        log::error!("there is no network: the first core has no interrupt line left");
        return Started::default();
    };
    let device: &'static ZoneLink = Box::leak(Box::new(ZoneLink::new(InterruptLine { core: CORE, line })));
    match connect_uplink(base.engine, device, properties(base), settings(base)) {
        Some((network, id)) => Started { network: Some(network), uplink: Some(Uplink { id, device }), card: None },
        None => Started::default(),
    }
}

/// Starts the zone's first network device and the path above it.
fn start_card(base: &Base) -> Option<Started> {
    let is_for_cells = |address: PciAddress| seats::card::addresses(base.machine).any(|other| other == address);
    let cards = || functions(|id| is_device(id, DEVICE_KIND)).filter(|(address, _)| !is_for_cells(*address));
    let ours = cards().find(|(_, function)| function.is_ok());
    let (address, function) = ours.or_else(|| cards().next())?;
    match function.and_then(open) {
        Ok(device) => {
            let device: &'static VirtioNet = Box::leak(Box::new(device));
            let network = connect(base.engine, device, settings(base))?;
            Some(Started { network: Some(network), uplink: None, card: Some((address, device)) })
        }
        Err(error) => {
            pci::tell("network device", address, error);
            None
        }
    }
}

/// Starts a card.
///
/// # Errors
/// Those of the driver.
pub fn open(function: Function) -> Result<VirtioNet, DeviceError> {
    let transport = PciTransport::new(function)?;
    VirtioNet::new(Box::new(transport), 0, NetOptions::default())
}

/// Tenants with an overload controller.
fn protected(base: &Base) -> Vec<(ActivityId, Protection)> {
    let tenants = base.activities.iter().zip(&base.machine.tenants);
    tenants.filter_map(|(activity, tenant)| Some((*activity, protection(&tenant.overload?)))).collect()
}

fn protection(overload: &Overload) -> Protection {
    let refusal = match overload.refuse {
        boot::Refusal::Silence => Refusal::Silence,
        boot::Refusal::Reset => Refusal::Reset,
    };
    Protection { delay_ns: overload.delay_ns, refusal }
}

/// Tenants that reach some of their neighbours only.
fn doors(base: &Base) -> Vec<(ActivityId, Door)> {
    let tenants = base.activities.iter().zip(&base.machine.tenants);
    let closed = tenants.filter_map(|(activity, tenant)| match &tenant.neighbours {
        boot::Neighbours::All => None,
        boot::Neighbours::Named { calls, callers } => {
            Some((*activity, Door::Closed { calls: calls.clone(), callers: callers.clone() }))
        }
    });
    closed.collect()
}

fn settings(base: &Base) -> Settings {
    let tenants = base.activities.iter().zip(&base.machine.tenants);
    Settings {
        addresses: tenants.map(|(activity, tenant)| (*activity, tenant.address)).collect(),
        gateway: base.machine.link.gateway,
        prefix: base.machine.link.prefix_bits,
        tenant_of: base.payer,
        protected: protected(base),
        doors: doors(base),
    }
}
