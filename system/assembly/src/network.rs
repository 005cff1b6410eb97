//! The network path in the grid: the device behind its resource, demultiplexing, TCP, UDP, ICMP.

use crate::grid::id;
use alloc::vec::Vec;
use gyre_account::{ActivityId, ActivityParams, PayerOf};
use gyre_contract::catalogue::Resource;
use gyre_device::LinkDevice;
use gyre_engine::Engine;
use gyre_interface::icmp::icmp;
use gyre_interface::link::{LinkProperties, link};
use gyre_interface::tcp::tcp;
use gyre_interface::udp::udp;
use gyre_link::Places;
use gyre_message::{Labels, Link, Port};
use gyre_net::protocols::{icmp_input, net_write, tcp_input, tcp_timer, udp_input};
use gyre_net::{CardConfig, LinkConfig, LinkId, Net, NetConfig, NetLimits, NetPorts, NoRoute};
pub use gyre_net::{CardId, Guest, Role};
pub use gyre_net::{Door, Protection, Refusal};

/// The weight of frames that are for nobody, beside the tenants'.
const UNOWNED_WEIGHT: u32 = 1;

/// Facts of the machine that the path needs.
pub struct Settings {
    /// The address of each tenant.
    pub addresses: Vec<(ActivityId, [u8; 4])>,
    /// The router.
    pub gateway: [u8; 4],
    /// Bits of the network's prefix.
    pub prefix: u8,
    /// Tells the tenant of an activity.
    pub tenant_of: PayerOf,
    /// Tenants whose listeners have an overload controller.
    pub protected: Vec<(ActivityId, Protection)>,
    /// Tenants that reach some of their neighbours only.
    pub doors: Vec<(ActivityId, Door)>,
}

/// The services of the path.
#[derive(Clone, Copy)]
pub struct Network {
    /// TCP.
    pub tcp: tcp::Client,
    /// UDP.
    pub udp: udp::Client,
    /// ICMP, and what tenants may know of their network.
    pub icmp: icmp::Client,
    /// The path, for its figures.
    pub net: &'static Net,
}

/// Puts the path above a device. Returns `None` if there is no place for the activity that pays for frames for nobody.
pub fn connect(engine: &'static Engine, device: &'static impl LinkDevice, settings: Settings) -> Option<Network> {
    let places = Places { resource: id(Resource::NetworkWrite), interrupts: id(Resource::DeviceInterrupt) };
    let write = gyre_link::attach(engine, places, device);
    let network = path(engine, Segment { write, properties: device.properties() }, settings)?;
    engine.spawn_for(id(Resource::NetworkRead), ActivityId::INFRASTRUCTURE, network.net.read_frames(device));
    Some(network)
}

/// Puts the path above a link that is its way to the segment too, as if a card with these properties were there. The link is down.
pub fn connect_uplink(
    engine: &'static Engine,
    device: &'static impl LinkDevice,
    card: LinkProperties,
    settings: Settings,
) -> Option<(Network, LinkId)> {
    let places = Places { resource: id(Resource::NetworkWrite), interrupts: id(Resource::DeviceInterrupt) };
    let write = gyre_link::attach(engine, places, device);
    let network = path(engine, Segment { write, properties: card }, settings)?;
    let config = LinkConfig { write, properties: device.properties(), role: Role::Uplink };
    let link = network.net.add_link(config).ok()?;
    engine.spawn_for(id(Resource::NetworkRead), ActivityId::INFRASTRUCTURE, network.net.read_link(link, device));
    Some((network, link))
}

/// Puts the path above nothing, as if a card with these properties had left: there is no way to the segment until another one comes. Returns
/// `None` as [`connect`] does.
pub fn connect_nothing(engine: &'static Engine, card: LinkProperties, settings: Settings) -> Option<Network> {
    let network = path(engine, Segment { write: link::Client::new(link_of(&Nowhere)), properties: card }, settings)?;
    network.net.disconnect_card();
    Some(network)
}

/// The way out of a path without a card: nothing is taken. The path sends nothing while no card is in use.
struct Nowhere;

impl<R> Port<R> for Nowhere {
    fn send(&self, _request: R, _labels: Labels) {}
}

/// The way to the segment.
struct Segment {
    write: link::Client,
    properties: LinkProperties,
}

