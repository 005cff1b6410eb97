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
use gyre_interface::tcp::{Endpoint, NetError};
use gyre_object::Bytes;

impl udp_input::Server for Udp {
    async fn datagram(&'static self, packet: Packet) -> Result<(), NetError> {
        let counters = &packet.tenant.counters;
        let Some(header) = udp::Header::read_beside(packet.body.as_slice(), packet.body_bytes()) else {
            counters.drop(DropReason::Malformed);
            return Err(NetError::Invalid);
        };
        if !packet.is_local && header.has_checksum && !is_intact(&packet, &header) {
            counters.drop(DropReason::Checksum);
            return Err(NetError::Invalid);
        }
        let from = Endpoint { address: packet.header.source, port: header.source_port };
        let Some(socket) = find(packet.tenant, packet.header.destination, header.destination_port, from) else {
            counters.drop(DropReason::NoSocket);
            if packet.tenant.may_complain(now_ns()) {
                self.shared.send_unreachable(&packet, CODE_PORT);
            }
            return Err(NetError::Refused);
        };
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
        let peer = Endpoint { address: quoted.destination, port: quoted.ports.1 };
        let socket = find(tenant, quoted.source, quoted.ports.0, peer).ok_or(NetError::Unknown)?;
        socket.fail(error);
        Ok(())
    }
}

/// Who takes a datagram; several that share a port divide the senders.
fn find(tenant: &Tenant, address: Ip, port: u16, from: Endpoint) -> Option<Arc<UdpSocket>> {
    let ports = tenant.ports.lock();
    let sockets = ports.datagrams.get(&port)?;
    let fits = |socket: &&Arc<UdpSocket>| socket.takes(address);
    let count = sockets.iter().filter(fits).count();
    let spread = u32::from_be_bytes(from.address).wrapping_add(u32::from(from.port)).wrapping_mul(0x9e37_79b9) >> 8;
    sockets.iter().filter(fits).nth((spread as usize).checked_rem(count)?).cloned()
}

fn is_intact(packet: &Packet, header: &udp::Header) -> bool {
    let mut sum = Sum::pseudo(packet.header.source, packet.header.destination, ipv4::PROTOCOL_UDP, header.total_bytes);
    sum.add(packet.body.slice(0, header.total_bytes).as_slice());
    sum.is_intact()
}

/// The payload in one piece.
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
