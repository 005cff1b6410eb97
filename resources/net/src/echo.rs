//! Sockets of ICMP: echoes that programs ask for, raw messages, and what a tenant may know of its network.
//!
//! A socket is a queue of datagrams ([`UdpSocket`]): one of echoes has the identifier in the place of a port, one of all messages 0.
//! A program sends echoes, answers to them and time stamps, nothing that would end another's connection.
//!
//! * A message that arrives goes to the socket of its identifier if it answers an echo, and to every raw socket. A full queue loses it.
//! * A tenant has so many raw sockets ([`RAW_MAX`]): each costs a copy of every message. All count as its sockets.
//! * Facts are the tenant's own address, counters and interface, and the router's hardware address; no other neighbour's.

use crate::door::Approach;
use crate::icmp::Icmp;
use crate::limits::LOOPBACK_PACKET_BYTES;
use crate::packet::Packet;
use crate::receipt::Sender;
use crate::shared::{Shared, now_ns};
use crate::statistics::DropReason;
use crate::tcp_resource::free_port;
use crate::tenant::Tenant;
use crate::udp::{Look, UdpSocket};
use crate::wire::icmp::{ECHO_REPLY, ECHO_REQUEST, HEADER_BYTES};
use crate::wire::{Ip, ipv4};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use gyre_interface::Ready;
use gyre_interface::icmp::icmp::Server;
use gyre_interface::icmp::{Arrived, Facts, Passed, Wanted};
use gyre_interface::tcp::{NetError, Socket, SocketAddress, SocketId};
use gyre_interface::udp::Binding;
use gyre_object::Bytes;

/// Time stamps (RFC 792).
const TIME_STAMPS: [u8; 2] = [13, 14];
/// Sockets of all messages that a tenant may have: each gets a copy of every message.
const RAW_MAX: usize = 16;
/// The longest message, bytes.
const MESSAGE_BYTES_MAX: usize = 65_507;

impl Server for Icmp {
    async fn facts(&'static self) -> Result<Facts, NetError> {
        Ok(self.shared.facts_of(self.shared.current_tenant()?))
    }

    async fn open(&'static self, wanted: Wanted) -> Result<Socket, NetError> {
        let socket = self.enter(self.shared.current_tenant()?, wanted)?;
        self.sockets.lock().insert(socket.id.0, socket.clone());
        Ok(socket.socket())
    }

    async fn send(&'static self, socket: SocketId, to: Ip, message: Vec<u8>) -> Result<(), NetError> {
        let socket = self.socket(socket)?;
        let may = |kind: u8| matches!(kind, ECHO_REQUEST | ECHO_REPLY) || TIME_STAMPS.contains(&kind);
        if message.len() < HEADER_BYTES || !message.first().is_some_and(|kind| may(*kind)) {
            return Err(NetError::Invalid);
        }
        if message.len() > MESSAGE_BYTES_MAX {
            return Err(NetError::TooLong);
        }
        let to = if to == [0; 4] { socket.tenant.address } else { to };
        let approach = if message.first() == Some(&ECHO_REPLY) { Approach::Answer } else { Approach::Call };
        if !self.shared.has_way(socket.tenant, to, approach) || (224..=255).contains(&to[0]) {
            return Err(NetError::Unreachable);
        }
        if !socket.may_send(self.shared) {
            return Err(NetError::WouldBlock);
        }
        self.send_message(&socket, to, &message)
    }

    async fn receive(&'static self, socket: SocketId) -> Result<Arrived, NetError> {
        self.socket(socket)?.next(Look::Take).map(arrived)
    }

    async fn peek(&'static self, socket: SocketId) -> Result<Arrived, NetError> {
        self.socket(socket)?.next(Look::Peek).map(arrived)
    }

    async fn close(&'static self, socket: SocketId) -> Result<(), NetError> {
        let socket = self.socket(socket)?;
        if self.sockets.lock().remove(&socket.id.0).is_none() {
            return Err(NetError::Unknown);
        }
        let mut ports = socket.tenant.ports.lock();
        match socket.local.port {
            0 => ports.raw.retain(|other| !Arc::ptr_eq(other, &socket)),
            port => drop(ports.echoes.remove(&port)),
        }
        drop(ports);
        socket.tenant.give_socket();
        socket.readiness.set(Ready::HANG_UP);
        Ok(())
    }
}

fn arrived((from, message): (SocketAddress, Bytes)) -> Arrived {
    Arrived { from: from.address, message }
}

impl Icmp {
    /// Returns a socket of the current tenant. Others' sockets do not exist for it.
    fn socket(&self, id: SocketId) -> Result<Arc<UdpSocket>, NetError> {
        let tenant = self.shared.current_tenant()?;
        let found = self.sockets.lock().get(&id.0).cloned();
        found.filter(|socket| socket.tenant.index == tenant.index).ok_or(NetError::Unknown)
    }

