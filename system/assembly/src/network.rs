//! The network path in the grid: the device behind a gate by bytes, demultiplexing, TCP, UDP, ICMP.

use alloc::boxed::Box;
use alloc::vec::Vec;
use gyre_account::{ActivityId, ActivityParams, ResourceId};
use gyre_engine::{Engine, ResourceHandle};
use gyre_interface::link::link;
use gyre_interface::tcp::tcp;
use gyre_interface::udp::udp;
use gyre_message::{Link, Port, WaitQueue};
use gyre_net::protocols::{icmp_input, net_write, tcp_input, tcp_timer, udp_input};
use gyre_net::{Net, NetConfig, NetLimits, NetPorts};
use gyre_schedulers::Metric;
use gyre_virtio_net::VirtioNet;

/// The weight of frames that are for nobody, beside the tenants'.
const UNOWNED_WEIGHT: u32 = 1;

/// What the path needs to know of the machine.
pub struct Settings {
    /// Who owns which address.
    pub addresses: Vec<(ActivityId, [u8; 4])>,
    /// The router.
    pub gateway: [u8; 4],
    /// Bits of the network's prefix.
    pub prefix: u8,
    /// The tenant of an activity.
    pub tenant_of: fn(ActivityId) -> ActivityId,
}

/// What tenants get of it.
#[derive(Clone, Copy)]
pub struct Network {
    /// TCP.
    pub tcp: tcp::Client,
    /// UDP.
    pub udp: udp::Client,
    /// The path, for its figures.
    pub net: &'static Net,
}

fn resource(engine: &Engine, name: &str) -> ResourceId {
    engine.resource(name).unwrap_or(ResourceId(0))
}

/// Puts the path above a device. `None` where there is no place for the activity that pays for frames for nobody.
pub fn connect(engine: &'static Engine, device: &'static VirtioNet, settings: Settings) -> Option<Network> {
    let unowned = ActivityParams { weight: UNOWNED_WEIGHT, ..ActivityParams::default() };
    let unowned = engine.accounts().activities.create(None, "unowned", unowned).ok()?;
    let net = Net::new(NetConfig {
        link_write: writer(engine, device),
        properties: device.properties(),
        addresses: settings.addresses,
        unowned,
        gateway: settings.gateway,
        prefix: settings.prefix,
        tenant_of: settings.tenant_of,
        limits: NetLimits::default(),
    });
    net.connect(ports(engine, net));
    let infrastructure = ActivityId::INFRASTRUCTURE;
    engine.spawn_for(resource(engine, "network_read"), infrastructure, net.read_frames(device));
    engine.spawn_for(resource(engine, "tcp_timer"), infrastructure, net.keep_time());
    let (tcp, udp) = (resource(engine, "tcp"), resource(engine, "udp"));
    Some(Network {
        tcp: tcp::Client::new(Link::new(engine.port(tcp, move |request| tcp::serve(&net.tcp, request)))),
        udp: udp::Client::new(Link::new(engine.port(udp, move |request| udp::serve(&net.udp, request)))),
        net,
    })
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
