//! The stack and its sockets.

use crate::device::{Ends, Port};
use smoltcp::iface::{Config, Interface, PollResult, SocketHandle, SocketSet};
use smoltcp::socket::{tcp, udp};
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{EthernetAddress, IpAddress, IpCidr, Ipv4Address};

/// Bytes of each TCP buffer.
const BUFFER_BYTES: usize = 64 << 10;

/// An address and a port, in smoltcp's words.
pub type Endpoint = (IpAddress, u16);

/// smoltcp and its sockets.
pub struct Stack<E> {
    device: Port<E>,
    interface: Interface,
    /// The sockets.
    pub sockets: SocketSet<'static>,
    next_port: u16,
    /// How long a connection lives without a word from its other end, ms; for ever if there is nothing.
    pub patience_ms: Option<u64>,
}

fn instant(now_ns: u64) -> Instant {
    Instant::from_micros((now_ns / 1000) as i64)
}

/// Returns an address and a port.
pub fn endpoint(address: [u8; 4], port: u16) -> Endpoint {
    (IpAddress::Ipv4(Ipv4Address::from(address)), port)
}

impl<E: Ends> Stack<E> {
    /// Makes a stack with a hardware address and an address in a network of 24 bits. Its numbers come from `seed`.
    pub fn new(ends: E, mac: [u8; 6], address: [u8; 4], seed: u64, now_ns: u64) -> Stack<E> {
        let mut device = Port { ends, now_ns };
        let mut config = Config::new(EthernetAddress(mac).into());
        config.random_seed = seed;
        let mut interface = Interface::new(config, &mut device, instant(now_ns));
        interface.update_ip_addrs(|addresses| {
            let own = IpCidr::new(Ipv4Address::from(address).into(), 24);
            addresses.push(own).expect("there is room for one address");
        });
        Stack { device, interface, sockets: SocketSet::new(Vec::new()), next_port: 50_000, patience_ms: None }
    }

    /// The ends of the wire that it was made with.
    pub fn ends(&mut self) -> &mut E {
        &mut self.device.ends
    }

    fn tcp(&mut self) -> SocketHandle {
        let buffer = || tcp::SocketBuffer::new(vec![0; BUFFER_BYTES]);
        let mut socket = tcp::Socket::new(buffer(), buffer());
        socket.set_congestion_control(tcp::CongestionControl::Reno);
        socket.set_timeout(self.patience_ms.map(Duration::from_millis));
        socket.set_keep_alive(self.patience_ms.map(|ms| Duration::from_millis(ms / 4)));
        self.sockets.add(socket)
    }

    /// Starts to connect, from a port of its own.
    pub fn connect(&mut self, to: [u8; 4], port: u16) -> SocketHandle {
        let handle = self.tcp();
        self.next_port += 1;
        let socket = self.sockets.get_mut::<tcp::Socket>(handle);
        let connected = socket.connect(self.interface.context(), endpoint(to, port), self.next_port);
        connected.expect("a fresh socket connects");
        handle
    }

    /// Listens for one connection.
    pub fn listen(&mut self, port: u16) -> SocketHandle {
        let handle = self.tcp();
        self.sockets.get_mut::<tcp::Socket>(handle).listen(port).expect("a fresh socket listens");
        handle
    }

    /// Opens a UDP socket at a port.
    pub fn bind_udp(&mut self, port: u16) -> SocketHandle {
        let buffer = || udp::PacketBuffer::new(vec![udp::PacketMetadata::EMPTY; 64], vec![0; 128 << 10]);
        let mut socket = udp::Socket::new(buffer(), buffer());
        socket.bind(port).expect("a fresh socket binds");
        self.sockets.add(socket)
    }

    /// Takes and sends what there is; false if nothing changed.
    pub fn poll(&mut self, now_ns: u64) -> bool {
        self.device.now_ns = now_ns;
        self.interface.poll(instant(now_ns), &mut self.device, &mut self.sockets) != PollResult::None
    }

    /// When it wants to be polled though no frame arrives, ns.
    pub fn poll_at(&mut self, now_ns: u64) -> Option<u64> {
        let at = self.interface.poll_at(instant(now_ns), &self.sockets)?;
        Some((at.total_micros().max(0) as u64).saturating_mul(1000))
    }
}
