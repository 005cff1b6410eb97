//! Datagrams that arrive.

use super::{Udp, UdpSocket};
use crate::packet::Packet;
use crate::protocols::udp_input;
use crate::shared::now_ns;
use crate::statistics::DropReason;
use crate::tenant::Tenant;
use crate::wire::icmp::{CODE_PORT, Quoted};
use crate::wire::{Ip, Sum, ipv4, udp};
use alloc::sync::Arc;
use gyre_interface::Ready;
use gyre_interface::tcp::{NetError, SocketAddress};
use gyre_interface::udp::Kind;
use gyre_object::Bytes;

impl udp_input::Server for Udp {
    async fn datagram(&'static self, packet: Packet) -> Result<(), NetError> {
        let counters = &packet.tenant.counters;
        let kind = kind_of(packet.header.protocol);
        let Some(header) = read(kind, &packet) else {
            counters.drop(DropReason::Malformed);
            return Err(NetError::Invalid);
        };
        if !packet.origin.is_unsummed() && !is_intact(kind, &packet, &header) {
            counters.drop(DropReason::Checksum);
            return Err(NetError::Invalid);
        }
        let from = SocketAddress { address: packet.header.source, port: header.source_port };
        let Some(socket) = find(packet.tenant, packet.header.destination, (kind, header.destination_port), from) else {
            counters.drop(DropReason::NoSocket);
            if packet.tenant.may_complain(now_ns()) {
                self.shared.send_unreachable(&packet, CODE_PORT);
            }
            return Err(NetError::Refused);
        };
        if !socket.accepts(&header) {
            counters.drop(DropReason::Checksum);
            return Err(NetError::Invalid);
        }
        let Some(data) = payload(packet.body, packet.more, &header) else {
            counters.drop(DropReason::OutOfMemory);
            return Err(NetError::OutOfMemory);
        };
        if !socket.put(from, data) {
            counters.drop(DropReason::SocketFull);
            return Err(NetError::WouldBlock);
        }
        socket.readiness.set(Ready::READ);
        Ok(())
    }

    async fn unreachable(&'static self, quoted: Quoted, error: NetError) -> Result<(), NetError> {
        let tenant = self.shared.current_tenant()?;
        let peer = SocketAddress { address: quoted.destination, port: quoted.ports.1 };
        let port = (kind_of(quoted.protocol), quoted.ports.0);
        let socket = find(tenant, quoted.source, port, peer).ok_or(NetError::Unknown)?;
        socket.fail(error);
        Ok(())
    }
}

/// Returns the socket that takes a datagram; several that share a port divide the senders.
fn find(tenant: &Tenant, address: Ip, port: (Kind, u16), from: SocketAddress) -> Option<Arc<UdpSocket>> {
    let ports = tenant.ports.lock();
    let sockets = ports.datagrams.get(&port)?;
    let fits = |socket: &&Arc<UdpSocket>| socket.takes(address);
    let count = sockets.iter().filter(fits).count();
    let spread = u32::from_be_bytes(from.address).wrapping_add(u32::from(from.port)).wrapping_mul(0x9e37_79b9) >> 8;
    sockets.iter().filter(fits).nth((spread as usize).checked_rem(count)?).cloned()
}

fn kind_of(protocol: u8) -> Kind {
    match protocol {
        ipv4::PROTOCOL_UDP_LITE => Kind::Lite,
        _ => Kind::Udp,
    }
}

fn read(kind: Kind, packet: &Packet) -> Option<udp::Header> {
    let (data, bytes) = (packet.body.as_slice(), packet.body_bytes());
    match kind {
        Kind::Udp => udp::Header::read_beside(data, bytes),
        Kind::Lite => udp::Header::read_lite(data, bytes),
    }
}

/// Returns whether the checksum is right. UDP may have none, UDP-Lite may not (RFC 3828 section 3.1).
fn is_intact(kind: Kind, packet: &Packet, header: &udp::Header) -> bool {
    if !header.has_checksum {
        return kind == Kind::Udp;
    }
    let (source, destination) = (packet.header.source, packet.header.destination);
    let mut sum = Sum::pseudo(source, destination, packet.header.protocol, header.total_bytes);
    sum.add(packet.body.slice(0, header.covered_bytes).as_slice());
    sum.is_intact()
}

/// Returns the payload in one piece.
fn payload(body: Bytes, more: alloc::vec::Vec<Bytes>, header: &udp::Header) -> Option<Bytes> {
    let first = body.slice(udp::HEADER_BYTES, header.total_bytes);
    if more.is_empty() {
        return Some(first);
    }
    if first.is_empty() && more.len() == 1 {
        return more.into_iter().next();
    }
    let mut flat = first.as_slice().to_vec();
    more.iter().for_each(|piece| flat.extend_from_slice(piece.as_slice()));
    Bytes::copy_from(&flat).ok()
}