    fn enter(&self, tenant: &'static Tenant, wanted: Wanted) -> Result<Arc<UdpSocket>, NetError> {
        let mut ports = tenant.ports.lock();
        let port = match wanted {
            Wanted::All if ports.raw.len() >= RAW_MAX => return Err(NetError::OutOfMemory),
            Wanted::All => 0,
            Wanted::Echoes(0) => {
                let mut start = [0; 4];
                gyre_machine::fill_random(&mut start);
                let is_free = |port| !ports.echoes.contains_key(&port);
                free_port(u32::from_le_bytes(start), is_free).ok_or(NetError::InUse)?
            }
            Wanted::Echoes(port) if ports.echoes.contains_key(&port) => return Err(NetError::InUse),
            Wanted::Echoes(port) => port,
        };
        tenant.take_socket()?;
        let id = SocketId(self.next.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let local = SocketAddress { address: [0; 4], port };
        let socket = Arc::new(UdpSocket::new(id, tenant, Binding::udp(local), 0));
        match port {
            0 => ports.raw.push(socket.clone()),
            port => drop(ports.echoes.insert(port, socket.clone())),
        }
        Ok(socket)
    }

    /// Sends a message; one of echoes bears its socket's identifier.
    fn send_message(&self, socket: &Arc<UdpSocket>, to: Ip, message: &[u8]) -> Result<(), NetError> {
        let (head, rest) = message.split_first_chunk::<HEADER_BYTES>().ok_or(NetError::Invalid)?;
        let mut head = *head;
        // the checksum is made anew
        (head[2], head[3]) = (0, 0);
        if socket.local.port != 0 {
            [head[4], head[5]] = socket.local.port.to_be_bytes();
        }
        let payload = match rest {
            [] => Vec::new(),
            rest => alloc::vec![Bytes::copy_from(rest).map_err(|_| NetError::OutOfMemory)?],
        };
        let source = self.shared.source_for(socket.tenant, to);
        let sender = Sender::Datagrams(socket.clone());
        self.shared.send_icmp_for(sender, socket.tenant, source, to, head, payload)
    }

    /// Hands a message to the sockets that want it. One whose queue is full loses it, and it is counted.
    pub(crate) fn deliver(&self, packet: &Packet) {
        let Some(whole) = whole_of(packet) else {
            return packet.tenant.counters.drop(DropReason::OutOfMemory);
        };
        let (echo, raw) = {
            let ports = packet.tenant.ports.lock();
            let identifier = whole.get(4..6).and_then(|two| two.try_into().ok()).map(u16::from_be_bytes);
            let is_answer = whole.first() == Some(&ECHO_REPLY);
            let echo = identifier.filter(|_| is_answer).and_then(|port| ports.echoes.get(&port).cloned());
            (echo, ports.raw.clone())
        };
        let from = SocketAddress { address: packet.header.source, port: 0 };
        if let Some(socket) = echo {
            put(&socket, from, &whole);
        }
        if !raw.is_empty() {
            let with_header = [&packet.header.bytes()[..], &whole].concat();
            raw.iter().for_each(|socket| put(socket, from, &with_header));
        }
    }
}

/// Returns a message in one piece.
fn whole_of(packet: &Packet) -> Option<Vec<u8>> {
    let mut whole = Vec::new();
    whole.try_reserve_exact(packet.body_bytes()).ok()?;
    whole.extend_from_slice(packet.body.as_slice());
    packet.more.iter().for_each(|piece| whole.extend_from_slice(piece.as_slice()));
    Some(whole)
}

fn put(socket: &UdpSocket, from: SocketAddress, message: &[u8]) {
    match Bytes::copy_from(message).map(|message| socket.put(from, message)) {
        Ok(true) => socket.readiness.set(Ready::READ),
        Ok(false) => socket.tenant.counters.drop(DropReason::SocketFull),
        Err(_) => socket.tenant.counters.drop(DropReason::OutOfMemory),
    }
}

impl Shared {
    fn facts_of(&self, tenant: &Tenant) -> Facts {
        let all = tenant.counters.read();
        let within = Passed {
            received_packets: all.local_packets,
            received_bytes: all.local_bytes,
            sent_packets: all.local_packets,
            sent_bytes: all.local_bytes,
            dropped: 0,
        };
        let gateway = self.config.gateway;
        let dropped = all.dropped.iter().fold(0_u64, |sum, count| sum.saturating_add(*count));
        Facts {
            address: tenant.address,
            prefix: self.config.prefix,
            gateway,
            gateway_mac: self.neighbours.table.lock().known(gateway, now_ns()),
            mac: self.cards.last().properties.mac,
            packet_bytes_max: u32::try_from(self.cards.last().properties.mtu_bytes).unwrap_or(u32::MAX),
            local_packet_bytes_max: LOOPBACK_PACKET_BYTES as u32,
            interface: Passed {
                received_packets: all.received_packets.saturating_sub(all.local_packets),
                received_bytes: all.received_bytes.saturating_sub(all.local_bytes),
                sent_packets: all.sent_packets.saturating_sub(all.local_packets),
                sent_bytes: all.sent_bytes.saturating_sub(all.local_bytes),
                dropped,
            },
            local: within,
            retransmissions: all.retransmissions,
            no_socket: all.dropped.get(DropReason::NoSocket as usize).copied().unwrap_or(0),
        }
    }
}

const _: () = assert!(MESSAGE_BYTES_MAX + ipv4::HEADER_BYTES <= LOOPBACK_PACKET_BYTES);