fn path(engine: &'static Engine, segment: Segment, settings: Settings) -> Option<Network> {
    let unowned = ActivityParams { weight: UNOWNED_WEIGHT, ..ActivityParams::default() };
    let unowned = engine.accounts().activities.create(None, "unowned", unowned).ok()?;
    let net = Net::new(NetConfig {
        link_write: segment.write,
        properties: segment.properties,
        addresses: settings.addresses,
        unowned,
        gateway: settings.gateway,
        prefix: settings.prefix,
        tenant_of: settings.tenant_of,
        limits: NetLimits::default(),
        protected: settings.protected,
        doors: settings.doors,
    });
    net.connect(ports(engine, net));
    let infrastructure = ActivityId::INFRASTRUCTURE;
    engine.spawn_for(id(Resource::TcpTimer), infrastructure, net.keep_time());
    let (tcp, udp, icmp) = (id(Resource::Tcp), id(Resource::Udp), id(Resource::Icmp));
    Some(Network {
        tcp: tcp::Client::new(Link::new(engine.port(tcp, move |request| tcp::serve(&net.tcp, request)))),
        udp: udp::Client::new(Link::new(engine.port(udp, move |request| udp::serve(&net.udp, request)))),
        icmp: icmp::Client::new(Link::new(engine.port(icmp, move |request| icmp::serve(&net.icmp, request)))),
        net,
    })
}

/// Puts a gate before a card that is under no path: whoever has the client sends, and reads its frames.
pub fn attach_card(engine: &'static Engine, device: &'static impl LinkDevice) -> link::Client {
    let places = Places { resource: id(Resource::NetworkWrite), interrupts: id(Resource::DeviceInterrupt) };
    gyre_link::attach(engine, places, device)
}

/// Puts another card under the path: a gate of its own and a reader. It is not in use.
///
/// # Errors
/// [`NoRoute`] if there were too many cards.
pub fn add_card(
    engine: &'static Engine,
    net: &'static Net,
    device: &'static impl LinkDevice,
) -> Result<CardId, NoRoute> {
    let places = Places { resource: id(Resource::NetworkWrite), interrupts: id(Resource::DeviceInterrupt) };
    let write = gyre_link::attach(engine, places, device);
    let card = net.add_card(CardConfig { write, properties: device.properties() })?;
    engine.spawn_for(id(Resource::NetworkRead), ActivityId::INFRASTRUCTURE, net.read_frames(device));
    Ok(card)
}

/// Puts a link to another instance beside the device: a gate of its own, a reader, a way for addresses. It is down.
///
/// # Errors
/// [`NoRoute`] if there are too many links.
pub fn add_link(
    engine: &'static Engine,
    net: &'static Net,
    device: &'static impl LinkDevice,
    role: Role,
) -> Result<LinkId, NoRoute> {
    let places = Places { resource: id(Resource::ZoneLink), interrupts: id(Resource::DeviceInterrupt) };
    let write = gyre_link::attach(engine, places, device);
    let link = net.add_link(LinkConfig { write, properties: device.properties(), role })?;
    engine.spawn_for(id(Resource::NetworkRead), ActivityId::INFRASTRUCTURE, net.read_link(link, device));
    Ok(link)
}

fn ports(engine: &'static Engine, net: &'static Net) -> NetPorts {
    let tcp = engine.port(id(Resource::Tcp), move |request| tcp_input::serve(&net.tcp, request));
    let udp = engine.port(id(Resource::Udp), move |request| udp_input::serve(&net.udp, request));
    let icmp = engine.port(id(Resource::Icmp), move |request| icmp_input::serve(&net.icmp, request));
    let timer = engine.port(id(Resource::TcpTimer), move |request| tcp_timer::serve(&net.timer, request));
    let write = engine.port(id(Resource::NetworkPrepare), move |request| net_write::serve(&net.writer, request));
    NetPorts {
        tcp_input: tcp_input::Client::new(link_of(tcp)),
        udp_input: udp_input::Client::new(link_of(udp)),
        icmp_input: icmp_input::Client::new(link_of(icmp)),
        tcp_timer: tcp_timer::Client::new(link_of(timer)),
        net_write: net_write::Client::new(link_of(write)),
    }
}

fn link_of<R>(port: &'static dyn Port<R>) -> Link<R> {
    Link::new(port)
}
