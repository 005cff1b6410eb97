//! The network path: virtio-net behind a gate by bytes, demultiplexing, TCP, UDP, ICMP.

use crate::assembly::System;
use crate::host::tenant_of;
use crate::pci::{self, Function, virtio_devices};
use alloc::boxed::Box;
use alloc::vec::Vec;
use gyre_account::{ActivityId, ActivityParams, ResourceId};
use gyre_engine::{Engine, ResourceHandle};
use gyre_interface::link::{LinkProperties, link};
use gyre_interface::tcp::tcp;
use gyre_interface::udp::udp;
use gyre_machine::DeviceError;
use gyre_message::{Link, Port, WaitQueue};
use gyre_net::protocols::{icmp_input, net_write, tcp_input, tcp_timer, udp_input};
use gyre_net::{Net, NetConfig, NetLimits, NetPorts, NetStatistics};
use gyre_object::SetOnce;
use gyre_schedulers::Metric;
use gyre_virtio::pci::PciTransport;
use gyre_virtio_net::{NetOptions, VirtioNet};

/// The type of network devices.
const NET: u16 = 1;
/// The weight of frames that are for nobody, beside the tenants'.
const UNOWNED_WEIGHT: u32 = 1;

/// What tenants get of it.
#[derive(Clone, Copy)]
pub struct Network {
    /// TCP.
    pub tcp: tcp::Client,
    /// UDP.
    pub udp: udp::Client,
}

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
        Ok(device) => connect(system, Box::leak(Box::new(device))),
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

fn resource(engine: &Engine, name: &str) -> ResourceId {
    engine.resource(name).unwrap_or(ResourceId(0))
}

fn connect(system: &'static System, device: &'static VirtioNet) -> Option<Network> {
    let engine = system.engine;
    let unowned = ActivityParams { weight: UNOWNED_WEIGHT, ..ActivityParams::default() };
    let unowned = engine.accounts().activities.create(None, "unowned", unowned).ok()?;
    let net = Net::new(config(system, device.properties(), unowned, writer(engine, device)));
    net.connect(ports(engine, net));
    PATH.set(net);
    let infrastructure = ActivityId::INFRASTRUCTURE;
    engine.spawn_for(resource(engine, "network_read"), infrastructure, net.read_frames(device));
    engine.spawn_for(resource(engine, "tcp_timer"), infrastructure, net.keep_time());
    let (tcp, udp) = (resource(engine, "tcp"), resource(engine, "udp"));
    Some(Network {
        tcp: tcp::Client::new(Link::new(engine.port(tcp, move |request| tcp::serve(&net.tcp, request)))),
        udp: udp::Client::new(Link::new(engine.port(udp, move |request| udp::serve(&net.udp, request)))),
    })
}

fn config(system: &System, properties: LinkProperties, unowned: ActivityId, link_write: link::Client) -> NetConfig {
    let tenants = system.activities.iter().zip(&system.machine.tenants);
    let addresses: Vec<_> = tenants.map(|(activity, tenant)| (*activity, tenant.address)).collect();
    NetConfig {
        link_write,
        properties,
        addresses,
        unowned,
        gateway: system.machine.link.gateway,
        prefix: system.machine.link.prefix_bits,
        tenant_of,
        limits: NetLimits::default(),
    }
}

/// The device as its writer sees it, with its interrupt.
fn writer(engine: &'static Engine, device: &'static VirtioNet) -> link::Client {
    let write = resource(engine, "network_write");
    let handle = engine.handle(write);
    let completed: &'static WaitQueue = Box::leak(Box::default());
    engine.on_interrupt(
        0,
        device.line(),
        Box::new(move || {
            if device.acknowledge(handle.is_waited_for()) {
                completed.wake_all();
            }
            device.wake_reader();
        }),
    );
    let interrupts = resource(engine, "device_interrupt");
    engine.spawn_for_on(0, interrupts, ActivityId::INFRASTRUCTURE, move || complete(device, completed, handle));
    engine.spawn_for_on(0, interrupts, ActivityId::INFRASTRUCTURE, move || device.watch(move || go_on(device, handle)));
    link::Client::new(Link::new(engine.port(write, move |request| transmit(engine, handle, device, request))))
}

/// Takes what the device is done with, where somebody waits for room.
async fn complete(device: &'static VirtioNet, completed: &'static WaitQueue, handle: ResourceHandle) {
    loop {
        let next = completed.wait();
        device.go_on_sending();
        go_on(device, handle);
        next.await;
    }
}

/// Lets suspended senders go on. Interrupts for received frames come here too: what waits to send waits until it is worth it.
fn go_on(device: &VirtioNet, handle: ResourceHandle) {
    if handle.is_waited_for() && device.is_half_free() {
        handle.resume();
    }
}

/// Hands a frame to the device once its ring has room; until then the gate's scheduler decides whose is next.
async fn transmit(engine: &'static Engine, handle: ResourceHandle, device: &'static VirtioNet, request: link::Request) {
    if let link::Request::transmit { frame, .. } = &request {
        let bytes = frame.link_bytes() as u64;
        handle.until_accepted(|| device.has_room().then_some(())).await;
        engine.report(Metric::Bytes, bytes);
    }
    link::serve(device, request).await;
}

fn ports(engine: &'static Engine, net: &'static Net) -> NetPorts {
    let tcp = engine.port(resource(engine, "tcp"), move |request| tcp_input::serve(&net.tcp, request));
    let udp = engine.port(resource(engine, "udp"), move |request| udp_input::serve(&net.udp, request));
    let icmp = engine.port(resource(engine, "icmp"), move |request| icmp_input::serve(&net.icmp, request));
    let timer = engine.port(resource(engine, "tcp_timer"), move |request| tcp_timer::serve(&net.timer, request));
    let write = engine.port(resource(engine, "network_prepare"), move |request| net_write::serve(&net.writer, request));
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
