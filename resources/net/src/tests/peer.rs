//! smoltcp at the other end of the wire.

use super::rig::{PEER_IP, PEER_MAC, Wire, pattern, stream};
use gyre_message::{sleep_ns, spawn};
use gyre_object::SpinLock;
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::{tcp, udp};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, IpAddress, IpCidr, Ipv4Address};
use std::boxed::Box;
use std::vec::Vec;

struct Port(&'static Wire);
struct Received(Vec<u8>);
struct Sending(&'static Wire);

impl RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(&self.0)
    }
}

impl TxToken for Sending {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, write: F) -> R {
        let mut frame = vec![0; len];
        let result = write(&mut frame);
        self.0.to_us.lock().put(&mut self.0.faults.lock(), frame);
        result
    }
}

impl Device for Port {
    type RxToken<'a> = Received;
    type TxToken<'a> = Sending;

    fn receive(&mut self, _: Instant) -> Option<(Received, Sending)> {
        let frame = self.0.to_peer.lock().take()?;
        Some((Received(frame), Sending(self.0)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Sending> {
        Some(Sending(self.0))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = 1514;
        capabilities
    }
}

/// What the peer does with one TCP socket: sends `send` bytes of the pattern, reads and checks what comes, closes at the end.
pub struct Job {
    pub handle: SocketHandle,
    pub send: usize,
    pub sent: usize,
    pub read: usize,
    pub finished: bool,
}

/// smoltcp and its sockets.
pub struct Peer {
    device: Port,
    interface: Interface,
    pub sockets: SocketSet<'static>,
    pub jobs: Vec<Job>,
    next_port: u16,
}

fn clock() -> Instant {
    Instant::from_micros((gyre_machine::now() / 1000) as i64)
}

fn endpoint(address: [u8; 4], port: u16) -> (IpAddress, u16) {
    (IpAddress::Ipv4(Ipv4Address::from(address)), port)
}

impl Peer {
    pub fn new(wire: &'static Wire) -> &'static SpinLock<Peer> {
        let mut device = Port(wire);
        let config = Config::new(EthernetAddress(PEER_MAC).into());
        let mut interface = Interface::new(config, &mut device, clock());
        interface.update_ip_addrs(|addresses| {
            addresses.push(IpCidr::new(Ipv4Address::from(PEER_IP).into(), 24)).unwrap();
        });
        Box::leak(Box::new(SpinLock::new(Peer {
            device,
            interface,
            sockets: SocketSet::new(Vec::new()),
            jobs: Vec::new(),
            next_port: 50_000,
        })))
    }

    /// Lets it work for ever; call inside `block_on`.
    pub fn start(peer: &'static SpinLock<Peer>) {
        let wire = peer.lock().device.0;
        spawn(async move {
            loop {
                peer.lock().poll();
                let period = *wire.period_ns.lock();
                sleep_ns(period).await;
            }
        });
    }

    fn socket(&mut self) -> SocketHandle {
        let buffer = || tcp::SocketBuffer::new(vec![0; 64 << 10]);
        let mut socket = tcp::Socket::new(buffer(), buffer());
        socket.set_congestion_control(tcp::CongestionControl::Reno);
        self.sockets.add(socket)
    }

    fn job(&mut self, handle: SocketHandle, send: usize) -> usize {
        self.jobs.push(Job { handle, send, sent: 0, read: 0, finished: false });
        self.jobs.len() - 1
    }

    pub fn connect(&mut self, to: [u8; 4], port: u16, send: usize) -> usize {
        let handle = self.socket();
        self.next_port += 1;
        let socket = self.sockets.get_mut::<tcp::Socket>(handle);
        socket.connect(self.interface.context(), endpoint(to, port), self.next_port).unwrap();
        self.job(handle, send)
    }

    pub fn listen(&mut self, port: u16, send: usize) -> usize {
        let handle = self.socket();
        self.sockets.get_mut::<tcp::Socket>(handle).listen(port).unwrap();
        self.job(handle, send)
    }

    pub fn bind_udp(&mut self, port: u16) -> SocketHandle {
        let buffer = || udp::PacketBuffer::new(vec![udp::PacketMetadata::EMPTY; 64], vec![0; 128 << 10]);
        let mut socket = udp::Socket::new(buffer(), buffer());
        socket.bind(port).unwrap();
        self.sockets.add(socket)
    }

    pub fn poll(&mut self) {
        // ingress one by one: the default budget would leave frames for the next millisecond
        while !matches!(
            self.interface.poll(clock(), &mut self.device, &mut self.sockets),
            smoltcp::iface::PollResult::None
        ) {
            self.jobs.iter_mut().for_each(|job| job.work(&mut self.sockets));
        }
        self.jobs.iter_mut().for_each(|job| job.work(&mut self.sockets));
    }
}

impl Job {
    fn work(&mut self, sockets: &mut SocketSet<'static>) {
        let socket = sockets.get_mut::<tcp::Socket>(self.handle);
        while socket.can_recv() {
            let _ = socket.recv(|data| {
                for byte in data.iter() {
                    assert_eq!(*byte, pattern(self.read), "byte {} at the peer", self.read);
                    self.read += 1;
                }
                (data.len(), ())
            });
        }
        while socket.can_send() && self.sent < self.send {
            let chunk = stream(self.sent, (self.send - self.sent).min(4000));
            match socket.send_slice(&chunk).unwrap() {
                0 => break,
                sent => self.sent += sent,
            }
        }
        if self.sent == self.send && !self.finished && socket.may_send() {
            self.finished = true;
            socket.close();
        }
    }
}
